//! Lease requests: their answers tell that the server is back, and they write nothing to a server that went back in time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_fleet::{Answer, Epoch, Identity, LeaseName, Observation, Request, Version};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::server::{Server, create, widget};
use super::{CachedStore, cache, status, subscribed, wait_for};
use crate::cached::Upstream;
use crate::cached::leases::CachedLeases;
use crate::{
    Availability, CacheState, Error, Fence, LeaseRequests, LeaseStore, LeaseWatch, OtherTerm, Result, Revision, Store,
    Write,
};

/// The longest time between two requests of a lease.
const RENEW_EVERY: Duration = Duration::from_millis(400);
/// How often each test lets the server come back.
const ROUNDS: u32 = 20;

/// The leases of a server: requests are answered while it is not away, and a renewal takes the next revision.
#[derive(Clone)]
struct Leases(Arc<Server>);

#[async_trait]
impl LeaseStore for Leases {
    fn lease(&self, _: &LeaseName, _: &Identity, _: Duration) -> Result<Arc<dyn LeaseRequests>> {
        Ok(Arc::new(self.clone()))
    }

    async fn raise_fence(&self, _: &OtherTerm) -> Result<Option<Fence>> {
        Ok(None)
    }

    async fn watch_leases(&self) -> Result<Box<dyn LeaseWatch>> {
        Err(Error::unavailable("nobody watches"))
    }
}

#[async_trait]
impl LeaseRequests for Leases {
    fn fence(&self, _: Epoch) -> Option<Fence> {
        None
    }

    fn describe(&self, _: &str) {}

    async fn carry_out(&self, request: &Request) -> Result<Answer> {
        self.0.ping().await?;
        let Request::Renew { epoch, .. } = request else {
            return Ok(Answer::Found(Observation::Absent { fence: None }));
        };
        let mut document = widget("", 0);
        document["kind"] = "Renewal".into();
        document["metadata"] = json!({"generateName": "renewal-"});
        let version = Version(self.0.store().write(Write::Create { document }).await?.resource.revision().0);
        Ok(Answer::Stored { version, epoch: *epoch })
    }
}

const READ: Request = Request::Read;
const RENEW: Request = Request::Renew { expected: Version(1), epoch: Epoch(1) };

/// Sends a request of a lease all the time.
fn repeat(request: Request, store: &CachedStore, server: &Arc<Server>) {
    let leases = CachedLeases::new(Arc::new(Leases(Arc::clone(server))), Arc::clone(&store.shared));
    let name = LeaseName::of_host("sites");
    let lease = leases.lease(&name, &Identity::new("a/1"), Duration::from_secs(3)).expect("a lease");
    tokio::spawn(async move {
        loop {
            drop(lease.carry_out(&request).await);
            sleep(RENEW_EVERY).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn an_answered_lease_request_ends_the_wait_for_the_server() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    repeat(READ, &store, &server);
    for _ in 0..ROUNDS {
        server.fault(|faults| faults.away = true);
        wait_for(|| matches!(status(&store).availability, Availability::Away { .. })).await;
        sleep(Duration::from_secs(60)).await;
        server.fault(|faults| faults.away = false);
        let began = Instant::now();
        wait_for(|| cache(&store).state == CacheState::Synced).await;
        assert!(began.elapsed() <= RENEW_EVERY + Duration::from_millis(50), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_away_for_a_moment_is_followed_again_within_two_seconds() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    for _ in 0..ROUNDS {
        server.fault(|faults| faults.away = true);
        wait_for(|| matches!(status(&store).availability, Availability::Away { .. })).await;
        server.fault(|faults| faults.away = false);
        let began = Instant::now();
        wait_for(|| cache(&store).state == CacheState::Synced).await;
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_lease_request_ends_the_wait_for_a_stream() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    repeat(READ, &store, &server);
    for _ in 0..ROUNDS {
        // The server answers again, but opens no streams: the wait for one doubles.
        server.fault(|faults| faults.refuses_streams = true);
        server.cut();
        sleep(Duration::from_secs(60)).await;
        server.fault(|faults| faults.away = true);
        sleep(Duration::from_secs(1)).await;
        server.fault(|faults| (faults.away, faults.refuses_streams) = (false, false));
        let began = Instant::now();
        wait_for(|| cache(&store).state == CacheState::Synced).await;
        // A wait lasts at least a second.
        assert!(began.elapsed() <= RENEW_EVERY + Duration::from_millis(1050), "{:?}", began.elapsed());
    }
    assert_eq!(store.health(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn renewals_do_not_hide_that_the_content_of_the_server_went_back() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    repeat(RENEW, &store, &server);
    sleep(RENEW_EVERY * 4).await;
    let lost = create(&store, "lost").await.expect("a free name").revision().0;
    wait_for(|| cache(&store).state == CacheState::Synced).await;
    // A renewal would take the revision of the resource that the backup lacks.
    server.empty(Some("one"));
    for number in 1..lost {
        create(&*server.store(), &format!("kept{number}")).await.expect("a free name");
    }
    wait_for(|| matches!(status(&store).availability, Availability::Replaced { .. })).await;
    assert_eq!(server.store().status()[0].revision, Some(Revision(lost - 1)), "no renewal was written");
}
