//! The state that the calls and the tasks of a cached store share: the server, and the table of the cached
//! kinds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::budget::Budget;
use super::kind::CachedKind;
use super::leases::LeaseProgress;
use super::monitor::Monitor;
use super::options::Options;
use super::own_writes::OwnWrite;
use super::read_watermark::{ReadWatermark, ReadWatermarks, TypeName};
use super::upstream::Upstream;
use crate::listing::ServerTokens;
use crate::model::Path;
use crate::{
    Availability, CacheState, CacheStatus, Error, Key, Kind, Obstacle, RequestCounts, Result, Revision, StoreStatus,
};

/// Kinds with a cache. Beyond this number, reads ask the server and watches are refused.
pub(super) const KINDS_MAX: usize = 1024;

/// The time between two records of how far the content has come.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);

/// Kinds with documents that cannot be read, of which a store has a note.
const UNREADABLE_NOTES_MAX: usize = 8;

/// The note on a server that does not tell which content it has.
const UNNAMED: &str = "its server does not tell which content it has: content that is exchanged while the host is down is not noticed, and resources in other stores whose owners live here are not deleted after them";

/// See the module.
pub(super) struct SharedState {
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) monitor: Monitor,
    pub(super) options: Options,
    pub(super) budget: Arc<Budget>,
    kinds: Mutex<KindTable>,
    server_tokens: Mutex<ServerTokens>,
    /// Writes that were not sent because they would have changed nothing.
    pub(super) skipped: AtomicU64,
    pub(super) lease_progress: Mutex<LeaseProgress>,
}

/// The kinds with a cache, and how far other kinds were shown. Its lock is taken before the lock of a kind.
#[derive(Default)]
struct KindTable {
    cached: BTreeMap<TypeName, Arc<CachedKind>>,
    shown: ReadWatermarks,
}

/// A user of the cache of a kind, until it is dropped.
pub(super) struct User {
    shared: Arc<SharedState>,
    pub(super) kind: Arc<CachedKind>,
    /// Whether the kind had no cache before: its reflector has to be started.
    pub(super) is_first: bool,
}

impl SharedState {
    pub(super) fn new(upstream: Arc<dyn Upstream>, options: Options) -> Arc<Self> {
        let monitor = Monitor::new(Arc::clone(&upstream), &options);
        let (budget, kinds) = (Budget::new(options.bytes_max), Mutex::default());
        let server_tokens = Mutex::new(ServerTokens::starting_at(options.clock.now()));
        let (skipped, lease_progress) = Default::default();
        Arc::new(Self { upstream, monitor, options, budget, kinds, server_tokens, skipped, lease_progress })
    }

    /// Returns the tokens of lists that the server answers.
    pub(super) fn server_tokens(&self) -> MutexGuard<'_, ServerTokens> {
        self.server_tokens.lock().expect("no thread panics while holding the tokens")
    }

    /// Returns the cache of a kind.
    pub(super) fn kind(&self, kind: &Kind) -> Option<Arc<CachedKind>> {
        self.kinds().cached.get(&type_name(kind)).cloned()
    }

    /// Returns the number of cached kinds.
    pub(super) fn kinds_len(&self) -> usize {
        self.kinds().cached.len()
    }

    /// Adds a user of a kind; `None` when there are [`KINDS_MAX`] others.
    pub(super) fn join(self: &Arc<Self>, kind: &Kind) -> Option<User> {
        let mut kinds = self.kinds();
        let name = type_name(kind);
        let known = kinds.cached.get(&name).cloned();
        let is_first = known.is_none();
        let cached = match known {
            Some(cached) => cached,
            None if kinds.cached.len() >= KINDS_MAX => return None,
            None => {
                let (clock, budget) = (Arc::clone(&self.options.clock), Arc::clone(&self.budget));
                let shown = kinds.shown.take(&name);
                let cached = CachedKind::new(
                    (kind.clone(), self.options.view(kind)),
                    clock,
                    self.options.bounds(),
                    budget,
                    shown,
                );
                kinds.cached.insert(name, Arc::clone(&cached));
                cached
            }
        };
        cached.users.send_modify(|users| *users += 1);
        Some(User { shared: Arc::clone(self), kind: cached, is_first })
    }

    /// Removes a kind from the table and frees its contents, unless it has got a user. Returns whether it did.
    pub(super) fn remove_unused(&self, kind: &CachedKind) -> bool {
        let mut kinds = self.kinds();
        let is_unused = *kind.users.borrow() == 0;
        if is_unused {
            let name = type_name(&kind.kind);
            kinds.cached.remove(&name);
            kinds.shown.add(name, kind.remove());
        }
        is_unused
    }

    /// Records the state of a resource that the server told in an answer, so that no later read goes back before it.
    pub(super) fn record(&self, key: &Key, write: OwnWrite) {
        let mut kinds = self.kinds();
        let name = type_name(key.kind());
        match kinds.cached.get(&name) {
            // A server that validates answers in the version that the caller names. Reads show only that of the cache.
            Some(cached) if self.upstream.server_validates() && write.has_other_version(&cached.kind) => {
                cached.lock().own.raise_floor(write.order());
            }
            Some(cached) => cached.record(Path::of(key), write),
            None => kinds.shown.add(name, write.shown()),
        }
    }

    /// Records that the state of a resource at the server is unknown, as after a write without an answer.
    pub(super) fn record_unknown(&self, key: &Key) {
        let mut kinds = self.kinds();
        let name = type_name(key.kind());
        match kinds.cached.get(&name) {
            Some(cached) => cached.lock().own.fence(key, true),
            None => kinds.shown.add(name, ReadWatermark::UNKNOWN),
        }
    }

    /// Records that a kind was shown at a revision without its cache.
    pub(super) fn show(&self, kind: &Kind, revision: Revision) {
        let mut kinds = self.kinds();
        let (name, shown) = (type_name(kind), ReadWatermark::at(revision));
        match kinds.cached.get(&name) {
            Some(cached) => cached.show(shown),
            None => kinds.shown.add(name, shown),
        }
    }

    /// Forgets what was shown of all kinds: the content of the server is another one, with other revisions.
    pub(super) fn forget_shown(&self) {
        let mut kinds = self.kinds();
        kinds.shown.clear();
        kinds.cached.values().for_each(|cached| cached.forget_shown());
    }

    /// Passes an answer of the server on, and has a look at a server that did not answer.
    pub(super) fn answered<T>(&self, answer: Result<T>) -> Result<T> {
        if matches!(answer, Err(Error::Unavailable { .. })) {
            self.monitor.hint();
        }
        answer
    }

    /// Returns the kinds that may have resources.
    pub(super) async fn kinds_in_use(&self) -> Result<Vec<Kind>> {
        self.gate().await?;
        let mut kinds = self.answered(self.upstream.kinds().await)?;
        let cached = self.cached_kinds();
        for kind in cached.iter().filter(|kind| kind.has_resources()).map(|kind| &kind.kind) {
            if !kinds.iter().any(|known| known.same_type(kind)) {
                kinds.push(kind.clone());
            }
        }
        Ok(kinds)
    }

    /// Waits until requests can be made.
    ///
    /// # Errors
    /// `Unavailable` with the reason; `Closed`.
    pub(super) async fn gate(&self) -> Result<()> {
        self.monitor.gate(self.options.read_wait_max).await
    }

    /// Returns the state of the store.
    pub(super) fn status(&self) -> StoreStatus {
        let server = self.monitor.state();
        let availability = match self.upstream.refuses_writes() {
            Some(reason) if server.is_ready() => Availability::Unhealthy { reason },
            _ => server.availability().clone(),
        };
        let kinds = self.cached_kinds();
        let requests = self.upstream.counts();
        // Empty before the first contact.
        let catalog = self.upstream.catalog().map(|catalog| Arc::clone(&catalog.borrow()));
        let catalog = catalog.filter(|catalog| catalog.kinds().next().is_some());
        let is_missing = |kind: &Kind| catalog.as_ref().is_some_and(|catalog| catalog.find(kind).is_none());
        let cache = |kind: &Arc<CachedKind>| {
            let status = kind.status();
            let missing = is_missing(&status.kind).then_some(Obstacle::NotServed);
            CacheStatus { obstacle: missing.or(status.obstacle), ..status }
        };
        StoreStatus {
            name: self.upstream.name().into(),
            storage: self.upstream.storage(),
            id: server.content().map(str::to_owned),
            availability,
            revision: None,
            orders_all_kinds: false,
            collects_garbage: self.upstream.collects_garbage(),
            caches: kinds.iter().map(cache).collect(),
            cache_bytes_max: Some(self.options.bytes_max),
            notes: self.notes(),
            requests: RequestCounts { skipped: requests.skipped + self.skipped.load(Ordering::Relaxed), ..requests },
        }
    }

    /// Returns the latest revision of the content that caches have seen or readers were shown.
    pub(super) fn seen(&self) -> Revision {
        let kinds = self.kinds();
        let cached = kinds.cached.values().map(|kind| kind.lock().seen).max().unwrap_or(Revision::ZERO);
        cached.max(kinds.shown.highest())
    }

    /// Asks the server which content it has, and returns its id.
    ///
    /// # Errors
    /// `Unavailable` when the store cannot be used, and while the server is behind what was seen of it; `Closed`.
    pub(super) async fn verify_content(&self) -> Result<Option<String>> {
        self.monitor.verify_reached(self.seen()).await?;
        if let Some(stale) = self.cached_kinds().into_iter().find(|kind| kind.lock().is_stale) {
            let reason = format!("the last list of {} was older than what was seen before", stale.kind);
            return Err(Error::unavailable(reason));
        }
        Ok(self.monitor.state().content().map(str::to_owned))
    }

    /// Records each minute how far the content of the server has come, until the store is closed.
    pub(super) async fn keep_progress(&self) {
        if self.options.record.is_none() {
            return;
        }
        while self.monitor.state().availability() != &Availability::Closed {
            tokio::time::sleep(RECORD_INTERVAL).await;
            self.record_progress().await;
        }
    }

    /// Records how far the content of the server has come, by the revisions that the caches have seen.
    pub(super) async fn record_progress(&self) {
        let kinds = self.cached_kinds();
        self.monitor.record_progress(kinds.iter().filter_map(|kind| kind.status().revision).max()).await;
    }

    /// Returns what a person should know of the store.
    fn notes(&self) -> Vec<String> {
        let renamed = self.monitor.other_name().map(|other| {
            format!(
                "it has the content that store {other:?} had: resources whose owners live in {other:?} do not follow"
            )
        });
        let server = self.monitor.state();
        let unnamed = (server.is_ready() && server.content().is_none()).then(|| UNNAMED.to_owned());
        let kinds: Vec<Arc<CachedKind>> = self.kinds().cached.values().cloned().collect();
        let unreadable = kinds.iter().filter_map(|kind| kind.unreadable_note()).take(UNREADABLE_NOTES_MAX);
        self.upstream.notes().into_iter().chain(renamed).chain(unnamed).chain(unreadable).collect()
    }

    /// Ends all caches and watches with `Closed`.
    pub(super) fn close(&self) {
        self.monitor.close();
        let kinds = std::mem::take(&mut self.kinds().cached);
        for kind in kinds.into_values() {
            kind.end(CacheState::Listing, |_| Error::Closed);
        }
    }

    fn cached_kinds(&self) -> Vec<Arc<CachedKind>> {
        self.kinds().cached.values().cloned().collect()
    }

    fn kinds(&self) -> MutexGuard<'_, KindTable> {
        self.kinds.lock().expect("no thread panics while holding the table")
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // Under the lock of the table, so that no kind with a user is removed from it.
        let _kinds = self.shared.kinds();
        self.kind.users.send_modify(|users| *users -= 1);
    }
}

fn type_name(kind: &Kind) -> TypeName {
    (kind.group.clone(), kind.name.clone())
}
