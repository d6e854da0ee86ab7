use homeostat_component::Blob;
use homeostat_fixtures::{demo, demo_key, demo_kind};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Options, Precondition, Scope, Store};
use serde_json::{Value, json};

use super::*;

const ME: &str = "web";

fn apply(name: &str, size: u64) -> Write {
    Write::Apply { document: demo("App", name, json!({"size": size})), manager: ME.into(), force: false }
}

fn status(name: &str, count: u64, revision: &str) -> Write {
    let precondition = Precondition { uid: None, revision: Some(revision.parse().unwrap()) };
    Write::UpdateStatus { key: demo_key("App", name), status: json!({ "count": count }), precondition }
}

/// The stable version on a store, with all its answers.
struct Old {
    store: MemoryStore,
    exchanges: Vec<Exchange>,
}

impl Old {
    fn new() -> Self {
        Self { store: MemoryStore::new(Options::default()), exchanges: Vec::new() }
    }

    fn exchange(&mut self, effect: Effect, answer: Answer) {
        self.exchanges.push(Exchange { effect, answer });
    }

    async fn get(&mut self, name: &str) {
        let resource = self.store.get(&demo_key("App", name)).await;
        let answer = Answer::Resource(resource.map(|found| ResourceData::new(&found, View::Whole)).map_err(Into::into));
        self.exchange(Effect::Get { key: demo_key("App", name), view: View::Whole, live: false }, answer);
    }

    async fn list(&mut self) {
        let answer = Answer::Page(Ok(page(&self.store).await));
        self.exchange(Effect::List { query: Query::all(demo_kind("App")), view: View::Whole }, answer);
    }

    async fn write(&mut self, write: Write) {
        let request = Request { manager: ME.into(), ..write.clone().into() };
        let written = self.store.submit(request).await.map_err(Into::into).map(|written| WriteData {
            resource: ResourceData::new(&written.resource, View::Whole),
            change: written.change,
        });
        self.exchange(Effect::Write(write), Answer::Written(written));
    }

    async fn scene(&self) -> ReplayState {
        crate::shadow::build_replay_state(&self.store, &self.exchanges).await.unwrap()
    }
}

async fn page(store: &MemoryStore) -> PageData {
    let page = store.list(&Query::all(demo_kind("App"))).await.unwrap();
    let items = page.items.iter().map(|item| ResourceData::new(item, View::Whole)).collect();
    PageData { items, revision: page.revision.to_string(), next: page.next }
}

impl ReplayState {
    /// Reads a size, or the name of the error.
    fn size(&mut self, name: &str) -> Option<u64> {
        match self.get(&demo_key("App", name), View::Whole) {
            ReplayAnswer::Answer(Answer::Resource(Ok(data))) => {
                serde_json::from_str::<Value>(&data.json).unwrap()["spec"]["size"].as_u64()
            }
            ReplayAnswer::Answer(Answer::Resource(Err(StoreError::NotFound(_)))) => Some(0),
            ReplayAnswer::Answer(_) | ReplayAnswer::ReadStore => None,
        }
    }

    /// Writes like the shadow's effects, with the known state only.
    fn submit(&mut self, write: Write) -> Result<WriteData, StoreError> {
        if let Some(answer) = self.rewrite(&write) {
            return answer;
        }
        let target = write.target().unwrap();
        let current = self.current(&Key::new(target.kind, &target.namespace, &target.name.unwrap())).flatten();
        self.write(write, ME, &Schemas::default(), Revision(99), current)
    }
}

#[tokio::test]
async fn stable_changes_are_invisible_until_the_candidate_repeats_them() {
    let mut old = Old::new();
    old.store.write(apply("unread", 1)).await.unwrap();
    old.store.write(apply("read", 1)).await.unwrap();
    old.get("read").await;
    for name in ["read", "unread", "made"] {
        old.write(apply(name, 2)).await;
        old.get(name).await;
    }
    let mut scene = old.scene().await;
    for (name, before) in [("read", 1), ("unread", 1), ("made", 0)] {
        assert_eq!(scene.size(name), Some(before), "{name} before");
        assert!(scene.submit(apply(name, 2)).unwrap().change.is_some());
        assert_eq!(scene.size(name), Some(2), "{name} after");
    }
    assert_eq!(scene.size("other"), None, "what the old one did not meet only the store knows");
}

#[tokio::test]
async fn a_live_read_of_the_stable_version_answers_a_plain_one() {
    let mut old = Old::new();
    old.store.write(apply("a", 1)).await.unwrap();
    let key = demo_key("App", "a");
    let read = ResourceData::new(&old.store.get(&key).await.unwrap(), View::Keys);
    old.exchange(Effect::Get { key: key.clone(), view: View::Keys, live: true }, Answer::Resource(Ok(read.clone())));
    let query = Query { live: true, ..Query::all(demo_kind("App")) };
    let listed = page(&old.store).await;
    old.exchange(Effect::List { query: query.clone(), view: View::Keys }, Answer::Page(Ok(listed.clone())));
    let mut scene = old.scene().await;
    let ReplayAnswer::Answer(answer) = scene.get(&key, View::Keys) else { panic!("it is known") };
    assert_eq!(answer, Answer::Resource(Ok(read)));
    for live in [false, true] {
        let query = Query { live, ..query.clone() };
        let ReplayAnswer::Answer(answer) = scene.list(&query, View::Keys) else { panic!("it is known") };
        assert_eq!(answer, Answer::Page(Ok(listed.clone())), "live: {live}");
    }
}

#[tokio::test]
async fn candidate_writes_use_the_replayed_state_and_are_seen_by_later_reads_and_writes() {
    let mut old = Old::new();
    old.store.write(Write::Create { document: demo("App", "a", json!({"size": 1})) }).await.unwrap();
    old.get("a").await;
    let revision = old.store.revision(&Scope::Everything).await.unwrap().to_string();
    old.write(status("a", 1, &revision)).await;
    let mut scene = old.scene().await;
    // The stable version's write is in the store, where this one would be a conflict.
    let written = scene.submit(status("a", 2, &revision)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written.resource.json).unwrap()["status"]["count"], 2);
    assert!(matches!(scene.submit(status("a", 3, &revision)), Err(StoreError::Conflict(_))), "it has just changed");
    assert_eq!(
        scene
            .submit(Write::Delete {
                key: demo_key("App", "a"),
                precondition: Precondition::default(),
                propagation: Default::default(),
                grace_seconds: None
            })
            .unwrap()
            .change,
        Some(EventType::Deleted)
    );
    assert_eq!(scene.size("a"), Some(0));
    assert!(scene.submit(Write::Create { document: demo("App", "a", json!({"size": 5})) }).is_ok());
    assert_eq!(scene.size("a"), Some(5));
}

#[tokio::test]
async fn a_key_that_the_candidate_changed_gets_no_more_recorded_answers() {
    let mut old = Old::new();
    old.write(apply("a", 1)).await;
    old.write(apply("a", 2)).await;
    old.get("a").await;
    let mut scene = old.scene().await;
    scene.submit(apply("a", 7)).unwrap();
    assert_eq!(scene.submit(apply("a", 2)).unwrap().change, Some(EventType::Modified), "it was 7");
    assert_eq!(scene.size("a"), Some(2));
    let mut late = old.scene().await;
    let change = late.submit(apply("a", 2)).unwrap().change;
    assert_eq!(change, Some(EventType::Added), "the old one's second write without its first is another one");
}

#[tokio::test]
async fn lists_come_from_the_recording_and_otherwise_match_the_replayed_state() {
    let mut old = Old::new();
    old.store.write(apply("b", 1)).await.unwrap();
    old.list().await;
    old.write(apply("a", 1)).await;
    old.write(apply("b", 2)).await;
    let (query, mut scene) = (Query::all(demo_kind("App")), old.scene().await);
    let names = |page: &PageData| page.items.iter().map(|item| item.key.name().to_owned()).collect::<Vec<_>>();
    let ReplayAnswer::Answer(Answer::Page(Ok(first))) = scene.list(&query, View::Whole) else { panic!("it is known") };
    assert_eq!(names(&first), ["b"]);
    scene.submit(apply("c", 1)).unwrap();
    assert!(matches!(scene.list(&query, View::Whole), ReplayAnswer::ReadStore), "it has made one itself");
    let overlaid = scene.overlay(&query, View::Whole, page(&old.store).await).unwrap();
    assert_eq!(names(&overlaid), ["b", "c"], "the old one's is not there yet");
    assert!(overlaid.items[0].json.contains(r#""size":1"#));
    let paged = PageData { next: Some("more".into()), ..page(&old.store).await };
    assert_eq!(scene.overlay(&query, View::Whole, paged), Err(UnfitReason::ListOfChanged));
}

#[tokio::test]
async fn clocks_and_random_numbers_replay_in_order_and_clocks_go_on() {
    let mut old = Old::new();
    for time in [5, 6] {
        old.exchange(Effect::WallClock, Answer::Nanoseconds(time));
    }
    for byte in [1, 2] {
        old.exchange(Effect::Random { bytes: 1 }, Answer::Bytes(Blob::from(vec![byte])));
    }
    let mut scene = old.scene().await;
    let times: Vec<_> = (0..4).map(|_| scene.clock(&Effect::WallClock)).collect();
    assert_eq!(times, [5, 6, 1_000_006, 2_000_006].map(|time| Some(Answer::Nanoseconds(time))));
    assert_eq!(scene.clock(&Effect::MonotonicClock), None);
    let drawn: Vec<_> = (0..3).map(|_| scene.random(1)).collect();
    assert_eq!(drawn, [Some(Answer::Bytes(vec![1].into())), Some(Answer::Bytes(vec![2].into())), None]);
    assert_eq!(scene.random(2), None);
}

#[tokio::test]
async fn writes_with_compacted_history_cannot_be_compared() {
    let mut old = Old::new();
    old.store.write(apply("a", 1)).await.unwrap();
    old.write(apply("a", 2)).await;
    assert_eq!(ReplayState::set(old.exchanges.clone(), &Before::new()).err(), Some(UnfitReason::PastIsGone));
    assert_eq!(
        ReplayState::unobserved_changes(&old.exchanges),
        [(demo_kind("App"), Revision(2))].map(|(kind, at)| (Kind { version: String::new(), ..kind }, at))
    );
}
