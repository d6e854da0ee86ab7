//! Rules in CEL: they are evaluated apart from the writer, and no write passes by a rule that another one made false.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::SystemTime;

use homeostat_testing::{BOUND, soon};
use serde_json::{Value, json};

use crate::embedded::EmbeddedStore;
use crate::schema::Schema;
use crate::{Change, ClockAndIds, Error, Key, Kind, Options, Precondition, Store, SystemClockAndIds, Write};

fn kind() -> Kind {
    Kind::new("demo.dev", "v1", "Widget")
}

fn declare(store: &EmbeddedStore) {
    let source = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"parts": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.parts.size() <= 20", "message": "at most 20 parts"}],
    }}});
    let schema = Schema::parse(&source).expect("well formed");
    store.schemas().expect("a store here has schemas").set(&kind(), [("v1".to_owned(), Some(schema))]);
}

fn widget(name: &str) -> Write {
    let (api_version, spec) = ("demo.dev/v1", json!({"parts": {}}));
    let document = json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec});
    Write::Create { document }
}

/// Stops once, where a thread other than the writer makes a uid: only the decision of a creation needs one.
struct StoppingClock {
    stop: Mutex<Option<(SyncSender<()>, Receiver<()>)>>,
}

impl ClockAndIds for StoppingClock {
    fn now(&self) -> SystemTime {
        SystemClockAndIds.now()
    }

    fn uid(&self) -> String {
        let is_writer = thread::current().name() == Some("homeostat-store");
        let stop = if is_writer { None } else { self.stop.lock().expect("nobody panics here").take() };
        if let Some((reached, go_on)) = stop {
            reached.send(()).expect("the test waits");
            go_on.recv().expect("the test lets it go on");
        }
        SystemClockAndIds.uid()
    }

    fn suffix(&self) -> String {
        SystemClockAndIds.suffix()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_rule_holds_up_no_other_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(StoppingClock { stop: Mutex::default() });
    let options = Options { clock: Arc::clone(&clock) as Arc<dyn ClockAndIds>, ..Options::default() };
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), options).expect("a new store"));
    declare(&store);
    let ((reached, is_reached), (go_on, may_go_on)) = (sync_channel(1), sync_channel(1));
    *clock.stop.lock().expect("nobody panics here") = Some((reached, may_go_on));
    let slow = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.write(widget("slow")).await }
    });
    // A thread that waited without a bound would keep the runtime from its end, also after the test has failed.
    let reached = tokio::task::spawn_blocking(move || is_reached.recv_timeout(BOUND)).await.expect("it waits");
    reached.expect("the rule is evaluated apart from the writer");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quick"}});
    let quick = soon(store.write(Write::Create { document: pod })).await.expect("nothing holds it up");
    go_on.send(()).expect("the evaluation waits");
    let slow = soon(slow).await.expect("no panic").expect("the rule holds");
    assert!(quick.resource.revision() < slow.resource.revision());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_cannot_break_a_rule_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), Options::default()).expect("a new store"));
    declare(&store);
    store.write(widget("a")).await.expect("the rule holds");
    let writers = (0..4).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut refusals = 0;
            for part in 0..10 {
                let change = Change::Merge(json!({"spec": {"parts": {format!("{writer}-{part}"): 1}}}));
                loop {
                    let (key, change) = (Key::new(kind(), "", "a"), change.clone());
                    match store.write(Write::Patch { key, change, precondition: Precondition::default() }).await {
                        Ok(_) => break,
                        // Others overtook it each time.
                        Err(Error::Conflict { .. }) => {}
                        Err(Error::InvalidFields { violations, .. }) => {
                            assert_eq!(violations[0].to_string(), "spec: Invalid value: at most 20 parts");
                            refusals += 1;
                            break;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            refusals
        })
    });
    let mut refusals = 0;
    for writer in writers.collect::<Vec<_>>() {
        refusals += writer.await.expect("no panic");
    }
    let stored = store.get(&Key::new(kind(), "", "a")).await.expect("it is there");
    let parts = stored.document()["spec"]["parts"].as_object().map(|parts| parts.len());
    assert_eq!((parts, refusals), (Some(20), 20));
}

#[tokio::test]
async fn a_generated_name_survives_the_evaluation_of_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path().join("store"), Options::default()).expect("a new store");
    declare(&store);
    let document = |parts: Value| json!({"apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": {"generateName": "w-"}, "spec": {"parts": parts}});
    let made = store.write(Write::Create { document: document(json!({})) }).await.expect("the rule holds");
    assert!(made.resource.key().name().starts_with("w-") && made.resource.key().name().len() == 7);
    let many: Value = (0..21).map(|part| (part.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let refused = store.write(Write::Create { document: document(many) }).await;
    assert!(matches!(refused, Err(Error::InvalidFields { .. })), "{refused:?}");
}
