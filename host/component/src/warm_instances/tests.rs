use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::demo_key;

use super::*;
use crate::Engine;
use crate::component::Component;
use crate::fixture::{self, Guest, engine};
use crate::instances::CallSession;
use crate::layers::EmptyWorld;
use crate::limits::{LimitName, Limits};
use crate::outcome::{CallReport, Fault, Outcome};

/// The body of a `reconcile` that counts its calls, and answers with the count as a delay in milliseconds.
const COUNTS: &str = "
    (global.set $count (i64.add (global.get $count) (i64.const 1)))
    TRAPS
    (i32.store8 (i32.const 3080) (i32.const 1))
    (i64.store (i32.const 3088) (global.get $count))
    i32.const 3072";

/// Returns a component that counts the calls of its instance, and traps in those of which `traps` says so.
async fn counter(engine: &Engine, traps: &str) -> Component {
    let reconcile = COUNTS.replace("TRAPS", traps);
    let items = "(global $count (mut i64) (i64.const 0))";
    // It does not use its arguments, so they need no memory of their own.
    let guest = Guest { reconcile: &reconcile, items, realloc: "i32.const 4096", ..Guest::default() };
    engine.load(guest.build()).await.unwrap()
}

async fn report(component: &Component, warm: Option<&WarmInstances>, limits: &Limits) -> CallReport<Outcome> {
    let (mut session, key) = (CallSession::new("test"), demo_key("Thing", "a"));
    component.reconcile_with(&mut session, warm, &key, limits, Arc::new(EmptyWorld)).await
}

/// Returns how many calls the instance of a new call has had.
async fn calls(component: &Component, warm: Option<&WarmInstances>) -> Result<u128, Fault> {
    match report(component, warm, &Limits::default()).await.result? {
        Outcome::AgainAfter(delay) => Ok(delay.as_millis()),
        Outcome::Settled => Ok(0),
    }
}

#[tokio::test]
async fn a_kept_instance_serves_the_next_call_of_its_version_alone() {
    let engine = engine(2);
    let component = counter(&engine, "").await;
    let [first, second] = [WarmInstances::new(engine.warm()), WarmInstances::new(engine.warm())];
    for expected in 1..=3 {
        assert_eq!(calls(&component, Some(&first)).await, Ok(expected));
    }
    assert_eq!(calls(&component, Some(&second)).await, Ok(1), "another version has instances of its own");
    assert_eq!(calls(&component, None).await, Ok(1), "nothing is kept for a controller that does not ask for it");
    assert_eq!(engine.instances_kept(), 2);
    drop(first);
    assert_eq!(engine.instances_kept(), 1, "the instances end with their version");
}

#[tokio::test]
async fn an_instance_that_traps_is_never_called_again() {
    let engine = engine(2);
    let traps = "(if (i64.eq (global.get $count) (i64.const 2)) (then unreachable))";
    let (component, warm) = (counter(&engine, traps).await, WarmInstances::new(engine.warm()));
    for _ in 0..3 {
        assert_eq!(calls(&component, Some(&warm)).await, Ok(1));
        assert!(matches!(calls(&component, Some(&warm)).await, Err(Fault::Trap { .. })));
        assert_eq!(engine.instances_kept(), 0);
    }
}

#[tokio::test]
async fn an_instance_that_hits_a_limit_is_never_called_again() {
    let engine = engine(2);
    let loops = "(if (i64.eq (global.get $count) (i64.const 2)) (then (loop (br 0))))";
    let (component, warm) = (counter(&engine, loops).await, WarmInstances::new(engine.warm()));
    let limits = Limits { cpu: Duration::from_millis(5), ..Limits::default() };
    assert_eq!(calls(&component, Some(&warm)).await, Ok(1));
    let stopped = report(&component, Some(&warm), &limits).await;
    assert!(matches!(stopped.result, Err(Fault::Limit { limit: LimitName::Cpu, .. })), "{stopped:?}");
    assert_eq!(calls(&component, Some(&warm)).await, Ok(1));
}

#[tokio::test]
async fn each_call_of_an_instance_has_a_cost_of_its_own() {
    let engine = engine(2);
    let (component, warm) = (counter(&engine, "(drop (call $now))").await, WarmInstances::new(engine.warm()));
    let first = report(&component, Some(&warm), &Limits::default()).await.cost;
    let second = report(&component, Some(&warm), &Limits::default()).await.cost;
    assert_eq!(second.effects, first.effects);
    assert_eq!(second.memory_bytes_max, first.memory_bytes_max);
    assert!(second.memory_bytes_max >= 1 << 16, "the memory of the instance counts: {second:?}");
}

#[tokio::test]
async fn an_instance_has_a_bounded_number_of_calls() {
    let engine = engine(2);
    let (component, warm) = (counter(&engine, "").await, WarmInstances::new(engine.warm()));
    for call in 1..=u128::from(CALLS_MAX) {
        assert_eq!(calls(&component, Some(&warm)).await, Ok(call));
    }
    assert_eq!(calls(&component, Some(&warm)).await, Ok(1));
}

#[tokio::test]
async fn an_instance_with_much_of_its_memory_ends_with_its_call() {
    let engine = engine(2);
    let grows = "(drop (memory.grow (i32.const 8)))";
    let (component, warm) = (counter(&engine, grows).await, WarmInstances::new(engine.warm()));
    let limits = Limits { memory_bytes_max: 16 << 16, ..Limits::default() };
    report(&component, Some(&warm), &limits).await.result.unwrap();
    assert_eq!(engine.instances_kept(), 0, "9 of 16 pages");
}

#[tokio::test]
async fn an_engine_keeps_a_bounded_number_of_instances() {
    let engine = engine(2);
    let component = counter(&engine, "").await;
    let versions: Vec<WarmInstances> = (0..=INSTANCES_KEPT_MAX).map(|_| WarmInstances::new(engine.warm())).collect();
    for warm in &versions {
        assert_eq!(calls(&component, Some(warm)).await, Ok(1));
    }
    assert_eq!(engine.instances_kept(), INSTANCES_KEPT_MAX);
    assert_eq!(calls(&component, versions.last()).await, Ok(1), "there was no room for its instance");
    assert_eq!(calls(&component, versions.first()).await, Ok(2));
}

#[tokio::test]
async fn idle_instances_are_evicted_at_the_second_run() {
    let engine = engine(2);
    let (component, warm) = (counter(&engine, "").await, WarmInstances::new(engine.warm()));
    calls(&component, Some(&warm)).await.unwrap();
    assert!(engine.warm().evict_idle());
    assert_eq!(calls(&component, Some(&warm)).await, Ok(2), "it was used in the meantime");
    assert!(engine.warm().evict_idle());
    assert!(!engine.warm().evict_idle());
    assert_eq!(calls(&component, Some(&warm)).await, Ok(1));
}

#[tokio::test]
async fn kept_instances_of_replaced_code_end() {
    let engine = engine(2);
    let (before, after) = (counter(&engine, "").await, counter(&engine, "nop").await);
    let warm = WarmInstances::new(engine.warm());
    calls(&before, Some(&warm)).await.unwrap();
    assert_eq!(calls(&after, Some(&warm)).await, Ok(1));
    assert_eq!(calls(&before, Some(&warm)).await, Ok(1));
}

#[tokio::test]
async fn kept_instances_need_no_permit() {
    let engine = engine(1);
    let (component, warm) = (counter(&engine, "").await, WarmInstances::new(engine.warm()));
    calls(&component, Some(&warm)).await.unwrap();
    assert_eq!(engine.instances_free(), 1);
    let other = engine.load(fixture::good()).await.unwrap();
    assert_eq!(calls(&other, None).await, Ok(0));
    assert_eq!(calls(&component, Some(&warm)).await, Ok(2));
}
