//! Runs one sequence of steps on a store and on the model, and compares them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_conformance::{at_once, in_order};
use homeostat_store::embedded::{EmbeddedStore, OpenError, fsck};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{
    ClockAndIds, Error, Event, Options, Page, Query, Resource, Result, Revision, Scope, Store, Watch,
};
use tempfile::TempDir;

use super::log::Log;
use super::traffic::{Begin, End, KINDS, Step, Traffic};
use crate::cuts::Clock;
use crate::{kind, newest};

/// Events that the store may keep beyond its bound, temporarily.
const EXTRA_MAX: u64 = 512;
const WATCHES_MAX: usize = 8;
const LISTS_MAX: usize = 4;
/// Longer than a short step of the clock, and shorter than a long one.
const AGE_MAX: Duration = Duration::from_secs(300);

/// A watch and its position.
struct Follower {
    watch: Watch,
    kind: Option<&'static str>,
    position: Revision,
}

/// A list with pages still to be read.
struct Listing {
    kind: &'static str,
    page: Page,
    items: Vec<Arc<Resource>>,
    limit: usize,
}

struct Run {
    store: Option<Arc<dyn Store>>,
    /// The folder of the file, if the store is in a file.
    folder: Option<TempDir>,
    options: Options,
    clock: Arc<Clock>,
    log: Log,
    oldest: Revision,
    followers: Vec<Follower>,
    lists: Vec<Listing>,
    restarts: u64,
}

pub(super) async fn run(folder: Option<TempDir>, history_max: u64, steps: Vec<Step>) {
    let clock = Arc::new(Clock::default());
    let source = Arc::clone(&clock) as Arc<dyn ClockAndIds>;
    let options = Options { history_max, history_age_max: AGE_MAX, clock: source, ..Options::default() };
    let store: Arc<dyn Store> = match &folder {
        Some(folder) => Arc::new(EmbeddedStore::open(folder.path().join("store"), options.clone()).unwrap()),
        None => Arc::new(MemoryStore::new(options.clone())),
    };
    let mut run = Run {
        store: Some(store),
        folder,
        options,
        clock,
        log: Log::default(),
        oldest: Revision::ZERO,
        followers: Vec::new(),
        lists: Vec::new(),
        restarts: 0,
    };
    for step in steps {
        match step {
            Step::Burst(burst) => run.burst(&burst).await,
            Step::Watch(kind, begin) => run.watch(kind, begin).await,
            Step::Read(which, count) => run.read(which, count).await,
            Step::Resume(which) => run.resume(which).await,
            Step::List(kind, limit) => run.list(kind, limit).await,
            Step::Page(which) => run.page(which).await,
            Step::Advance(seconds) => run.clock.advance(seconds),
            Step::Restart(end) => run.restart(end).await,
        }
    }
    run.finish().await;
}

impl Run {
    fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().expect("it is taken away only while it is opened again")
    }

    /// Returns the id of the content of the store.
    fn id(&self) -> Option<String> {
        self.store().status().swap_remove(0).id
    }

    /// Returns the oldest revision from which a watch can start.
    async fn oldest(&mut self) -> Revision {
        let oldest = match self.store().watch(Scope::Everything, Revision::ZERO).await {
            Ok(_) => Revision::ZERO,
            Err(Error::Expired { oldest }) => oldest,
            Err(error) => panic!("{error}"),
        };
        let (newest, history_max) = (self.log.newest().0, self.options.history_max);
        assert!(oldest >= self.oldest, "history came back");
        assert!(oldest <= self.compact_target(), "{oldest} of {newest}: history was cut too far");
        assert!(newest - oldest.0 <= history_max + EXTRA_MAX, "{oldest} of {newest}: history was not cut");
        self.oldest = oldest;
        oldest
    }

    /// Returns the revision up to which the store may compact, at any moment from now on.
    fn compact_target(&self) -> Revision {
        let too_many = self.log.newest().0.saturating_sub(self.options.history_max);
        Revision(too_many).max(self.log.reached(self.clock.now() - AGE_MAX))
    }

    async fn burst(&mut self, burst: &[Traffic]) {
        let store = Arc::clone(self.store());
        let requests: Vec<_> = burst.iter().map(Traffic::request).collect();
        let answers = in_order(requests.into_iter().map(|request| store.submit(request)).collect()).await;
        for (traffic, answer) in burst.iter().zip(answers) {
            self.log.take(traffic, answer, self.clock.now());
        }
        assert_eq!(newest(&*store).await, self.log.newest());
    }

    async fn watch(&mut self, kind: Option<&'static str>, begin: Begin) {
        let (oldest, newest) = (self.oldest().await, self.log.newest());
        let from = match begin {
            Begin::Zero => Revision::ZERO,
            Begin::Now => newest,
            Begin::Oldest => oldest,
            Begin::BeforeOldest => Revision(oldest.0.saturating_sub(1)),
            Begin::Future(by) => Revision(newest.0 + by),
            Begin::Part(percent) => Revision(newest.0 * percent / 100),
        };
        self.open(kind, from).await;
    }

    /// Opens a watch, and returns whether it is open. It has to succeed exactly if the history after `from`
    /// is kept.
    async fn open(&mut self, kind: Option<&'static str>, from: Revision) -> bool {
        let (before, newest) = (self.oldest().await, self.log.newest());
        let opened = self.store().watch(scope(kind), from).await;
        let after = self.oldest().await;
        match opened {
            Ok(watch) => {
                assert!(before <= from && from <= newest, "a watch from {from} of {before} to {newest}");
                self.followers.push(Follower { watch, kind, position: from });
                if self.followers.len() > WATCHES_MAX {
                    self.followers.remove(0);
                }
                return true;
            }
            Err(Error::FutureRevision { asked, current }) => {
                assert!(asked == from && current == newest && from > newest)
            }
            Err(Error::Expired { .. }) => assert!(from < after, "{from} is not older than {after}"),
            Err(error) => panic!("{error}"),
        }
        false
    }

    async fn read(&mut self, which: usize, count: usize) {
        if which >= self.followers.len() {
            return;
        }
        let mut follower = self.followers.remove(which);
        for _ in 0..count {
            let Some(expected) = self.log.next(follower.kind, follower.position) else {
                match at_once(&mut follower.watch).await {
                    None => break,
                    // Changes of other kinds, which the watch had not scanned, were compacted.
                    Some(Err(Error::Expired { .. })) if follower.position < self.oldest().await => {
                        return self.list_and_follow(follower.kind).await;
                    }
                    Some(told) => panic!("there is nothing more to tell, and it told {told:?}"),
                }
            };
            match next(&mut follower.watch).await {
                Ok(event) => {
                    assert_eq!(&event, expected);
                    follower.position = event.revision;
                }
                Err(Error::Expired { .. }) => {
                    assert!(follower.position < self.oldest().await, "{} is still there", follower.position);
                    return self.list_and_follow(follower.kind).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.followers.insert(which, follower);
    }

    /// Starts over, as a client does after its watch has expired.
    async fn list_and_follow(&mut self, kind: Option<&'static str>) {
        let listed = self.whole(kind.unwrap_or(KINDS[0])).await;
        self.open(kind, listed).await;
    }

    /// Lists a kind in one page; returns the revision of the list.
    async fn whole(&mut self, name: &str) -> Revision {
        let page = self.store().list(&Query::all(kind(name))).await.unwrap();
        assert_eq!(page.revision, self.log.newest());
        assert_eq!(page.items, self.log.state(name, page.revision));
        page.revision
    }

    async fn resume(&mut self, which: usize) {
        if which < self.followers.len() {
            let Follower { kind, position, .. } = self.followers.remove(which);
            self.open(kind, position).await;
        }
    }

    async fn list(&mut self, name: &'static str, limit: usize) {
        let page = self.store().list(&Query { limit: Some(limit), ..Query::all(kind(name)) }).await.unwrap();
        assert_eq!(page.revision, self.log.newest());
        let items = page.items.clone();
        self.lists.push(Listing { kind: name, page, items, limit });
        self.settle(self.lists.len() - 1);
        if self.lists.len() > LISTS_MAX {
            self.lists.remove(0);
        }
    }

    async fn page(&mut self, which: usize) {
        let Some(Listing { kind: name, page, limit, .. }) = self.lists.get(which) else { return };
        let (revision, from) = (page.revision, page.next.clone());
        let query = Query { limit: Some(*limit), from, ..Query::all(kind(name)) };
        match self.store().list(&query).await {
            Ok(page) => {
                assert_eq!(page.revision, revision);
                self.lists[which].items.extend(page.items.iter().cloned());
                self.lists[which].page = page;
                self.settle(which);
            }
            Err(Error::Expired { .. }) => {
                self.lists.remove(which);
                assert!(revision < self.oldest().await, "{revision} is still there");
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Compares a completed list.
    fn settle(&mut self, which: usize) {
        if self.lists[which].page.next.is_none() {
            let Listing { kind, page, items, .. } = self.lists.remove(which);
            assert_eq!(items, self.log.state(kind, page.revision), "at {}", page.revision);
        }
    }

    async fn restart(&mut self, end: End) {
        let Some(mut path) = self.path() else { return };
        let id = self.id();
        if end == End::Killed {
            // The file as a crash of the machine at this moment would leave it.
            let image = at_rest(&path);
            self.restarts += 1;
            path.set_file_name(format!("store-{}", self.restarts));
            std::fs::write(&path, image).unwrap();
        }
        let store = self.store.take().expect("it was there");
        if end == End::Closed {
            store.close().await;
        }
        drop(store);
        let found = once_free(|| fsck(&path)).await;
        assert!(found.is_sound(), "{found:?}");
        let store: Arc<dyn Store> = Arc::new(once_free(|| EmbeddedStore::open(&path, self.options.clone())).await);
        self.store = Some(store);
        assert_eq!((self.id(), newest(&**self.store()).await), (id, self.log.newest()));
        for Follower { mut watch, kind, mut position } in std::mem::take(&mut self.followers) {
            // A watch returns the events that are in memory, and then `Closed`.
            loop {
                match next(&mut watch).await {
                    Ok(event) => {
                        assert_eq!(Some(&event), self.log.next(kind, position));
                        position = event.revision;
                    }
                    Err(Error::Closed) => break,
                    Err(Error::Expired { .. }) => {
                        assert!(position < self.oldest().await);
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            self.open(kind, position).await;
        }
        // All remaining history now comes from the file. The store may compact past a revision before the watch
        // from it is open.
        loop {
            let oldest = self.oldest().await;
            if self.open(None, oldest).await {
                break;
            }
        }
        self.read(self.followers.len() - 1, usize::MAX).await;
    }

    /// Returns the path of the file, if the store is in a file.
    fn path(&self) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?.path();
        Some(match self.restarts {
            0 => folder.join("store"),
            restarts => folder.join(format!("store-{restarts}")),
        })
    }

    async fn finish(mut self) {
        for _ in 0..self.followers.len() {
            self.read(0, usize::MAX).await;
            if !self.followers.is_empty() {
                self.followers.rotate_left(1);
            }
        }
        while !self.lists.is_empty() {
            self.page(0).await;
        }
        for kind in KINDS {
            self.whole(kind).await;
        }
        let compact_target = self.compact_target();
        self.store().close().await;
        for Follower { mut watch, kind, position } in self.followers {
            if position >= compact_target && self.log.next(kind, position).is_none() {
                assert_eq!(next(&mut watch).await, Err(Error::Closed));
            }
        }
    }
}

fn scope(kind: Option<&str>) -> Scope {
    kind.map_or(Scope::Everything, |name| Scope::Kind(crate::kind(name)))
}

/// Waits for the next event. The timeout is short, so that the smallest case that lacks one is found quickly.
async fn next(watch: &mut Watch) -> Result<Event> {
    tokio::time::timeout(Duration::from_secs(10), watch.next()).await.expect("an event should have come")
}

/// Reads a file that has no writer meanwhile.
fn at_rest(path: &std::path::Path) -> Vec<u8> {
    loop {
        let image = std::fs::read(path).unwrap();
        if image == std::fs::read(path).unwrap() {
            return image;
        }
    }
}

/// Uses a file once the readers of the old store have closed it.
async fn once_free<T>(what: impl Fn() -> std::result::Result<T, OpenError>) -> T {
    for _ in 0..1_000_000 {
        match what() {
            Ok(done) => return done,
            Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nobody let go of the file");
}
