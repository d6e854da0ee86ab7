//! The controller for `Controller` resources: makes the running controllers match them.
//!
//! One key is one name. Its reconcile fetches, checks and compiles the code, records the definition as a
//! revision, and installs it. A refused definition leaves the current version running and is retried with
//! backoff. If nothing runs, as after a restart, the newest revision that loads is installed. No other code
//! installs controllers of the store.
//!
//! Deliberately absent: the source of the code ([`CodeSource`]), and the writers of the resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Digest;
use homeostat_store::{
    Change, Event, EventType, Key, Precondition, Query, Request, Resource, Revision, Scope, Selector, Store, Write,
};
use homeostat_workqueue::{Backoff, Next, Priority, Queue};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller::Controller;
use crate::listing::for_each_listed;
use crate::native_controller::{self, NativeReconciler};
use crate::rollout::RolloutState;
use crate::{CodeSource, Error, Host, RemovedCounts};

mod compilation_tracker;
mod desired;
mod earlier_revisions;
mod fleet_rollout;
mod grant_reduction;
mod history;
mod prerequisites;
mod report;
mod spec_error;
mod sync;
mod sync_results;
mod undo;

pub(crate) use compilation_tracker::CompilationTracker;

pub(crate) use crate::host_kinds::controllers;
pub use crate::host_kinds::{REVISION_KIND, revisions};
pub(crate) use desired::{DesiredController, suspension, write};
pub(crate) use grant_reduction::DesiredGrants;
pub(crate) use history::REPLACED;
use prerequisites::Creations;
pub(crate) use sync::{ControllerSync, LoadedDefinition, SyncError};
pub(crate) use sync_results::{GONE_BYTES, GONE_MAX, REASON_BYTES_MAX, SyncResults};
pub use sync_results::{SyncOutcome, SyncResult};
pub(crate) use undo::undo;
pub use undo::{MANAGED_BY, UNDONE_TO};

/// The backoff of refused definitions: the first wait, and the maximum.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The delay of a sweep of unused code, so that the garbage collector runs first.
const SWEEP_AFTER: Duration = Duration::from_secs(60);
/// How long a starting controller may take before its status reports it as not ready.
const STARTUP_MAX: Duration = Duration::from_secs(10);
/// The annotation of an operator's suspension: `"true"` keeps the keys and runs none.
pub const SUSPENDED: &str = "homeostat.dev/suspended";
/// A work item.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Job {
    /// Reconcile the controller of this name.
    Reconcile(Arc<str>),
    /// Delete unused code.
    Sweep,
}

/// The installed state of a name.
#[derive(Clone, Debug)]
pub(crate) struct AppliedState {
    /// Uid of the `Controller` resource.
    uid: String,
    /// Generation of the resource whose definition is installed; `None` if an older definition runs.
    generation: Option<u64>,
    /// Revision number of the installed definition.
    pub(crate) revision: u64,
    /// The restart annotation at the last restart.
    restarted: Option<String>,
}

/// All `Controller` resources with their revisions, and the revision to watch from.
pub(crate) type ControllerRevisions = (Vec<(String, Revision)>, Revision);

/// Makes the running controllers match the store.
pub(crate) struct ControllerReconciler {
    code: Arc<dyn CodeSource>,
    queue: Queue<Job>,
    applied: Mutex<BTreeMap<String, AppliedState>>,
    /// Rollouts in progress.
    rollouts: Mutex<BTreeMap<String, RolloutState>>,
    /// Controllers that have run before but of which no version runs, with the reason.
    down: Mutex<BTreeMap<String, String>>,
    /// The grants in the desired definition of each controller.
    desired_grants: Mutex<BTreeMap<String, DesiredGrants>>,
    /// Controllers whose manifest names kinds.
    kind_dependents: Mutex<BTreeSet<String>>,
    /// Controllers that others have created.
    creations: Mutex<Creations>,
    /// The origin of times.
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
            kind_dependents: Mutex::default(),
            creations: Mutex::default(),
            began: Instant::now(),
        })
    }

    /// Starts to reconcile the listed controllers and every changed one, until the host ends. Returns when
    /// all listed ones have been reconciled once.
    pub(crate) async fn start(
        self: Arc<Self>,
        host: &Host,
        (names, from): ControllerRevisions,
        end: CancellationToken,
    ) {
        for (name, _) in &names {
            // A closed queue means that the host is ending.
            let _ = self.queue.add(Job::Reconcile(name.as_str().into()), Priority::NORMAL);
        }
        host.spawn(Arc::clone(&self).wake_with_kinds(host.kinds(), end.clone()));
        let (queue, stored) = (self.queue.clone(), StoredControllers { host: host.clone(), reconciler: self });
        host.spawn(native_controller::run(Arc::new(stored), host.store(), queue, Some(from), end));
        for (name, revision) in names {
            host.sync_result(&name, revision).await;
        }
    }

    /// Returns the controllers that have run before but of which no version runs now, with the reason.
    /// Missing code is one.
    pub(crate) fn down(&self) -> Vec<(String, String)> {
        self.down.lock().iter().map(|(name, reason)| (name.clone(), reason.clone())).collect()
    }

    /// Reconciles a controller again, which updates its status.
    pub(crate) fn enqueue(&self, name: &str) {
        // A closed queue means that the host is ending.
        let _ = self.queue.add(Job::Reconcile(name.into()), Priority::LOW);
    }

    /// Stops: no further reconcile starts.
    pub(crate) fn stop(&self) {
        self.queue.abort();
    }

    /// Lists the existing controllers.
    pub(crate) async fn list(store: &dyn Store) -> homeostat_store::Result<ControllerRevisions> {
        let mut names = Vec::new();
        let from = for_each_listed(store, &controllers(), |resource| {
            names.push((resource.key().name().to_owned(), resource.revision()));
        })
        .await?;
        Ok((names, from))
    }

    fn sweep_later(&self) {
        let _ = self.queue.add_after(Job::Sweep, SWEEP_AFTER, Priority::LOW);
    }

    /// Deletes code that no controller and no revision names.
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

    /// Detaches the controller of a name and stops it in the background, so that the name is free at once.
    fn remove(&self, host: &Host, name: &str, seen: Revision) {
        self.sweep_later();
        self.kind_dependents.lock().remove(name);
        self.creations.lock().set(name, None);
        match self.detach(host, name) {
            Some(controller) => {
                let (leaving, name) = (host.clone(), name.to_owned());
                host.spawn(async move {
                    let left = leaving.stop_detached(&name, &controller).await;
                    leaving.verdicts().record(&name, seen, seen, SyncOutcome::Removed(left.counts()));
                });
            }
            None => host.verdicts().record(name, seen, seen, SyncOutcome::Removed(RemovedCounts::default())),
        }
    }
}

impl ControllerReconciler {
    /// Forgets the installed state of a name, and detaches its controller, which still runs.
    fn detach(&self, host: &Host, name: &str) -> Option<Arc<Controller>> {
        self.rollouts.lock().remove(name);
        self.down.lock().remove(name);
        self.desired_grants.lock().remove(name);
        let taken = self.applied.lock().remove(name);
        taken.and_then(|_| host.detach(name).ok())
    }
}

/// The reconciler with its host, as the loop runs it.
struct StoredControllers {
    host: Host,
    reconciler: Arc<ControllerReconciler>,
}

impl NativeReconciler for StoredControllers {
    type Item = Job;
    const NAME: &'static str = "controllers";
    /// Compiling has threads of its own.
    const CONCURRENCY_MAX: usize = 4;

    fn scope(&self) -> Option<Scope> {
        Some(Scope::Kind(controllers()))
    }

    fn items(&self, event: &Event) -> Vec<Job> {
        let name = event.resource.key().name();
        // Status changes need no reconcile; most are written here.
        match event.previous.as_deref().filter(|previous| is_status_alone(event, previous)) {
            Some(previous) => {
                self.host.verdicts().see(name, previous.revision(), event.revision);
                Vec::new()
            }
            None => {
                let created = self.reconciler.creations.lock().by(name);
                std::iter::once(Arc::from(name)).chain(created).map(Job::Reconcile).collect()
            }
        }
    }

    fn tracked(&self) -> Vec<Job> {
        self.reconciler.applied.lock().keys().map(|name| Job::Reconcile(name.as_str().into())).collect()
    }

    async fn reconcile(&self, job: &Job) -> Result<Next, String> {
        match job {
            Job::Reconcile(name) => self.reconciler.reconcile(&self.host, name).await,
            Job::Sweep => {
                let swept = self.reconciler.sweep(&*self.host.store()).await;
                swept.map(|()| Next::Done).map_err(|error| error.to_string())
            }
        }
    }
}

/// Returns whether a change left everything except the status as it was.
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

/// Sets or removes the suspension annotation of a controller. Returns the new revision, `None` if there is no
/// resource.
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

/// Returns the query for the revisions of one controller.
fn revisions_of(uid: &str) -> Query {
    Query { selector: Selector { owner: Some(uid.to_owned()), ..Selector::default() }, ..Query::all(revisions()) }
}

/// Reports a refusal, unless it was the last one reported.
fn tell_refused(host: &Host, name: &str, reason: &str) {
    if !host.verdicts().is_refused(name, reason) {
        host.refused(name, reason);
    }
}
