//! The host: the controllers of one process and the parts that they share.

use std::collections::{BTreeMap, btree_map};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use homeostat_component::{Component, Digest, Grants, Limits, LoadError, Severity};
use homeostat_store::StorePart;
use homeostat_store::moves::follow_uids;
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::controller::{Controller, RemovalReport, SwapReport};
use crate::controller_reconciler::{CompilationTracker, ControllerReconciler, SyncResults};
use crate::conversion::ControllerCode;
use crate::feeders::Feeder;
use crate::feeders::webhook::WebhookEndpoint;
use crate::store_monitor::StoreMonitor;
use crate::{
    Definition, Error, Options, Requester, Stores, Suspend, declarations, definitions, event_resources, far_garbage,
    fleet, garbage, namespace_content, service_range,
};

mod keys;
mod queries;
mod shadow;
mod stored_controllers;
mod stores;

pub use keys::KeyVerb;

/// A running host. Clones are the same host.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    controllers: RwLock<Controllers>,
    controllers_max: usize,
    /// Reconciles the `Controller` resources, once [`Host::run_controllers`] was called.
    reconciler: OnceLock<Arc<ControllerReconciler>>,
    verdicts: SyncResults,
    compiling: CompilationTracker,
    tasks: TaskTracker,
    /// Cancels the tasks that belong to no controller.
    end: CancellationToken,
}

#[derive(Default)]
struct Controllers {
    stopping: bool,
    by_name: BTreeMap<String, Arc<Controller>>,
    /// By name, tokens of removed controllers that still run something; cancelled when they have ended.
    leaving: BTreeMap<String, CancellationToken>,
}

impl Controllers {
    /// Returns the number of controllers, including those that are ending.
    fn count(&self) -> usize {
        let ending = self.leaving.iter().filter(|(name, _)| !self.by_name.contains_key(*name));
        self.by_name.len() + ending.count()
    }
}

/// The effect of [`Host::put`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Put {
    /// The controller is new.
    Added,
    /// The controller existed and has changed. Its component has changed too if the digests differ.
    Changed(SwapReport),
    /// The controller already runs this definition.
    Unchanged,
}

/// The work left when the host stopped, by controller.
pub type ShutdownReport = BTreeMap<String, RemovalReport>;

impl Host {
    /// Starts a host without controllers. Declares the kinds of the store's definitions and of earlier
    /// components, watches the definitions, and starts the garbage collector.
    ///
    /// # Errors
    /// [`Error::Store`] when the definitions cannot be read, [`Error::Component`] when the HTTP client cannot
    /// be built.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let Options { controllers_max, collects_across_stores, mirrors_hosts, events_max, event_ttl, .. } = options;
        let context = Arc::new(Context::new(options)?);
        context.declare_stored().await?;
        namespace_content::create_initial(&context).await?;
        context.admission.priorities.create_initial(&*context.store, &context.kinds).await?;
        service_range::create_initial(&context).await?;
        let inner = Inner {
            context,
            controllers_max,
            controllers: RwLock::default(),
            reconciler: OnceLock::new(),
            verdicts: SyncResults::default(),
            compiling: CompilationTracker::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        };
        let host = Self { inner: Arc::new(inner) };
        let controllers = Arc::downgrade(&host.inner);
        host.inner.context.kinds.converters().connect(move |name| {
            let controller = Host { inner: controllers.upgrade()? }.controller(name).ok()?;
            let Definition { component, limits, .. } = &controller.slot.current().definition;
            Some(ControllerCode { component: component.clone(), limits: limits.clone() })
        });
        let (context, end) = (&host.inner.context, &host.inner.end);
        let fleet = Arc::clone(&context.fleet);
        host.spawn(garbage::run(context.stores.clone(), context.kinds.clone(), fleet, end.clone()));
        if let Stores::Routed(stores) = &context.stores {
            let (following, end) = (follow_uids(Arc::clone(stores)), end.clone());
            host.spawn(async move {
                let _ = end.run_until_cancelled(following).await;
            });
        }
        if let Stores::Routed(stores) = &context.stores
            && collects_across_stores
        {
            host.spawn(far_garbage::run(Arc::clone(stores), context.kinds.clone(), end.clone()));
        }
        if mirrors_hosts {
            host.spawn(fleet::mirror(Arc::clone(&context.fleet), context.store.clone(), end.clone()));
        }
        host.spawn(namespace_content::run(context.clone(), end.clone()));
        host.spawn(event_resources::run(context.clone(), events_max, event_ttl, end.clone()));
        host.spawn(definitions::run(context.clone(), end.clone()));
        host.spawn(declarations::run(context.clone(), end.clone()));
        for StorePart { name, store } in context.stores.parts() {
            if let Some(catalog) = store.catalog() {
                let (kinds, end) = (context.kinds.clone(), end.clone());
                host.spawn(async move { kinds.follow_catalog(&name, catalog, end).await });
            }
        }
        let monitor = StoreMonitor::new(host.store());
        host.spawn(host.clone().report_stores(monitor, end.clone()));
        let (engine, end) = (host.inner.context.engine.clone(), host.inner.end.clone());
        host.inner.tasks.spawn(async move {
            let keep_code = async { tokio::join!(engine.evict_idle(), engine.optimise()) };
            end.run_until_cancelled(keep_code).await
        });
        Ok(host)
    }

    /// Compiles and checks a component under the default limits of a call, and describes it without settings. Does not
    /// run it.
    ///
    /// # Errors
    /// [`LoadError`], with all reasons.
    pub async fn load(&self, bytes: Vec<u8>) -> Result<Component, LoadError> {
        self.inner.context.engine.load(bytes).await
    }

    /// As [`Host::load`], with the limits of the controller's calls and its settings. Bytes with a digest other than
    /// `wanted` are refused without compiling them.
    ///
    /// # Errors
    /// [`LoadError`], with all reasons.
    pub async fn load_within(
        &self,
        bytes: Vec<u8>,
        wanted: Option<&Digest>,
        limits: &Limits,
        config: &BTreeMap<String, String>,
    ) -> Result<Component, LoadError> {
        self.inner.context.engine.load_within(bytes, wanted, limits, config).await
    }

    /// As [`Host::load_within`], for a component that a controller already runs; reads and compiles nothing.
    /// Returns `None` if no controller runs it.
    ///
    /// # Errors
    /// [`LoadError`], with all reasons.
    pub async fn load_again(
        &self,
        digest: &Digest,
        limits: &Limits,
        config: &BTreeMap<String, String>,
    ) -> Option<Result<Component, LoadError>> {
        // The code of a controller that is ending may already have been swept.
        let runs = |controller: &Arc<Controller>| controller.slot.current().component().digest() == digest;
        if !self.running().iter().any(runs) {
            return None;
        }
        self.inner.context.engine.load_known(digest, limits, config).await
    }

    /// Adds a controller, or updates the controller of that name in place. The queue is kept.
    ///
    /// # Errors
    /// [`Error::Stopping`]; [`Error::Refused`] for a watch that the grants do not cover; [`Error::KindDiffers`].
    /// For an update also [`Error::ManagedKindChanged`] and [`Error::StartHook`]. After an error the current version
    /// keeps running.
    pub async fn put(&self, definition: Definition) -> Result<Put, Error> {
        self.put_held(definition, Suspend::No).await
    }

    /// As [`Host::put`], and sets the operator's suspension in the same step, so that no key runs in between.
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

    /// Reports granted secrets that are missing. They may be added later; until then, requests that need them
    /// fail.
    async fn tell_missing_secrets(&self, name: &str, grants: &Grants) {
        for secret in grants.secrets() {
            if let Err(reason) = self.inner.context.secrets.get(secret).await {
                let message = format!("there is no secret {secret:?} for its requests: {reason}");
                self.inner.context.event(&name.into(), None, Severity::Warning, "SecretMissing", &message);
            }
        }
    }

    /// Starts a controller. Returns `false` if another task has added the name first.
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

    /// Swaps the component of a controller; grants, limits and settings stay.
    ///
    /// # Errors
    /// [`Error::UnknownController`], [`Error::ManagedKindChanged`], [`Error::Refused`],
    /// [`Error::KindDiffers`], [`Error::StartHook`]. After an error the old component keeps running.
    pub async fn swap(&self, name: &str, component: Component) -> Result<SwapReport, Error> {
        self.controller(name)?.swap(component).await
    }

    /// Records that a new version of a controller was refused. The current version keeps running.
    pub fn refused(&self, name: &str, reason: &str) {
        if let Ok(controller) = self.controller(name) {
            controller.telemetry.stats.refused();
        }
        self.inner.context.event(&name.into(), None, Severity::Warning, "Refused", reason);
    }

    /// Removes a controller. Queued keys are dropped; running reconciles finish, or are aborted at the
    /// deadline. The name is free at once.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub async fn remove(&self, name: &str) -> Result<RemovalReport, Error> {
        let controller = self.detach(name)?;
        Ok(self.stop_detached(name, &controller).await)
    }

    /// Detaches a controller, which frees its name. It keeps running until [`Host::stop_detached`].
    pub(crate) fn detach(&self, name: &str) -> Result<Arc<Controller>, Error> {
        let mut controllers = self.inner.controllers.write();
        let taken = controllers.by_name.remove(name).ok_or_else(|| Error::UnknownController(name.into()))?;
        controllers.leaving.insert(name.to_owned(), taken.lifecycle.ended.clone());
        drop(controllers);
        self.inner.context.logs.forget(name);
        Ok(taken)
    }

    /// Stops a detached controller.
    pub(crate) async fn stop_detached(&self, name: &str, controller: &Controller) -> RemovalReport {
        let left = controller.stop(self.inner.context.drain_deadline, false).await;
        let mut controllers = self.inner.controllers.write();
        if controllers.leaving.get(name).is_some_and(CancellationToken::is_cancelled) {
            controllers.leaving.remove(name);
        }
        if !controllers.by_name.contains_key(name) {
            self.inner.context.withdraw(name);
            // Log lines written after the name was freed.
            self.inner.context.logs.forget(name);
        }
        drop(controllers);
        left
    }

    /// Suspends or resumes a controller. The suspension lasts until it is lifted, and definition changes do
    /// not lift it. A controller whose definition is suspended stays suspended.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn suspend(&self, name: &str, suspend: bool) -> Result<(), Error> {
        self.controller(name)?.suspension.hold(if suspend { Suspend::Yes } else { Suspend::No });
        Ok(())
    }

    /// Waits until the start hook of a controller has succeeded and all its watches have had their first full
    /// list. A suspended controller can be ready too.
    ///
    /// # Errors
    /// [`Error::UnknownController`], also when the controller is removed meanwhile. *Cancel safety*: nothing
    /// is lost.
    pub async fn ready(&self, name: &str) -> Result<(), Error> {
        if self.controller(name)?.is_ready().await { Ok(()) } else { Err(Error::UnknownController(name.into())) }
    }

    /// Returns a webhook of a running controller; `None` if there is none.
    pub fn webhook(&self, controller: &str, feeder: &str) -> Option<WebhookEndpoint> {
        self.controller(controller).ok()?.feeders.webhook(feeder).map(WebhookEndpoint)
    }

    /// Attaches a feeder written in Rust to a controller. It runs until the controller is removed.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn feed(&self, name: &str, feeder: Arc<impl Feeder>) -> Result<(), Error> {
        self.controller(name)?.feeders.add(feeder);
        Ok(())
    }

    /// Applies a document on behalf of `manager`. A `CustomResourceDefinition` declares its kind. With
    /// `force`, takes over fields that other managers own.
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

    /// Writes to the store on behalf of a person. A write to a `CustomResourceDefinition` declares its kind,
    /// unless it writes the status.
    ///
    /// # Errors
    /// [`Error::BadDocument`] and [`Error::KindDiffers`] for a definition, before it is stored;
    /// [`Error::Store`].
    pub async fn write(&self, request: homeostat_store::Request) -> Result<homeostat_store::WriteResponse, Error> {
        self.inner.context.submit(request).await
    }

    /// Writes to the store on behalf of a requester, whom admission webhooks see and warn. Otherwise as [`Host::write`].
    ///
    /// # Errors
    /// As [`Host::write`]; [`Error::Rejected`] for what a webhook refuses.
    pub async fn write_as(
        &self,
        request: homeostat_store::Request,
        requester: &Requester,
    ) -> Result<homeostat_store::WriteResponse, Error> {
        self.inner.context.submit_as(request, Some(requester)).await
    }

    /// Writes to the store without admission webhooks: for a dry run that finds faults, and for a subresource other than the
    /// status. Otherwise as [`Host::write`].
    ///
    /// # Errors
    /// As [`Host::write`].
    pub async fn write_unreviewed(
        &self,
        request: homeostat_store::Request,
    ) -> Result<homeostat_store::WriteResponse, Error> {
        self.inner.context.submit_as(request, None).await
    }

    /// Shuts the host down in order: feeders; ready and running keys, within the deadline; stop hooks; the
    /// garbage collector; the store.
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
        self.inner.context.fleet.stop().await;
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
