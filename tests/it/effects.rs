//! Effects are data: a recorded reconcile replays from its trace alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::layers::{
    EnqueuedKey, FollowTarget, Granted, GuestEvent, GuestLogLine, HttpClient, Sink, World,
};
use homeostat_component::{
    Answer, Call, Component, Effect, Effects, Engine, EngineOptions, Grants, Limits, Outcome, StoreError,
};
use homeostat_fixtures::{FaultyStore, create, demo, demo_key, memory_store};
use homeostat_store::{Key, Kind, Store, Write};
use homeostat_tests::{all_resources, guest};
use homeostat_verify::{Trace, TraceDifference, difference, record, replay};
use serde_json::{Value, json};

/// Drops events, log lines and follows. The trace has them.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn event(&self, _: &Call, _: GuestEvent) {}
    fn line(&self, _: &Call, _: GuestLogLine) {}
    fn follow(&self, _: &Call, _: FollowTarget) -> Result<(), StoreError> {
        Ok(())
    }
    fn enqueue(&self, _: &Call, _: EnqueuedKey) -> Result<(), StoreError> {
        Ok(())
    }
}

async fn load(engine: &Engine, name: &str) -> Component {
    engine.load(std::fs::read(guest(name)).unwrap()).await.unwrap()
}

fn web() -> Value {
    let container = json!({"name": "web", "image": "web:1"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        }
    })
}

fn web_key() -> Key {
    Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web")
}

/// Records the first reconcile of a deployment, as it creates its replica set.
async fn recorded(engine: &Engine) -> Trace {
    let store: Arc<dyn Store> = memory_store();
    store.write(Write::Create { document: web() }).await.unwrap();
    let http = HttpClient::new(Limits::default().http_body_bytes_max).unwrap();
    let world = World::new(store, Arc::new(Nowhere), Arc::new(BTreeMap::new()), http);
    let effects = Arc::new(Granted::new(Arc::new(all_resources()), world));
    record(&load(engine, "deployments").await, &"deployments".into(), &web_key(), &Limits::default(), effects).await
}

fn engine() -> Engine {
    Engine::new(EngineOptions { instances_max: 4, ..EngineOptions::default() }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_reconcile_replays_without_a_store_and_a_network() {
    let engine = engine();
    let trace = recorded(&engine).await;
    assert!(trace.result.is_ok(), "{:?}", trace.result);
    let creates = |effect: &Effect| matches!(effect, Effect::Write(Write::Create { .. } | Write::Apply { .. }));
    assert!(trace.exchanges.iter().any(|exchange| creates(&exchange.effect)), "it creates a replica set");

    // The JSON text of the trace is enough for a replay.
    let text = serde_json::to_string(&trace).unwrap();
    let read: Trace = serde_json::from_str(&text).unwrap();
    assert_eq!(read, trace);
    let again = replay(&load(&engine, "deployments").await, &read, &Limits::default()).await;
    assert_eq!(difference(&trace, &again), None);
    assert_eq!(again, trace);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_tells_a_changed_answer_from_a_changed_guest() {
    let engine = engine();
    let trace = recorded(&engine).await;

    let mut other_world = trace.clone();
    let first = other_world.exchanges.iter_mut().find_map(|exchange| match &mut exchange.answer {
        Answer::Resource(Ok(resource)) => Some(resource),
        _ => None,
    });
    let resource = first.expect("it reads the deployment");
    resource.json = resource.json.replace("\"replicas\":3", "\"replicas\":7");
    let again = replay(&load(&engine, "deployments").await, &other_world, &Limits::default()).await;
    let found = difference(&trace, &again).expect("the world is another one");
    assert!(matches!(found, TraceDifference::Answer { .. }), "{found}");
    assert!(!found.is_of_the_guest());

    let again = replay(&load(&engine, "replicasets").await, &trace, &Limits::default()).await;
    let found = difference(&trace, &again).expect("the guest is another one");
    assert!(found.is_of_the_guest(), "{found}");
}

/// A layer that answers every effect on the store with `unavailable`.
struct Unreachable;

#[async_trait]
impl Effects for Unreachable {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let unavailable = || StoreError::Unavailable("on purpose".into());
        match effect {
            Effect::Get { .. } => Answer::Resource(Err(unavailable())),
            Effect::List { .. } => Answer::Page(Err(unavailable())),
            Effect::Write(_) => Answer::Written(Err(unavailable())),
            Effect::Random { bytes } => Answer::Bytes(vec![call.id as u8; bytes as usize].into()),
            Effect::WallClock | Effect::MonotonicClock => Answer::Nanoseconds(1),
            Effect::Config { .. } => Answer::Config(Vec::new()),
            _ => Answer::Unit,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_injects_a_fault_as_an_answer() {
    let component = load(&engine(), "deployments").await;
    let trace = record(&component, &"deployments".into(), &web_key(), &Limits::default(), Arc::new(Unreachable)).await;
    let fault = trace.result.expect_err("it cannot have worked");
    assert!(fault.to_string().contains("on purpose"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_read_of_a_guest_reaches_the_store_and_replays() {
    let store = FaultyStore::over(memory_store());
    create(&*store, demo("Scripted", "a", json!({"action": "live"}))).await;
    let http = HttpClient::new(1 << 20).unwrap();
    let world = World::new(store.clone(), Arc::new(Nowhere), Arc::new(BTreeMap::new()), http);
    let effects = Arc::new(Granted::new(Arc::new(all_resources()), world));
    let component = load(&engine(), "guest-scripted").await;
    let key = demo_key("Scripted", "a");
    let trace = record(&component, &"scripted".into(), &key, &Limits::default(), effects).await;
    assert_eq!((trace.result.clone(), store.live_reads()), (Ok(Outcome::Settled), 2));
    let imports = trace.exchanges.iter().map(|exchange| exchange.effect.import());
    let imports: Vec<&str> = imports.filter(|import| import.starts_with("store.")).collect();
    assert_eq!(imports, ["store.get", "store.get-live", "store.list-live"]);
    let again = replay(&component, &trace, &Limits::default()).await;
    assert_eq!(difference(&trace, &again), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_guest_enqueues_is_an_effect_and_replays() {
    let store = memory_store();
    let script = json!({"action": "enqueue", "keys": ["b", "c"], "afterMs": 5000});
    create(&*store, demo("Scripted", "a", script)).await;
    let http = HttpClient::new(1 << 20).unwrap();
    let world = World::new(store, Arc::new(Nowhere), Arc::new(BTreeMap::new()), http);
    let effects = Arc::new(Granted::new(Arc::new(all_resources()), world));
    let component = load(&engine(), "guest-scripted").await;
    let key = demo_key("Scripted", "a");
    let trace = record(&component, &"scripted".into(), &key, &Limits::default(), effects).await;
    assert_eq!(trace.result, Ok(Outcome::Settled));
    let enqueued = trace.exchanges.iter().filter_map(|exchange| match &exchange.effect {
        Effect::Enqueue { key, after_ms, hold, .. } => Some((key.name(), *after_ms, *hold)),
        _ => None,
    });
    assert_eq!(enqueued.collect::<Vec<_>>(), [("b", 5000, true), ("c", 5000, true)]);
    let again = replay(&component, &trace, &Limits::default()).await;
    assert_eq!(difference(&trace, &again), None);
}

/// A missing grant is an answer like any other: the guest receives it, and the trace records it.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_an_answer_in_the_trace() {
    let engine = engine();
    let store: Arc<dyn Store> = memory_store();
    let http = HttpClient::new(1 << 20).unwrap();
    let world = World::new(store, Arc::new(Nowhere), Arc::new(BTreeMap::new()), http);
    let effects = Arc::new(Granted::new(Arc::new(Grants::default()), world));
    let component = load(&engine, "guest-noop").await;
    let key = demo_key("Noop", "a");
    let trace = record(&component, &"noop".into(), &key, &Limits::default(), effects.clone()).await;
    assert_eq!(trace.result, Ok(Outcome::Settled), "it asks for nothing");
    let component = load(&engine, "deployments").await;
    let trace = record(&component, &"deployments".into(), &web_key(), &Limits::default(), effects).await;
    let refused = trace
        .exchanges
        .iter()
        .any(|exchange| matches!(&exchange.answer, Answer::Resource(Err(StoreError::Forbidden(_)))));
    assert!(refused, "{:?}", trace.exchanges);
}
