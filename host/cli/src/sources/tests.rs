use std::time::Duration;

use super::*;

fn guest(name: &str, root: &Path, dependencies: &[&Path]) -> Guest {
    Guest::for_test(name, root.join(name), dependencies.iter().map(|path| path.to_path_buf()).collect())
}

fn changed(path: PathBuf) -> Vec<FileChange> {
    vec![FileChange::Changed(path)]
}

#[test]
fn only_the_guests_of_a_changed_file_are_rebuilt() {
    let root = Path::new("/w");
    let guests = [
        guest("web", root, &[Path::new("/sdk")]),
        guest("webhook", root, &[]),
        guest("db", root, &[Path::new("/sdk")]),
    ];
    let names = |found: SourceChanges| found.guests.into_iter().collect::<Vec<_>>();
    assert_eq!(names(classify(&guests, &changed("/w/web/src/lib.rs".into()))), ["web"]);
    assert_eq!(names(classify(&guests, &changed("/w/webhook/src/a/b.rs".into()))), ["webhook"]);
    assert_eq!(names(classify(&guests, &[FileChange::Gone("/w/db/src/old.rs".into())])), ["db"]);
    assert_eq!(names(classify(&guests, &changed("/sdk/src/lib.rs".into()))), ["db", "web"]);
    assert_eq!(classify(&guests, &changed("/elsewhere/lib.rs".into())), SourceChanges::default());
    let cargo = classify(&guests, &changed("/w/web/Cargo.toml".into()));
    assert!(cargo.crates && cargo.guests.contains("web"));
}

#[test]
fn saved_added_and_removed_sources_are_detected_and_cargo_output_is_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("writable");
        std::fs::write(path, text).expect("writable");
    };
    write("web/src/lib.rs", "one");
    write("web/Cargo.toml", "[package]");
    let guests = [guest("web", root, &[])];
    let mut sources = Sources::default();
    let (mut now, wall) = (Instant::now(), SystemTime::now());
    let mut look = |expected: bool, why: &str| {
        let mut found = BTreeSet::new();
        for _ in 0..3 {
            found.extend(sources.update(&guests, now, wall).guests);
            now += Duration::from_millis(100);
        }
        assert_eq!(!found.is_empty(), expected, "{why}");
        assert!(sources.is_settled());
    };
    look(false, "what is there at the start is built");
    write("web/src/lib.rs", "one more");
    look(true, "a source was saved");
    write("web/src/deep/er/mod.rs", "new");
    look(true, "a source was added");
    write("web/target/debug/lib.rs", "made by cargo");
    write("web/src/.lib.rs.swp", "made by an editor");
    look(false, "these are no sources");
    std::fs::remove_file(root.join("web/src/deep/er/mod.rs")).expect("it is there");
    look(true, "a source was removed");
}
