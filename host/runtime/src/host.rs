//! The host: all controllers of one process, and what they share.

use std::collections::{BTreeMap, btree_map};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use homeostat_component::layers::Secrets;
use homeostat_component::{Component, Digest, Engine, Grants, Limits, LoadError, Severity};
use homeostat_store::{Key, Store};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::change::SwapReport;
use crate::context::Context;
use crate::controller::Controller;
use crate::declarations;
use crate::definitions;
use crate::feeders::Feeder;
use crate::keeper::{CompilationTracker, ControllerReconciler, SyncResults};
use crate::observer::NoopObserver;
use crate::sink::NoSecrets;
use crate::{Definition, Error, Observer, Suspend};

mod kept;
mod keys;
mod told;

pub use keys::KeyVerb;

/// Keys on the queues of all controllers together, at most, where nothing else is said.
pub const QUEUE_KEYS_MAX: u64 = 500_000;
/// Bytes of the errors that are kept for them, at most, where nothing else is said.
pub const QUEUE_ERROR_BYTES_MAX: u64 = 64 << 20;
/// Controllers at once, at most, where nothing else is said.
pub const CONTROLLERS_MAX: usize = 10_000;

/// What a host is made of. [`Options::new`] has the defaults.
pub struct Options {
    /// Runs guests.
    pub engine: Engine,
    /// Keeps resources.
    pub store: Arc<dyn Store>,
    /// Where the secrets of HTTP grants come from. Default: there are none.
    pub secrets: Arc<dyn Secrets>,
    /// Told of every reconcile. Default: nobody.
    pub observer: Arc<dyn Observer>,
    /// How long a controller that is removed may go on with what it has begun. Default: 10 s.
    pub drain_deadline: Duration,
    /// Keys on the queues of all controllers together, at most. Default: 500 000. What each controller may have stands in its limits; one
    /// half of this room is for whoever comes first, the other is shared out among all.
    pub queue_keys_max: u64,
    /// Bytes of the texts of errors that are kept for those keys, at most. Default: 64 MiB. Shared in the same way.
    pub queue_error_bytes_max: u64,
    /// Controllers at once, at most, those that are ending included. Default: 10 000.
    pub controllers_max: usize,
    /// Seeds what the queues decide by chance: the jitter of backoffs. Default: `None`, from the operating system.
    pub seed: Option<u64>,
}

impl Options {
    /// Returns the defaults around an engine and a store.
    pub fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        Self {
            engine,
            store,
            secrets: Arc::new(NoSecrets),
            observer: Arc::new(NoopObserver),
            drain_deadline: Duration::from_secs(10),
            queue_keys_max: QUEUE_KEYS_MAX,
            queue_error_bytes_max: QUEUE_ERROR_BYTES_MAX,
            controllers_max: CONTROLLERS_MAX,
            seed: None,
        }
    }
}

/// A running host. Clones are the same host.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    drain_deadline: Duration,
    controllers: RwLock<Controllers>,
    controllers_max: usize,
    /// Sees to the controllers of the store, once somebody has said where code comes from.
    reconciler: OnceLock<Arc<ControllerReconciler>>,
    verdicts: SyncResults,
    compiling: CompilationTracker,
    tasks: TaskTracker,
    /// Ends the tasks that belong to no controller.
    end: CancellationToken,
}

#[derive(Default)]
struct Controllers {
    stopping: bool,
    by_name: BTreeMap<String, Arc<Controller>>,
    /// The end of those that were removed and still run something, by name.
    leaving: BTreeMap<String, CancellationToken>,
}

impl Controllers {
    /// Returns how many there are, those included that are ending.
    fn count(&self) -> usize {
        let ending = self.leaving.iter().filter(|(name, _)| !self.by_name.contains_key(*name));
        self.by_name.len() + ending.count()
    }
}

/// What putting a controller in did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Put {
    /// It is new.
    Added,
    /// It was there and has changed; the component too when the digests differ.
    Changed(SwapReport),
    /// It runs just like this already.
    Unchanged,
}

/// What was left when a controller ended.
#[derive(Clone, Debug, Default)]
pub struct RemovalReport {
    /// Reconciles that ended while it was ending.
    pub finished: u64,
    /// Keys that were queued and will not run.
    pub dropped: Vec<Key>,
    /// Keys whose reconcile was stopped at the deadline.
    pub interrupted: Vec<Key>,
}

impl RemovalReport {
    /// Returns whether nothing was left, and nothing had to end.
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { finished, dropped, interrupted } = self;
        *finished == 0 && dropped.is_empty() && interrupted.is_empty()
    }
}

/// What was left when the host stopped, by controller.
pub type ShutdownReport = BTreeMap<String, RemovalReport>;

impl Host {
    /// Starts a host without controllers: declares the kinds that the store knows, by definitions and by components of before, follows
    /// the definitions, and collects garbage.
    ///
    /// # Errors
    /// [`Error::Store`] when the definitions cannot be read, [`Error::Component`] when the HTTP client cannot be built.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let (drain_deadline, controllers_max) = (options.drain_deadline, options.controllers_max);
        let context = Arc::new(Context::new(options)?);
        context.declare_stored().await?;
        let inner = Inner {
            context,
            drain_deadline,
            controllers_max,
            controllers: RwLock::default(),
            reconciler: OnceLock::new(),
            verdicts: SyncResults::default(),
            compiling: CompilationTracker::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        };
        let host = Self { inner: Arc::new(inner) };
        let (store, end) = (host.store(), host.inner.end.clone());
        host.inner.tasks.spawn(async move { homeostat_store::garbage::collect(store, end.cancelled_owned()).await });
        let (context, end) = (host.inner.context.clone(), host.inner.end.clone());
        host.inner.tasks.spawn(definitions::follow(context, end));
        let (context, end) = (host.inner.context.clone(), host.inner.end.clone());
        host.inner.tasks.spawn(declarations::follow(context, end));
        let (engine, end) = (host.inner.context.engine.clone(), host.inner.end.clone());
        host.inner.tasks.spawn(async move { end.run_until_cancelled(engine.evict_idle()).await });
        Ok(host)
    }

    /// Compiles and checks a component, within the default limits of one call. Nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError`], with every reason at once.
    pub async fn load(&self, bytes: Vec<u8>, grants: &Grants) -> Result<Component, LoadError> {
        self.inner.context.engine.load(bytes, grants).await
    }

    /// As [`Host::load`], for a controller whose calls have these limits. Bytes that have another digest than `wanted` are refused, and not
    /// compiled.
    ///
    /// # Errors
    /// [`LoadError`], with every reason at once.
    pub async fn load_within(
        &self,
        bytes: Vec<u8>,
        wanted: Option<&Digest>,
        grants: &Grants,
        limits: &Limits,
    ) -> Result<Component, LoadError> {
        self.inner.context.engine.load_within(bytes, wanted, grants, limits).await
    }

    /// As [`Host::load_within`], for a component that a controller runs: nothing is read or compiled. `None`: none does.
    ///
    /// # Errors
    /// [`LoadError`], with every reason at once.
    pub async fn load_again(
        &self,
        digest: &Digest,
        grants: &Grants,
        limits: &Limits,
    ) -> Option<Result<Component, LoadError>> {
        // What one that is ending still has may have been forgotten by whoever keeps code.
        let runs = |controller: &Arc<Controller>| controller.slot.current().component().digest() == digest;
        if !self.running().iter().any(runs) {
            return None;
        }
        self.inner.context.engine.load_known(digest, grants, limits).await
    }

    /// Puts a controller in: adds it, or changes the one of that name in place. Its queue stays.
    ///
    /// # Errors
    /// [`Error::Stopping`]; [`Error::LoadError`] for a watch that its grants do not cover; [`Error::KindDiffers`]; for a change also [`Error::ManagesAnother`] and [`Error::StartHook`]. The one that
    /// runs goes on.
    pub async fn put(&self, definition: Definition) -> Result<Put, Error> {
        self.put_held(definition, Suspend::No).await
    }

    /// As [`Host::put`], with a word on whether the keys are held back: no key runs in between.
    pub(crate) async fn put_held(&self, definition: Definition, held: Suspend) -> Result<Put, Error> {
        let (name, grants) = (definition.name.clone(), definition.grants.clone());
        let put = if self.controller(&name).is_err() && self.add(&definition, held).await? {
            Put::Added
        } else {
            if held != Suspend::No {
                self.hold(&name, held);
            }
            self.controller(&name)?.change(definition).await?.map_or(Put::Unchanged, Put::Changed)
        };
        if put != Put::Unchanged {
            self.tell_missing_secrets(&name, &grants).await;
        }
        Ok(put)
    }

    /// Tells of the secrets that are granted and are not there. They may come later: a request that needs one fails until then.
    async fn tell_missing_secrets(&self, name: &str, grants: &Grants) {
        for secret in grants.secrets() {
            if let Err(reason) = self.inner.context.secrets.get(secret).await {
                let message = format!("there is no secret {secret:?} for its requests: {reason}");
                self.inner.context.event(&name.into(), None, Severity::Warning, "SecretMissing", &message);
            }
        }
    }

    /// Starts a controller. Returns `false` when somebody else put one of that name in first.
    async fn add(&self, definition: &Definition, held: Suspend) -> Result<bool, Error> {
        self.inner.context.admit(definition).await?;
        let mut controllers = self.inner.controllers.write();
        if controllers.stopping {
            return Err(Error::Stopping);
        }
        let all = controllers.count();
        let Controllers { by_name, leaving, .. } = &mut *controllers;
        let btree_map::Entry::Vacant(vacant) = by_name.entry(definition.name.clone()) else {
            return Ok(false);
        };
        if all >= self.inner.controllers_max {
            return Err(Error::TooManyControllers(self.inner.controllers_max));
        }
        let before = leaving.get(&definition.name).cloned();
        vacant.insert(Controller::start(self.inner.context.clone(), definition.clone(), held, before));
        drop(controllers);
        Ok(true)
    }

    /// Puts another component into a controller's slot, with everything else as it is.
    ///
    /// # Errors
    /// [`Error::UnknownController`], [`Error::ManagesAnother`], [`Error::LoadError`], [`Error::KindDiffers`], [`Error::StartHook`]. The old one
    /// goes on.
    pub async fn swap(&self, name: &str, component: Component) -> Result<SwapReport, Error> {
        self.controller(name)?.swap(component).await
    }

    /// Tells that a new version of a controller was refused, and why. The old one goes on.
    pub fn refused(&self, name: &str, reason: &str) {
        if let Ok(controller) = self.controller(name) {
            controller.stats.refused();
        }
        self.inner.context.event(&name.into(), None, Severity::Warning, "Refused", reason);
    }

    /// Removes a controller: queued keys are dropped, running ones finish or are stopped at the deadline. Its name can be used again at
    /// once.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub async fn remove(&self, name: &str) -> Result<RemovalReport, Error> {
        let controller = self.detach(name)?;
        Ok(self.stop_detached(name, &controller).await)
    }

    /// Takes a controller out, so that its name is free. It still runs.
    pub(crate) fn detach(&self, name: &str) -> Result<Arc<Controller>, Error> {
        let mut controllers = self.inner.controllers.write();
        let taken = controllers.by_name.remove(name).ok_or_else(|| Error::UnknownController(name.into()))?;
        controllers.leaving.insert(name.to_owned(), taken.ended.clone());
        drop(controllers);
        self.inner.context.logs.forget(name);
        Ok(taken)
    }

    /// Ends a controller that was taken out.
    pub(crate) async fn stop_detached(&self, name: &str, controller: &Controller) -> RemovalReport {
        let left = controller.stop(self.inner.drain_deadline, false).await;
        let mut controllers = self.inner.controllers.write();
        if controllers.leaving.get(name).is_some_and(CancellationToken::is_cancelled) {
            controllers.leaving.remove(name);
        }
        if !controllers.by_name.contains_key(name) {
            self.inner.context.withdraw(name);
            // What it has written since its name was free.
            self.inner.context.logs.forget(name);
        }
        drop(controllers);
        left
    }

    /// Holds a controller's keys back, or lets them run again. It lasts until it is taken back, whatever the definition says meanwhile;
    /// a definition that is suspended itself stays so.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn suspend(&self, name: &str, suspend: bool) -> Result<(), Error> {
        self.controller(name)?.hold(if suspend { Suspend::Yes } else { Suspend::No });
        Ok(())
    }

    /// Waits until a controller's start hook has succeeded and every watch of it had its first full list. A suspended one is ready too:
    /// it only runs nothing.
    ///
    /// # Errors
    /// [`Error::UnknownController`], also when it is removed meanwhile. *Cancel safety*: nothing is lost.
    pub async fn ready(&self, name: &str) -> Result<(), Error> {
        if self.controller(name)?.is_ready().await { Ok(()) } else { Err(Error::UnknownController(name.into())) }
    }

    /// Attaches a feeder written in Rust to a controller, until the controller is removed.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn feed(&self, name: &str, feeder: Arc<dyn Feeder>) -> Result<(), Error> {
        self.controller(name)?.feeders.add(feeder);
        Ok(())
    }

    /// Applies a document on behalf of `manager`. A `CustomResourceDefinition` declares its kind. `force`: fields of others are taken from them.
    ///
    /// # Errors
    /// [`Error::BadDocument`], [`Error::UnknownKind`], [`Error::KindDiffers`], [`Error::Store`].
    pub async fn apply_resource(
        &self,
        document: serde_json::Value,
        manager: &str,
        force: bool,
    ) -> Result<homeostat_store::WriteResponse, Error> {
        self.inner.context.apply(document, manager, force).await
    }

    /// Writes to the store on behalf of a person. What is written of a `CustomResourceDefinition`, but for its status, declares its kind.
    ///
    /// # Errors
    /// [`Error::BadDocument`] and [`Error::KindDiffers`] for a definition, before it is stored; [`Error::Store`].
    pub async fn write(&self, request: homeostat_store::Request) -> Result<homeostat_store::WriteResponse, Error> {
        self.inner.context.submit(request).await
    }

    /// Stops everything in order: feeders, then what is ready and running within the deadline, then stop hooks, garbage collection and
    /// the store.
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        if let Some(keeper) = self.inner.reconciler.get() {
            keeper.stop();
        }
        self.inner.controllers.write().stopping = true;
        let running = self.running();
        for controller in &running {
            controller.feeders.stop();
        }
        let left = join_all(running.iter().map(|controller| controller.stop(deadline, true))).await;
        self.inner.end.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.context.store.close().await;
        running.iter().map(|controller| controller.name.to_string()).zip(left).collect()
    }

    fn running(&self) -> Vec<Arc<Controller>> {
        self.inner.controllers.read().by_name.values().cloned().collect()
    }

    pub(crate) fn controller(&self, name: &str) -> Result<Arc<Controller>, Error> {
        let controllers = self.inner.controllers.read();
        controllers.by_name.get(name).cloned().ok_or_else(|| Error::UnknownController(name.into()))
    }
}
