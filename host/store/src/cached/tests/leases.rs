//! Lease requests whose answers tell that the server is back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_fleet::{Answer, Epoch, Identity, LeaseName, Observation, Request};
use tokio::time::{Instant, sleep};

use super::server::{Server, create};
use super::{CachedStore, cache, status, subscribed, wait_for};
use crate::cached::Upstream;
use crate::cached::leases::CachedLeases;
use crate::{Availability, CacheState, Error, Fence, LeaseRequests, LeaseStore, LeaseWatch, OtherTerm, Result, Store};

/// The longest time between two requests of a lease.
const RENEW_EVERY: Duration = Duration::from_millis(400);
/// How often each test lets the server come back.
const ROUNDS: u32 = 20;

/// The leases of a server: requests are answered while it is not away.
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

    async fn carry_out(&self, _: &Request) -> Result<Answer> {
        self.0.ping().await.map(|()| Answer::Found(Observation::Absent { fence: None }))
    }
}

/// Asks for a lease all the time.
fn renew(store: &CachedStore, server: &Arc<Server>) {
    let leases = CachedLeases::new(Arc::new(Leases(Arc::clone(server))), Arc::clone(&store.shared));
    let name = LeaseName::of_host("sites");
    let lease = leases.lease(&name, &Identity::new("a/1"), Duration::from_secs(3)).expect("a lease");
    tokio::spawn(async move {
        loop {
            drop(lease.carry_out(&Request::Read).await);
            sleep(RENEW_EVERY).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn an_answered_lease_request_ends_the_wait_for_the_server() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    renew(&store, &server);
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
    renew(&store, &server);
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
