//! Fences of a lease that lives in another store, in a bucket of NATS against the real server.

use std::sync::Arc;

use homeostat_fleet::{AcquireCondition, Answer, Epoch, Identity, Request as LeaseRequest};
use homeostat_nats::Bucket;
use homeostat_store::cached::{CachedState, Upstream as _};
use homeostat_store::{Error, Fence, OtherTerm, Request, Result};
use homeostat_tests::shared_nats;
use tokio::task::JoinSet;

use super::lease_host::{NEW, acquired, lease, name};
use super::nats::{contacted, creation};

/// A term of `web` in a store with other content than the bucket.
fn term(holder: &str, content: &str, epoch: u64) -> OtherTerm {
    let (lease, holder) = (name("web"), Identity::new(holder));
    OtherTerm { lease, holder, content: content.to_owned(), epoch: Epoch(epoch) }
}

async fn raised(bucket: &Arc<Bucket>, term: &OtherTerm) -> Result<Fence> {
    let fence = bucket.leases().unwrap().raise_fence(term).await?;
    Ok(fence.expect("a bucket checks fences"))
}

/// Creates resources enough to meet every lane.
async fn creates(bucket: &Bucket, prefix: &str, fence: &Fence) -> Result<()> {
    for number in 0..48 {
        let write = Request { fence: Some(fence.clone()), ..creation(&format!("{prefix}-{number}")).into() };
        bucket.submit(write, CachedState::Unknown).await?;
    }
    Ok(())
}

/// C7: A bucket that knows a later term of a lease elsewhere refuses the writes of the earlier one.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_an_old_term_of_another_store_is_refused() {
    let url = shared_nats().url();
    let (one, two) = (contacted(&url, "other").await, contacted(&url, "other").await);
    let (a, b) = (term("a_1", "far", 10), term("b_1", "far", 12));
    let first = raised(&one, &a).await.unwrap();
    creates(&one, "first", &first).await.unwrap();
    assert_eq!(raised(&one, &a).await, Ok(first.clone()), "its answer was lost");
    creates(&one, "again", &first).await.unwrap();
    let second = raised(&two, &b).await.unwrap();
    for number in 0..48 {
        let write = Request { fence: Some(first.clone()), ..creation(&format!("late-{number}")).into() };
        let refused = one.submit(write, CachedState::Unknown).await;
        assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    }
    creates(&two, "second", &second).await.unwrap();
    // A host that was paused between its acquisition and the fence.
    assert!(matches!(raised(&one, &a).await, Err(Error::Fenced { .. })));
    creates(&two, "third", &second).await.unwrap();
    // The store of the lease was emptied and accepted: its epochs begin anew.
    let anew = raised(&one, &term("a_2", "emptied", 3)).await.unwrap();
    creates(&one, "anew", &anew).await.unwrap();
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn of_hosts_that_raise_a_fence_at_once_the_latest_term_keeps_it() {
    let url = shared_nats().url();
    let bucket = contacted(&url, "contended").await;
    let mut hosts = JoinSet::new();
    for epoch in 1..=8 {
        let bucket = Arc::clone(&bucket);
        hosts.spawn(async move { (epoch, raised(&bucket, &term("a_1", "far", epoch)).await) });
    }
    while let Some(host) = hosts.join_next().await {
        let (epoch, raised) = host.unwrap();
        // It may lose against others several times, and tries again later.
        assert!(epoch < 8 || !matches!(raised, Err(Error::Fenced { .. })), "{raised:?}");
    }
    let latest = raised(&bucket, &term("a_1", "far", 8)).await.unwrap();
    creates(&bucket, "latest", &latest).await.unwrap();
    assert!(matches!(raised(&bucket, &term("a_1", "far", 7)).await, Err(Error::Fenced { .. })));
}

/// The kind of a controller can move to the bucket in which its lease had only a fence.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_moves_to_a_bucket_replaces_its_fence_there() {
    let bucket = contacted(&shared_nats().url(), "moved-lease").await;
    let before = raised(&bucket, &term("a_1", "far", 10)).await.unwrap();
    let own = lease(&bucket, "web", "a_1");
    assert_eq!(own.carry_out(&NEW).await, Ok(Answer::Conflict), "there was a term, as the fence tells");
    let expected = AcquireCondition::Absent { fence: Some(Epoch(before.epoch)) };
    let (_, epoch) = acquired(&own, &LeaseRequest::Acquire { expected, transitions: 0 }).await;
    creates(&bucket, "own", &own.fence(epoch).unwrap()).await.unwrap();
    assert!(matches!(creates(&bucket, "old", &before).await, Err(Error::Fenced { .. })));
}
