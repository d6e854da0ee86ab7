use async_trait::async_trait;
use homeostat_fixtures::memory_store;
use homeostat_workqueue::{Priority, Queue};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;
use crate::feeder_definition::{FeederDefinition, FeederSource};
use crate::feeder_sources::FolderWatch;
use crate::feeder_tally::{FeederStatus, FeederTally};
use crate::feeders::SyncBarrier;
use crate::feeders::tests::{intake_of, key, next};
use crate::message_keys::{MessageKeys, Template};

/// A folder in memory. `None`: it is away.
#[derive(Default)]
struct MemoryFolder {
    files: Mutex<Option<BTreeMap<String, u64>>>,
    changed: Arc<Notify>,
}

struct MemoryWatch(Arc<MemoryFolder>);

#[async_trait]
impl FeederFolder for Arc<MemoryFolder> {
    async fn open(&self, path: &str) -> Result<Box<dyn FolderWatch>, String> {
        assert_eq!(path, "in/box");
        Ok(Box::new(MemoryWatch(self.clone())))
    }
}

#[async_trait]
impl FolderWatch for MemoryWatch {
    async fn list(&mut self, accepts: NameFilter, most: usize) -> Result<BTreeMap<String, u64>, String> {
        let files = self.0.files.lock().clone().ok_or("it is away")?;
        assert!(files.len() <= most);
        Ok(files.into_iter().filter(|(name, _)| accepts(name)).collect())
    }

    async fn changed(&mut self) {
        self.0.changed.notified().await;
    }
}

impl MemoryFolder {
    fn put(&self, names: &[&str], stamp: u64) {
        let mut files = self.files.lock();
        let files = files.get_or_insert_default();
        files.extend(names.iter().map(|name| ((*name).to_owned(), stamp)));
        self.changed.notify_one();
    }

    fn remove(&self, name: &str) {
        self.files.lock().as_mut().unwrap().remove(name).unwrap();
        self.changed.notify_one();
    }
}

struct FeederRun {
    folder: Arc<MemoryFolder>,
    feeder: Arc<FilesFeeder>,
    queue: Queue<Key>,
    intake: Intake,
    tally: Arc<FeederTally>,
}

impl FeederRun {
    fn new(keys_max: Option<u32>) -> Self {
        let template = |text| Template::parse(text, |word| matches!(word, "file" | "stem")).unwrap();
        let keys = MessageKeys { each: None, namespace: Some(template("default")), name: template("{stem}") };
        let files = Files { path: "in/box/*.json".to_owned() };
        let definition = FeederDefinition {
            name: "inbox".into(),
            source: FeederSource::Files(files.clone()),
            keys: FeederKeys::OfMessage(Box::new(keys)),
            delay: None,
            priority: Priority::NORMAL,
        };
        let folder = Arc::<MemoryFolder>::default();
        let adder = KeyAdder { store: memory_store(), definition };
        let clock = WallClock::beginning(Timestamp::UNIX_EPOCH);
        let feeder = Arc::new(FilesFeeder::new(files, adder, Some(Arc::new(folder.clone())), clock));
        let (queue, intake) = intake_of(&SyncBarrier::new(), keys_max);
        let tally = Arc::<FeederTally>::default();
        Self { folder, feeder, queue, intake: intake.counting(Some(tally.clone())), tally }
    }

    fn start(&self) -> JoinHandle<Result<(), FeederError>> {
        let (feeder, intake) = (self.feeder.clone(), self.intake.clone());
        tokio::spawn(async move { feeder.run(&intake).await })
    }

    fn status(&self) -> FeederStatus {
        self.tally.status("inbox", "files", true)
    }
}

#[tokio::test(start_paused = true)]
async fn each_file_that_appears_changes_or_vanishes_adds_its_key() {
    let world = FeederRun::new(None);
    world.folder.put(&["a.json", "b.json", ".c.json", "d.txt"], 1);
    let task = world.start();
    assert_eq!((next(&world.queue).await, next(&world.queue).await), (key("a"), key("b")));
    world.folder.put(&["b.json"], 2);
    assert_eq!(next(&world.queue).await, key("b"));
    world.folder.remove("a.json");
    assert_eq!(next(&world.queue).await, key("a"));
    world.folder.put(&["e.json"], 1);
    assert_eq!(next(&world.queue).await, key("e"));
    assert_eq!(world.status().keys, 5);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn files_that_changed_while_the_folder_was_away_are_found_when_it_is_back() {
    let world = FeederRun::new(None);
    world.folder.put(&["a.json", "b.json"], 1);
    let task = world.start();
    assert_eq!((next(&world.queue).await, next(&world.queue).await), (key("a"), key("b")));
    let away = world.folder.files.lock().take();
    world.folder.changed.notify_one();
    assert!(task.await.unwrap().unwrap_err().0.contains("away"));
    *world.folder.files.lock() = away;
    world.folder.put(&["b.json"], 2);
    let task = world.start();
    assert_eq!(next(&world.queue).await, key("b"));
    assert!(world.queue.is_empty(), "an unchanged file adds nothing");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_file_whose_name_makes_no_key_is_dropped_and_counted_once() {
    let world = FeederRun::new(None);
    world.folder.put(&["Not A Name.json", "a.json", ".json"], 1);
    let task = world.start();
    assert_eq!(next(&world.queue).await, key("a"));
    world.folder.put(&["b.json"], 1);
    assert_eq!(next(&world.queue).await, key("b"));
    assert_eq!((world.status().rejected, world.status().keys), (1, 2));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_gets_the_keys_of_all_files_in_turn() {
    let world = FeederRun::new(Some(4));
    let names: Vec<String> = (0..100).map(|number| format!("n{number:02}.json")).collect();
    world.folder.put(&names.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    let task = world.start();
    for number in 0..100 {
        assert_eq!(next(&world.queue).await, key(&format!("n{number:02}")));
    }
    assert!(world.status().full > 0);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_allows_no_folder_follows_no_file() {
    let mut world = FeederRun::new(None);
    Arc::get_mut(&mut world.feeder).unwrap().folder = None;
    let refused = world.start().await.unwrap().unwrap_err();
    assert!(refused.0.contains("--feeder-files"), "{refused}");
}

#[test]
fn a_path_that_could_lead_elsewhere_is_refused() {
    for path in ["a.json", "*.json", "a/b/*", "a/b/c"] {
        assert_eq!(Files::check_path(path), Ok(()), "{path}");
    }
    for path in ["", "/a", "../a", "a/../b", "./a", "a//b", "a/", "*/a", "a\\b", "a\0", &"x".repeat(1025)] {
        assert!(Files::check_path(path).is_err(), "{path}");
    }
}
