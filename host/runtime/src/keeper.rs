//! The host's own controller: what runs is made what the resources of kind `Controller` say.
//!
//! One key is one name. Its reconcile reads the resource and makes it true: code is fetched, checked and compiled, the definition is written
//! into the history, and put in. What is refused leaves what runs alone and is tried again with backoff; when nothing runs, as after a
//! restart, the newest revision of the history that can be put in does. Nothing else puts controllers in that stand in the store.
//!
//! Absent on purpose: where code comes from ([`CodeSource`]), and who writes the resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Digest;
use homeostat_store::{
    Change, Event, EventType, Key, Kind, Precondition, Query, Request, Resource, Revision, Scope, Selector, Store,
    Write,
};
use homeostat_workqueue::{Backoff, Next, Priority, Queue};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::for_each_listed;
use crate::controller::Controller;
use crate::manifest::{API_VERSION, KIND};
use crate::{CodeSource, Error, Host, declarations};

mod bring;
mod canary;
mod compiling;
mod history;
mod misread;
mod record;
mod reduced;
mod report;
mod undo;
mod verdicts;
mod wanted;

use canary::ActiveRollout;
pub(crate) use compiling::CompilationTracker;
use reduced::DesiredGrants;

pub(crate) use undo::undo;
pub use undo::{MANAGED_BY, UNDONE_TO};
pub(crate) use verdicts::{GONE_MAX, SyncResults};
pub use verdicts::{SyncOutcome, SyncResult};
pub(crate) use wanted::write;

/// Names that are worked on at once. Compiling takes its own threads.
const WORKERS: usize = 4;
/// The wait after a refusal: the first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The wait before a watch that failed is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// The wait before code that nobody names is looked for: the collector of garbage comes first.
const SWEEP_AFTER: Duration = Duration::from_secs(60);
/// How long a controller may take to become ready before its status says that it is not.
const STARTUP_MAX: Duration = Duration::from_secs(10);
/// Where a person says that a controller is to keep its keys and run nothing: `"true"`.
pub const SUSPENDED: &str = "homeostat.dev/suspended";
/// Where a person says when a controller was told to begin anew: any text; another one is another time.
const RESTARTED: &str = "homeostat.dev/restartedAt";
/// The name of the kind of revisions.
pub const REVISION_KIND: &str = "ControllerRevision";

/// Returns the kind of controllers.
pub(crate) fn controllers() -> Kind {
    of_host(KIND)
}

/// Returns the kind of their revisions.
pub fn revisions() -> Kind {
    of_host(REVISION_KIND)
}

fn of_host(name: &str) -> Kind {
    let (group, version) = API_VERSION.split_once('/').expect("it has a group");
    Kind::new(group, version, name)
}

/// Returns whether a kind is one of those by which the host itself is told what to run, whatever its version.
pub(crate) fn is_of_host(kind: &Kind) -> bool {
    kind.same_type(&controllers()) || kind.same_type(&revisions()) || kind.same_type(&declarations::kind())
}

/// What is to be done.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Job {
    /// Look at the controller of this name.
    Reconcile(Arc<str>),
    /// Forget code that nobody names.
    Sweep,
}

/// What was put in under a name.
#[derive(Clone, Debug)]
struct AppliedState {
    /// Of the resource that it stands in.
    uid: String,
    /// Of the resource, when what it wants is what runs; `None`: something older runs.
    generation: Option<u64>,
    /// Of the history.
    revision: u64,
    /// What its resource said of when to begin anew.
    restarted: Option<String>,
}

/// Controllers that are there, each at its revision, and from where to watch on.
pub(crate) type ControllerRevisions = (Vec<(String, Revision)>, Revision);

/// Sees to it that what runs is what the store says.
pub(crate) struct ControllerReconciler {
    code: Arc<dyn CodeSource>,
    queue: Queue<Job>,
    applied: Mutex<BTreeMap<String, AppliedState>>,
    /// Candidates that are tried.
    rollouts: Mutex<BTreeMap<String, ActiveRollout>>,
    /// Controllers that have run and of which nothing runs, and why.
    down: Mutex<BTreeMap<String, String>>,
    /// What each controller is to be granted now.
    desired_grants: Mutex<BTreeMap<String, DesiredGrants>>,
    /// Time is counted from here.
    began: Instant,
}

impl ControllerReconciler {
    pub(crate) fn new(code: Arc<dyn CodeSource>, seed: Option<u64>) -> Arc<Self> {
        let backoff = Backoff { base: RETRY.0, max: RETRY.1, ..Backoff::default() };
        let queue = Queue::new(homeostat_workqueue::Options { backoff, seed, ..Default::default() });
        let (taken, trying, down, wanted_grants) = Default::default();
        Arc::new(Self {
            code,
            queue,
            applied: taken,
            rollouts: trying,
            down,
            desired_grants: wanted_grants,
            began: Instant::now(),
        })
    }

    /// Starts to look at the controllers that were listed, and at each that changes, until the host ends. Returns when all of them have been
    /// looked at once.
    pub(crate) async fn start(
        self: Arc<Self>,
        host: &Host,
        (names, from): ControllerRevisions,
        end: CancellationToken,
    ) {
        for _ in 0..WORKERS {
            let (keeper, host, end) = (self.clone(), host.clone(), end.clone());
            host.clone().spawn(async move {
                tokio::select! {
                    biased;
                    () = end.cancelled() => {}
                    () = keeper.work(&host) => {}
                }
            });
        }
        let (keeper, following) = (self, host.clone());
        host.spawn(async move {
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = keeper.watch(&following, from) => {}
            }
        });
        for (name, revision) in names {
            host.sync_result(&name, revision).await;
        }
    }

    /// Returns the controllers that have run before and of which nothing runs now, as when their code is gone, and why.
    pub(crate) fn down(&self) -> Vec<(String, String)> {
        self.down.lock().iter().map(|(name, reason)| (name.clone(), reason.clone())).collect()
    }

    /// Ends: nothing is looked at any more.
    pub(crate) fn stop(&self) {
        self.queue.abort();
    }

    /// Queues every controller that is there or was. Returns those that are there, and from where to watch on.
    pub(crate) async fn enqueue_all(&self, store: &dyn Store) -> homeostat_store::Result<ControllerRevisions> {
        let mut names = Vec::new();
        let from = for_each_listed(store, &controllers(), |resource| {
            names.push((resource.key().name().to_owned(), resource.revision()));
        })
        .await?;
        names.iter().for_each(|(name, _)| self.enqueue(name));
        let taken: Vec<String> = self.applied.lock().keys().cloned().collect();
        taken.iter().for_each(|name| self.enqueue(name));
        Ok((names, from))
    }

    fn enqueue(&self, name: &str) {
        // A queue that is closed is that of a host that ends.
        let _ = self.queue.add(Job::Reconcile(name.into()), Priority::NORMAL);
    }

    fn sweep_later(&self) {
        let _ = self.queue.add_after(Job::Sweep, SWEEP_AFTER, Priority::LOW);
    }

    /// Follows what is written of controllers.
    async fn watch(&self, host: &Host, mut from: Revision) {
        loop {
            match self.watch_once(host, &mut from).await {
                homeostat_store::Error::Closed => return,
                homeostat_store::Error::Expired { .. } => match self.enqueue_all(&*host.store()).await {
                    Ok((_, revision)) => from = revision,
                    Err(error) => tracing::warn!(%error, "the controllers cannot be listed"),
                },
                error => tracing::warn!(%error, "the controllers cannot be followed"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows them for as long as the watch lasts, and returns why it ended.
    async fn watch_once(&self, host: &Host, from: &mut Revision) -> homeostat_store::Error {
        let mut watch = match host.store().watch(Scope::Kind(controllers()), *from).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        loop {
            match watch.next().await {
                Ok(event) => {
                    *from = event.revision;
                    let name = event.resource.key().name();
                    // Nothing is to be done about a status, which is this one's own word as a rule.
                    match event.previous.as_deref().filter(|previous| is_status_alone(&event, previous)) {
                        Some(previous) => host.verdicts().see(name, previous.revision(), event.revision),
                        None => self.enqueue(name),
                    }
                }
                Err(error) => return error,
            }
        }
    }

    async fn work(&self, host: &Host) {
        while let Some(claim) = self.queue.claim().await {
            let done = match claim.key().clone() {
                Job::Reconcile(name) => self.reconcile(host, &name).await,
                Job::Sweep => match self.sweep(&*host.store()).await {
                    Ok(()) => Ok(Next::Done),
                    Err(error) => Err(error.to_string()),
                },
            };
            claim.finish(done.unwrap_or_else(|error| Next::Retry { at_least: None, error: error.into() }));
        }
    }

    /// Forgets code that no controller and no revision names.
    async fn sweep(&self, store: &dyn Store) -> homeostat_store::Result<()> {
        let mut named = BTreeSet::new();
        for kind in [controllers(), revisions()] {
            for_each_listed(store, &kind, |resource| {
                let texts = ["/spec/component/digest", "/spec/digest", "/status/digest"];
                let texts = texts.iter().filter_map(|pointer| resource.document().pointer(pointer)?.as_str());
                named.extend(texts.filter_map(Digest::parse));
            })
            .await?;
        }
        self.code.sweep(&named).await;
        Ok(())
    }

    /// Takes out what was put in under a name. It ends beside everything else, so that the name is free at once.
    fn remove(&self, host: &Host, name: &str, seen: Revision) {
        self.sweep_later();
        self.rollouts.lock().remove(name);
        self.down.lock().remove(name);
        self.desired_grants.lock().remove(name);
        let taken = self.applied.lock().remove(name);
        match taken.and_then(|_| host.detach(name).ok()) {
            Some(controller) => {
                let (leaving, name) = (host.clone(), name.to_owned());
                host.spawn(async move {
                    let left = leaving.stop_detached(&name, &controller).await;
                    leaving.verdicts().record(&name, seen, seen, SyncOutcome::Removed(Arc::new(left)));
                });
            }
            None => host.verdicts().record(name, seen, seen, SyncOutcome::Removed(Arc::default())),
        }
    }
}

/// Wakes the keeper when a controller has become ready, and when that takes long, so that its status says so.
fn wake_when_ready(host: &Host, keeper: &ControllerReconciler, name: &str, controller: Arc<Controller>) {
    let (queue, name) = (keeper.queue.clone(), Arc::<str>::from(name));
    host.spawn(async move {
        let look = || {
            let _ = queue.add(Job::Reconcile(name.clone()), Priority::LOW);
        };
        let is_ready = match tokio::time::timeout(STARTUP_MAX, controller.is_ready()).await {
            Ok(is_ready) => is_ready,
            Err(_) => {
                look();
                controller.is_ready().await
            }
        };
        if is_ready {
            look();
        }
    });
}

/// Returns whether a change left everything but the status as it was.
fn is_status_alone(event: &Event, previous: &Resource) -> bool {
    let strip = |resource: &Resource| {
        let mut document = resource.document().clone();
        document["status"].take();
        for field in ["resourceVersion", "managedFields"] {
            document["metadata"][field].take();
        }
        document
    };
    event.kind == EventType::Modified && strip(&event.resource) == strip(previous)
}

/// Notes in a controller's resource whether its keys are held back. Returns the revision that it has then; `None`: there is no resource.
///
/// # Errors
/// Those of the store.
pub(crate) async fn suspend(host: &Host, name: &str, suspend: bool) -> Result<Option<Revision>, Error> {
    let change = Change::Merge(json!({ "metadata": { "annotations": { SUSPENDED: suspend.then_some("true") } } }));
    let write = Write::Patch { key: key(name), change, precondition: Precondition::default() };
    match host.write(Request { manager: "homeostat-suspend".to_owned(), ..write.into() }).await {
        Ok(written) => Ok(Some(written.resource.revision())),
        Err(Error::Store(homeostat_store::Error::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the key of a controller.
fn key(name: &str) -> Key {
    Key::new(controllers(), "", name)
}

/// Asks for the revisions of one controller.
fn revisions_of(uid: &str) -> Query {
    Query { selector: Selector { owner: Some(uid.to_owned()), ..Selector::default() }, ..Query::all(revisions()) }
}

/// Tells that a definition was refused, unless that was told already.
fn tell_refused(host: &Host, name: &str, reason: &str) {
    if !host.verdicts().is_refused(name, reason) {
        host.refused(name, reason);
    }
}
