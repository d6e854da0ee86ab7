use super::*;

/// A folder that the test changes, and the debouncer that scans it.
struct Scene {
    looks: FileDebouncer,
    start: Instant,
    files: BTreeMap<PathBuf, FileStamp>,
}

impl Scene {
    fn new() -> Self {
        Self { looks: FileDebouncer::default(), start: Instant::now(), files: BTreeMap::new() }
    }

    fn write(&mut self, name: &str, bytes: u64, at_ms: u64) {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1000) + Duration::from_millis(at_ms);
        self.files.insert(name.into(), FileStamp { bytes, modified });
    }

    fn look(&mut self, at_ms: u64) -> Vec<FileChange> {
        let at = Duration::from_millis(at_ms);
        self.looks.update(self.start + at, SystemTime::UNIX_EPOCH + Duration::from_secs(1000) + at, &self.files)
    }
}

fn changed(name: &str) -> Vec<FileChange> {
    vec![FileChange::Changed(name.into())]
}

#[test]
fn a_file_is_reported_once_after_two_equal_scans() {
    let mut scene = Scene::new();
    scene.write("a", 1, 0);
    assert_eq!(scene.look(0), []);
    assert!(!scene.looks.is_settled());
    assert_eq!(scene.look(99), []);
    assert_eq!(scene.look(100), changed("a"));
    assert!(scene.looks.is_settled());
    assert_eq!(scene.look(500), []);
}

#[test]
fn a_file_that_grows_slowly_is_reported_when_it_stops_growing() {
    let mut scene = Scene::new();
    for step in 0..20 {
        scene.write("a", step, step * 60);
        assert_eq!(scene.look(step * 60), [], "step {step}");
    }
    assert_eq!(scene.look(1300), changed("a"));
}

#[test]
fn a_write_of_the_same_size_is_detected_by_its_time() {
    let mut scene = Scene::new();
    scene.write("a", 5, 0);
    scene.look(0);
    scene.look(100);
    scene.write("a", 5, 150);
    assert_eq!(scene.look(160), []);
    assert_eq!(scene.look(260), changed("a"));
}

#[test]
fn an_old_file_is_reported_at_the_first_scan() {
    let mut scene = Scene::new();
    scene.write("old", 1, 0);
    scene.write("new", 1, 9_000);
    assert_eq!(scene.look(9_500), changed("old"));
    assert_eq!(scene.look(9_600), changed("new"));
}

#[test]
fn a_file_that_is_replaced_at_once_is_never_reported_deleted() {
    let mut scene = Scene::new();
    scene.write("a", 1, 0);
    scene.look(0);
    scene.look(100);
    scene.files.clear();
    assert_eq!(scene.look(200), []);
    scene.write("a", 2, 250);
    assert_eq!(scene.look(260), []);
    assert_eq!(scene.look(360), changed("a"));
}

#[test]
fn a_missing_file_is_reported_deleted_and_returns_as_changed() {
    let mut scene = Scene::new();
    scene.write("a", 1, 0);
    scene.look(0);
    scene.look(100);
    scene.files.clear();
    scene.look(200);
    assert_eq!(scene.look(300), [FileChange::Gone("a".into())]);
    assert!(scene.looks.is_settled());
    scene.write("a", 1, 0);
    scene.look(400);
    assert_eq!(scene.look(500), changed("a"));
}

#[test]
fn an_unreported_file_that_disappears_is_reported_deleted() {
    let mut scene = Scene::new();
    scene.write("a", 1, 0);
    scene.look(0);
    scene.files.clear();
    scene.look(10);
    assert_eq!(scene.look(200), [FileChange::Gone("a".into())]);
}

#[test]
fn force_rescan_reports_every_file_again() {
    let mut scene = Scene::new();
    scene.write("a", 1, 0);
    scene.look(0);
    scene.look(100);
    scene.looks.force_rescan();
    assert_eq!(scene.look(101), changed("a"));
    assert_eq!(scene.look(300), []);
}

#[test]
fn known_files_are_reported_only_when_they_change() {
    let mut scene = Scene::new();
    scene.write("a", 1, 0);
    scene.write("b", 1, 0);
    scene.looks = FileDebouncer::with_known_files(scene.start, &scene.files);
    assert_eq!(scene.look(500), []);
    scene.write("b", 2, 600);
    scene.look(600);
    assert_eq!(scene.look(700), changed("b"));
}
