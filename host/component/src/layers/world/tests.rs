mod headers;
mod terms;

use std::sync::{Arc, Mutex};

use homeostat_fixtures::{FaultyStore, demo, demo_key, demo_kind, memory_store};
use homeostat_store::{EventType, Key, Query, Store, View, Write};
use serde_json::json;

use super::{EnqueuedKey, FollowTarget, GuestEvent, GuestLogLine, Sink, World};
use crate::call::new_call;
use crate::effect::{Answer, Call, Effect, Effects, EntryPoint, Level, StoreError};
use crate::layers::HttpClient;

#[derive(Default)]
struct MessageSink(Mutex<Vec<String>>);

impl Sink for MessageSink {
    fn event(&self, call: &Call, event: GuestEvent) {
        self.0.lock().unwrap().push(format!("{} event {}", call.controller, event.reason));
    }

    fn line(&self, call: &Call, line: GuestLogLine) {
        self.0.lock().unwrap().push(format!("{} {:?} {}", call.controller, line.level, line.message));
    }

    fn follow(&self, _: &Call, followed: FollowTarget) -> Result<(), StoreError> {
        match followed {
            FollowTarget::Key(_) => Ok(()),
            FollowTarget::All(kind, _) => Err(StoreError::NotFound(kind.to_string())),
        }
    }

    fn enqueue(&self, call: &Call, enqueued: EnqueuedKey) -> Result<(), StoreError> {
        let EnqueuedKey { key, after, .. } = enqueued;
        self.0.lock().unwrap().push(format!("{} enqueued {} after {after:?}", call.controller, key.name()));
        Ok(())
    }
}

struct Setting {
    world: World,
    told: Arc<MessageSink>,
    call: Call,
}

impl Setting {
    fn new() -> Self {
        Self::over(memory_store())
    }

    fn over(store: Arc<dyn Store>) -> Self {
        let told = Arc::new(MessageSink::default());
        let config = Arc::new([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into());
        let world = World::new(store, told.clone(), config, HttpClient::new(1000).unwrap());
        Self { world, told, call: new_call(&Arc::from("test"), EntryPoint::Reconcile, None) }
    }

    async fn perform(&self, effect: Effect) -> Answer {
        self.world.perform(&self.call, effect).await
    }
}

#[tokio::test]
async fn a_written_resource_can_be_read() {
    let setting = Setting::new();
    let Answer::Written(Ok(written)) =
        setting.perform(Effect::Write(Write::Create { document: demo("Thing", "a", json!({})) })).await
    else {
        panic!("it can be created");
    };
    assert_eq!(written.change, Some(EventType::Added));
    let key = Key::new(demo_kind("Thing"), "default", "a");
    let Answer::Resource(Ok(read)) = setting.perform(Effect::Get { key, view: View::Keys, live: false }).await else {
        panic!("it can be read");
    };
    assert_eq!((read.json.as_str(), &read.revision), ("", &written.resource.revision));
    let Answer::Page(Ok(page)) =
        setting.perform(Effect::List { query: Query::all(demo_kind("Thing")), view: View::Metadata }).await
    else {
        panic!("it can be listed");
    };
    assert!(page.items.len() == 1 && page.items[0].json.contains("\"name\":\"a\""), "{page:?}");
}

#[tokio::test]
async fn a_missing_resource_is_not_found() {
    let key = Key::new(demo_kind("Thing"), "default", "nobody");
    let answer = Setting::new().perform(Effect::Get { key, view: View::Whole, live: false }).await;
    assert!(matches!(answer, Answer::Resource(Err(StoreError::NotFound(_)))), "{answer:?}");
}

#[tokio::test]
async fn only_a_live_read_asks_past_the_caches_of_the_store() {
    let store = FaultyStore::over(memory_store());
    homeostat_fixtures::create(&*store, demo("Thing", "a", json!({}))).await;
    let setting = Setting::over(store.clone());
    for (live, live_reads) in [(false, 0), (true, 2)] {
        let get = Effect::Get { key: demo_key("Thing", "a"), view: View::Whole, live };
        assert!(matches!(setting.perform(get).await, Answer::Resource(Ok(_))));
        let query = Query { live, ..Query::all(demo_kind("Thing")) };
        let answer = setting.perform(Effect::List { query, view: View::Whole }).await;
        assert!(matches!(&answer, Answer::Page(Ok(page)) if page.items.len() == 1), "{answer:?}");
        assert_eq!(store.live_reads(), live_reads);
    }
}

#[tokio::test]
async fn a_guest_reads_one_setting_or_all() {
    let setting = Setting::new();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let config = async |key: Option<&str>| setting.perform(Effect::Config { key: key.map(str::to_owned) }).await;
    assert_eq!(config(Some("b")).await, Answer::Config(vec![pair("b", "2")]));
    assert_eq!(config(Some("c")).await, Answer::Config(Vec::new()));
    assert_eq!(config(None).await, Answer::Config(vec![pair("a", "1"), pair("b", "2")]));
}

#[tokio::test]
async fn logs_and_events_reach_the_sink() {
    let setting = Setting::new();
    setting.perform(Effect::Log { level: Level::Warn, message: "hm".into(), fields: Vec::new() }).await;
    let reason = "Odd".to_owned();
    let severity = crate::effect::Severity::Normal;
    setting.perform(Effect::Emit { severity, reason, message: String::new(), regarding: None }).await;
    assert_eq!(*setting.told.0.lock().unwrap(), ["test Warn hm", "test event Odd"]);
    let follow = setting.perform(Effect::Follow { target: Key::new(demo_kind("Thing"), "default", "a") }).await;
    assert_eq!(follow, Answer::Done(Ok(())));
    let follow = setting.perform(Effect::FollowAll { kind: demo_kind("Thing"), selector: Default::default() }).await;
    assert!(matches!(follow, Answer::Done(Err(StoreError::NotFound(_)))), "{follow:?}");
}

#[tokio::test]
async fn randomness_differs_and_has_the_length_that_was_asked_for() {
    let setting = Setting::new();
    let draw = async || match setting.perform(Effect::Random { bytes: 32 }).await {
        Answer::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    let (first, second) = (draw().await, draw().await);
    assert_eq!(first.len(), 32);
    assert_ne!(first, second);
}

#[tokio::test]
async fn clocks_go_forward() {
    let setting = Setting::new();
    let read = async |effect: Effect| match setting.perform(effect).await {
        Answer::Nanoseconds(now) => now,
        other => panic!("{other:?}"),
    };
    assert!(read(Effect::WallClock).await > 1_700_000_000_000_000_000);
    let before = read(Effect::MonotonicClock).await;
    assert!(read(Effect::MonotonicClock).await >= before);
}
