use futures_util::FutureExt;
use homeostat_fixtures::demo_key;

use super::*;

fn key(name: &str) -> Key {
    demo_key("App", name)
}

#[test]
fn a_wait_ends_with_a_run_that_began_after_it_and_had_no_failure() {
    let waiters = Arc::<SettleWaiters>::default();
    let early = waiters.begin_run(&key("a"));
    assert!(early.is_none());
    let wait = waiters.wait(&key("a"));
    assert!(waiters.begin_run(&key("b")).is_none());
    let failed = waiters.begin_run(&key("a"));
    drop(failed);
    let good = waiters.begin_run(&key("a")).unwrap();
    let late = waiters.wait(&key("a"));
    good.settle();
    assert!(wait.settled().now_or_never().is_some());
    let mut late = Box::pin(late.settled());
    assert!((&mut late).now_or_never().is_none(), "the run had begun before");
    waiters.begin_run(&key("a")).unwrap().settle();
    assert!(late.now_or_never().is_some());
}

#[test]
fn a_wait_that_ends_leaves_nothing_behind() {
    let waiters = Arc::<SettleWaiters>::default();
    let waits: Vec<_> = (0..100).map(|number| waiters.wait(&key(&format!("n{number}")))).collect();
    let run = waiters.begin_run(&key("n0")).unwrap();
    drop(waits);
    drop(run);
    assert!(waiters.waiting.lock().is_empty());
    assert_eq!(waiters.count.load(Ordering::SeqCst), 0);
}
