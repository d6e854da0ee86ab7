use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use homeostat_fixtures::demo_key;
use homeostat_testing::soon;
use tokio::sync::Semaphore;

use super::CallSession;
use crate::component::Component;
use crate::fixture::{self, Guest, Slow, engine};
use crate::layers::EmptyWorld;
use crate::limits::Limits;
use crate::outcome::{Fault, Outcome};

async fn call(component: &Component, caller: &mut CallSession) -> Result<Outcome, Fault> {
    component.reconcile(caller, &demo_key("Thing", "a"), &Limits::default(), Arc::new(EmptyWorld)).await.result
}

#[tokio::test]
async fn a_session_keeps_one_permit_between_calls_and_returns_it_at_its_end() {
    let engine = engine(2);
    let component = engine.load(fixture::good()).await.unwrap();
    let mut caller = CallSession::new("test");
    assert_eq!(engine.instances_free(), 2, "who has not called yet has none");
    for _ in 0..3 {
        assert_eq!(call(&component, &mut caller).await, Ok(Outcome::Settled));
        assert_eq!(engine.instances_free(), 1);
    }
    drop(caller);
    assert_eq!(engine.instances_free(), 2);
}

#[tokio::test]
async fn a_waiting_caller_goes_before_a_session_that_keeps_its_permit() {
    let engine = engine(1);
    let component = engine.load(fixture::good()).await.unwrap();
    let [mut keeps, mut waits] = ["keeps", "waits"].map(CallSession::new);
    call(&component, &mut keeps).await.unwrap();
    let mut waiting = pin!(call(&component, &mut waits));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "there is but one place");
    let mut again = pin!(call(&component, &mut keeps));
    assert!(again.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it is somebody else's turn");
    let Poll::Ready(served) = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the place was not given up");
    };
    assert_eq!(served, Ok(Outcome::Settled));
    assert_eq!(soon(again).await, Ok(Outcome::Settled));
}

#[tokio::test]
async fn a_caller_waiting_during_a_call_gets_the_permit_when_the_call_ends() {
    let engine = engine(1);
    let reads = "(drop (call $now)) global.get $settled";
    let component = engine.load(fixture::guest("global.get $spec", reads)).await.unwrap();
    let (key, [mut first, mut waits]) = (demo_key("Thing", "a"), ["first", "waits"].map(CallSession::new));
    let (slow, limits) = (Arc::new(Slow(Semaphore::new(0))), Limits::default());
    let mut calling = pin!(component.reconcile(&mut first, &key, &limits, slow.clone()));
    let mut waiting = pin!(component.reconcile(&mut waits, &key, &limits, slow.clone()));
    for pending in 0..2 {
        let mut context = Context::from_waker(Waker::noop());
        assert!(calling.as_mut().poll(&mut context).is_pending(), "{pending}");
        assert!(waiting.as_mut().poll(&mut context).is_pending(), "{pending}");
    }
    slow.0.add_permits(2);
    assert_eq!(calling.await.result, Ok(Outcome::Settled));
    // The first one still exists, and is idle.
    let served = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(
        served.is_ok_and(|served| served.result == Ok(Outcome::Settled)),
        "the place is kept from who waits for it"
    );
}

#[tokio::test]
async fn a_session_alternates_between_components() {
    let engine = engine(2);
    let settles = engine.load(fixture::good()).await.unwrap();
    let traps = engine.load(fixture::guest("global.get $spec", "unreachable")).await.unwrap();
    let mut caller = CallSession::new("test");
    for _ in 0..3 {
        assert_eq!(call(&settles, &mut caller).await, Ok(Outcome::Settled));
        assert!(matches!(call(&traps, &mut caller).await, Err(Fault::Trap { .. })));
    }
}

#[tokio::test]
async fn a_session_moves_to_another_machine_and_back_with_one_permit() {
    let engine = engine(2);
    let fits = engine.load(fixture::good()).await.unwrap();
    let parts = format!("(core module $m (memory 1)) {}", "(core instance (instantiate $m))".repeat(5));
    let large = engine.load(Guest { parts: &parts, ..Guest::default() }.build()).await.unwrap();
    assert!(fits.info().pooled && !large.info().pooled);
    assert!(!Arc::ptr_eq(&fits.0.code.current().machine, &large.0.code.current().machine), "it does not fit the pool");
    let mut caller = CallSession::new("test");
    for (component, other) in [(&fits, &large), (&large, &fits), (&fits, &large)] {
        assert_eq!(call(component, &mut caller).await, Ok(Outcome::Settled));
        let leave = caller.permit.as_ref().unwrap();
        let is_for = |component: &Component| std::ptr::eq(leave.machine(), &*component.0.code.current().machine);
        assert!(is_for(component) && !is_for(other), "it is kept for calls on its own machine");
        assert_eq!(engine.instances_free(), 1);
    }
}
