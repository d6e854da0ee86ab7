//! What a store has shown of a fleet: terms and writes, in the order of the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use homeostat_fleet::{Identity, LeaseName, Observation};
use homeostat_store::cached::{Delta, Start, Upstream};
use homeostat_store::{Kind, Resource, Result, View};
use homeostat_testing::until;
use tokio::runtime::Runtime;

use super::super::HOSTS;

/// How long an overlap may be one that the watch of the leases explains.
const LAG_MAX: Duration = Duration::from_secs(10);
/// The pause before a watch is opened again.
const PAUSE: Duration = Duration::from_millis(50);

/// The history of a fleet. Two watches write it.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By epoch, the holder of the term; by the version of a release, `None`.
    terms: BTreeMap<u64, Option<Identity>>,
    /// By revision, the writes of hosts that were not checked yet.
    writes: BTreeMap<u64, HostWrite>,
    /// By name.
    resources: BTreeMap<String, Urls>,
}

/// A write of a host, and when its change arrived here.
#[derive(Clone, Copy, Debug)]
struct HostWrite {
    host: &'static str,
    at: Instant,
}

/// The URL that a resource asks for, and the one that a host has fetched.
#[derive(Clone, Debug, Default, PartialEq)]
struct Urls {
    asked: String,
    fetched: String,
}

/// A write of a host in the term of another one, or in none.
#[derive(Debug)]
#[expect(dead_code, reason = "the fields are printed")]
pub(super) struct Overlap {
    host: &'static str,
    revision: u64,
    holder: Option<String>,
}

pub(super) fn kind() -> Kind {
    Kind::new("demo.homeostat.dev", "v1", "Fetcher")
}

impl History {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_lease(&self, observation: &Observation) {
        let Observation::Present(record) = observation else { return };
        let at = if record.holder.is_some() { record.epoch.0 } else { record.version.0 };
        self.lock().terms.insert(at, record.holder.clone());
    }

    /// Takes a state of a resource. A listed one may have several writes behind it, so it is none of a host.
    fn take(&self, resource: &Resource, is_listed: bool) {
        let text = |field: &serde_json::Value| field["url"].as_str().unwrap_or_default().to_owned();
        let now = Urls { asked: text(&resource.document()["spec"]), fetched: text(resource.status()) };
        let mut state = self.lock();
        let before = state.resources.insert(resource.key().name().to_owned(), now.clone()).unwrap_or_default();
        let host = HOSTS.iter().find(|(_, code)| resource.status()["code"] == *code);
        if let Some((host, _)) = host
            && !is_listed
            && before.fetched != now.fetched
        {
            state.writes.insert(resource.revision().0, HostWrite { host, at: Instant::now() });
        }
    }

    /// Returns the holder of the last term, if it has written in it.
    pub(super) fn worker(&self) -> Option<&'static str> {
        let state = self.lock();
        let (epoch, holder) = state.terms.last_key_value()?;
        let (revision, write) = state.writes.last_key_value()?;
        (holder.as_ref()?.host() == write.host && revision > epoch).then_some(write.host)
    }

    /// Returns when the first write arrived of a host that `counts`.
    pub(super) fn first_write_since(&self, from: Instant, counts: impl Fn(&str) -> bool) -> Option<Instant> {
        self.lock().writes.values().find(|write| write.at >= from && counts(write.host)).map(|write| write.at)
    }

    /// Returns the time between the last write of a host and the next write of another one.
    pub(super) fn gap_after(&self, host: &str) -> Option<Duration> {
        let state = self.lock();
        let last = state.writes.values().rfind(|write| write.host == host)?.at;
        let next = state.writes.values().find(|write| write.host != host && write.at >= last)?.at;
        Some(next.saturating_duration_since(last))
    }

    /// Returns the resources that no host has fetched since their last change. `asked` has the numbers of the last
    /// acknowledged changes, by name.
    pub(super) fn unsettled(&self, asked: impl Iterator<Item = (String, u64)>) -> Vec<String> {
        let state = self.lock();
        let is_settled = |name: &str, number: u64| {
            let urls = state.resources.get(name);
            urls.is_some_and(|urls| urls.asked == urls.fetched && number_of(&urls.asked) >= number)
        };
        asked.filter(|(name, number)| !is_settled(name, *number)).map(|(name, _)| name).collect()
    }

    /// Checks the writes since the last call. Returns their number, and the overlaps.
    pub(super) fn check(&self) -> (usize, Vec<Overlap>) {
        // The watch of the leases may be behind that of the resources.
        until(LAG_MAX, || self.overlaps().is_empty().then_some(()));
        let overlaps = self.overlaps();
        (std::mem::take(&mut self.lock().writes).len(), overlaps)
    }

    fn overlaps(&self) -> Vec<Overlap> {
        let state = self.lock();
        let overlap = |(revision, write): (&u64, &HostWrite)| {
            let holder = state.terms.range(..=*revision).next_back().and_then(|(_, holder)| holder.clone());
            let is_right = holder.as_ref().is_some_and(|holder| holder.host() == write.host);
            let holder = holder.map(|holder| holder.to_string());
            (!is_right).then_some(Overlap { host: write.host, revision: *revision, holder })
        };
        state.writes.iter().filter_map(overlap).collect()
    }
}

/// Returns the number at the end of a URL.
fn number_of(url: &str) -> u64 {
    url.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Follows the resources and the leases of a store, until the runtime ends. A server that starts again ends a watch.
pub(super) fn follow(runtime: &Runtime, store: &Arc<dyn Upstream>, history: &Arc<History>) {
    let (of_resources, of_leases) =
        ((Arc::clone(store), Arc::clone(history)), (Arc::clone(store), Arc::clone(history)));
    runtime.spawn(async move {
        loop {
            drop(follow_resources(&*of_resources.0, &of_resources.1).await);
            tokio::time::sleep(PAUSE).await;
        }
    });
    runtime.spawn(async move {
        loop {
            drop(follow_leases(&*of_leases.0, &of_leases.1).await);
            tokio::time::sleep(PAUSE).await;
        }
    });
}

async fn follow_resources(store: &dyn Upstream, history: &History) -> Result<()> {
    store.connect().await?;
    let mut stream = store.open(&kind(), View::Whole, Start::Now { not_before: None }).await?;
    loop {
        match stream.next().await? {
            Delta::Listed(resource) => history.take(&resource, true),
            Delta::Put(resource) => history.take(&resource, false),
            _ => {}
        }
    }
}

async fn follow_leases(store: &dyn Upstream, history: &History) -> Result<()> {
    let Some(leases) = store.leases() else { return Ok(()) };
    let mut watch = leases.watch_leases().await?;
    let controller = LeaseName::new("fetcher", 0, 1).expect("a controller can have this name");
    loop {
        let (name, observation) = watch.next().await?;
        if name == controller {
            history.take_lease(&observation);
        }
    }
}
