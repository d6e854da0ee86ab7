mod session;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

fn names() -> [Arc<str>; 3] {
    ["greedy", "modest", "other"].map(Arc::from)
}

/// Returns the output of a future if it is ready now.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// P5: a busy controller delays others by a bounded factor only.
#[test]
fn a_controller_leaves_the_last_quarter_of_the_permits_to_others() {
    let instances = Instances::new(8);
    let [greedy, modest, _] = names();
    let held: Vec<_> = std::iter::from_fn(|| now(instances.acquire(&greedy))).collect();
    assert_eq!(held.len(), 6);
    assert!(now(instances.acquire(&modest)).is_some());
}

/// P5: a busy controller delays others by a bounded factor only.
#[tokio::test]
async fn waiting_controllers_get_permits_in_turn_regardless_of_their_calls() {
    let instances = Instances::new(1);
    let [greedy, modest, other] = names();
    let held = instances.acquire(&greedy).await;
    let (mut waiting, mut served) = (Vec::new(), Vec::new());
    for name in [&greedy, &greedy, &greedy, &modest, &other] {
        let mut asked = Box::pin({
            let (instances, name) = (instances.clone(), name.clone());
            async move { instances.acquire(&name).await }
        });
        assert!(now(asked.as_mut()).is_none());
        waiting.push((name.clone(), asked));
    }
    drop(held);
    while !waiting.is_empty() {
        let mut at = 0;
        let permit = loop {
            match now(waiting[at].1.as_mut()) {
                Some(permit) => break permit,
                None => at += 1,
            }
        };
        served.push(waiting.remove(at).0.to_string());
        drop(permit);
    }
    assert_eq!(served, ["modest", "other", "greedy", "greedy", "greedy"]);
    assert_eq!(instances.free(), 1);
    assert!(instances.state.lock().holders.is_empty(), "who has nothing is forgotten");
}

#[tokio::test]
async fn a_permit_granted_to_a_caller_that_left_goes_to_the_next() {
    let instances = Instances::new(1);
    let [greedy, modest, _] = names();
    let held = instances.acquire(&greedy).await;
    let mut left = Box::pin(instances.acquire(&modest));
    assert!(now(left.as_mut()).is_none());
    let mut stays = Box::pin(instances.acquire(&greedy));
    assert!(now(stays.as_mut()).is_none());
    drop(held);
    drop(left);
    assert!(now(stays.as_mut()).is_some());
    drop(stays);
    assert_eq!(instances.free(), 1);
}

#[test]
fn a_permit_skips_any_number_of_callers_that_left() {
    let instances = Instances::new(1);
    let [greedy, modest, _] = names();
    let held = now(instances.acquire(&greedy)).unwrap();
    for _ in 0..100_000 {
        assert!(now(instances.acquire(&modest)).is_none());
    }
    drop(held);
    assert_eq!(instances.free(), 1);
    assert!(instances.state.lock().holders.is_empty());
}
