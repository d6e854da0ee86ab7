//! Guests for the target without a system: no WASI of the standard library, panics in the log, and memory that does not
//! grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_component::layers::{HttpClient, World};
use homeostat_component::{CallSession, Component, Cost, Effect, Effects, Engine, EngineOptions, Fault, Level, Limits};
use homeostat_fixtures::{demo, demo_key, memory_store};
use homeostat_store::{Key, Store, Write};
use homeostat_tests::guest;
use homeostat_verify::record;
use serde_json::json;

use crate::effects::Nowhere;

fn engine() -> Engine {
    Engine::new(EngineOptions { instances_max: 4, ..EngineOptions::default() }).unwrap()
}

async fn load(engine: &Engine, name: &str) -> Component {
    engine.load(std::fs::read(guest(name)).unwrap()).await.unwrap()
}

/// Returns a world with the resources of a store.
fn world(store: Arc<dyn Store>) -> Arc<dyn Effects> {
    let http = HttpClient::new(Limits::default().http_body_bytes_max).unwrap();
    Arc::new(World::new(store, Arc::new(Nowhere), Arc::new(BTreeMap::new()), http))
}

/// Returns the cost of one successful reconcile of the resource `name`.
async fn cost(component: &Component, name: &str, world: Arc<dyn Effects>) -> Cost {
    let key = Key::new(component.describe().manages.kind.clone(), "default", name);
    let report = component.reconcile(&mut CallSession::new("lean"), &key, &Limits::default(), world).await;
    assert!(report.result.is_ok(), "{:?}", report.result);
    report.cost
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_without_a_system_import_only_what_they_call() {
    let engine = engine();
    // The last one reads a setting.
    let settings = "wasi:config/store@0.2.0-rc.1";
    for (name, called) in [("guest-noop", &[][..]), ("greeter", &[]), ("guest-tally", &[settings])] {
        let component = load(&engine, name).await;
        let others = component.imports().iter().filter(|import| !import.starts_with("homeostat:reconciler/"));
        assert_eq!(others.collect::<Vec<_>>(), called, "{name}");
    }
    let uptime = load(&engine, "uptime").await;
    let imports = |prefix: &str| uptime.imports().iter().any(|import| import.starts_with(prefix));
    assert!(imports("wasi:clocks/wall-clock@") && imports("wasi:http/outgoing-handler@"), "{:?}", uptime.imports());
    assert!(!imports("wasi:cli/"), "{:?}", uptime.imports());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_without_a_system_reaches_the_log_and_the_failure() {
    let (engine, store) = (engine(), memory_store());
    let document = demo("Tally", "a", json!({"action": "panic"}));
    store.write(Write::Create { document }).await.unwrap();
    let world = world(store);
    let tally = load(&engine, "guest-tally").await;
    let trace = record(&tally, &"tallies".into(), &demo_key("Tally", "a"), &Limits::default(), world).await;

    let logged = trace.exchanges.iter().find_map(|exchange| match &exchange.effect {
        Effect::Log { level: Level::Warn, message, .. } => Some(message.as_str()),
        _ => None,
    });
    let logged = logged.expect("the panic is in the log");
    assert!(logged.starts_with("panicked at ") && logged.contains("src/lib.rs:"), "{logged}");
    assert!(logged.ends_with(": on purpose"), "{logged}");
    let Err(Fault::Trap { message }) = &trace.result else { panic!("{:?}", trace.result) };
    assert!(message.starts_with(logged), "the failure says why: {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_grows_only_for_large_reconciles_and_growth_is_counted() {
    let (engine, store) = (engine(), memory_store());
    for (name, bytes) in [("small", 4 << 10), ("large", 400 << 10)] {
        let document = demo("Greeting", name, json!({"name": "x".repeat(bytes)}));
        store.write(Write::Create { document }).await.unwrap();
    }
    let greeter = load(&engine, "greeter").await;
    assert_eq!(greeter.describe_cost().pages_grown, 0);
    let small = cost(&greeter, "small", world(store.clone())).await;
    assert_eq!(small.pages_grown, 0);
    assert!((1 << 20..2 << 20).contains(&small.memory_bytes_max), "{small:?}");
    let large = cost(&greeter, "large", world(store)).await;
    assert!(large.pages_grown > 0, "{large:?}");
    assert_eq!(large.memory_bytes_max - small.memory_bytes_max, large.pages_grown * (64 << 10));
}
