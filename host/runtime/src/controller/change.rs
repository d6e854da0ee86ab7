//! How a running controller takes another definition: a swap, or new grants, limits and settings.
//!
//! Running reconciles finish on the definition that they started with; later claims take the new one. The
//! queue stays, so no key is lost, and a claim is exclusive, so no key runs twice at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use homeostat_component::{Component, Severity};
use homeostat_store::{Key, Kind, Store};
use homeostat_workqueue::{AddError, Priority, Queue};
use parking_lot::Mutex;

use super::{Controller, worker};
use crate::clock::now;
use crate::feeders::{Feeder, FeederError, Intake, SuspendFilter};
use crate::listing::for_each_listed;
use crate::slot::Audience;
use crate::slot::LoadedVersion;
use crate::slot::Slot;
use crate::status::SwapRecord;
use crate::{Definition, Error, Settings, effect_stack};

/// The report of a swap.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SwapReport {
    /// The generation of the new component.
    pub generation: u64,
    /// Digest of the old component.
    pub from: String,
    /// Digest of the new component.
    pub to: String,
    /// Number of keys that were requeued.
    pub keys: usize,
}

impl Controller {
    /// Swaps the component; everything else stays.
    pub(crate) async fn swap(self: &Arc<Self>, component: Component) -> Result<SwapReport, Error> {
        let changing = self.lifecycle.changing.lock().await;
        let definition = Definition { component, ..self.slot.current().definition.clone() };
        let swapped = self.replace(definition, false).await;
        drop(changing);
        swapped
    }

    /// Restarts the current definition as if its component had changed.
    pub(crate) async fn restart(self: &Arc<Self>) -> Result<SwapReport, Error> {
        let changing = self.lifecycle.changing.lock().await;
        let swapped = self.replace(self.slot.current().definition.clone(), true).await;
        drop(changing);
        swapped
    }

    /// Changes the definition. Returns `None` if it is already the current one.
    pub(crate) async fn change(self: &Arc<Self>, definition: Definition) -> Result<Option<SwapReport>, Error> {
        let changing = self.lifecycle.changing.lock().await;
        if self.is_stopping() {
            return Err(Error::UnknownController(self.name.to_string()));
        }
        let taken = if self.slot.current().definition.is_same(&definition) {
            Ok(None)
        } else {
            self.replace(definition, false).await.map(Some)
        };
        drop(changing);
        taken
    }

    /// The caller holds `changing`. With `anew`, the same component counts as another one.
    async fn replace(self: &Arc<Self>, definition: Definition, anew: bool) -> Result<SwapReport, Error> {
        let before = self.slot.current();
        let next = self.prepare(&before, definition, anew).await?;
        let (old, new) = (before.component(), next.component().clone());
        let generation = next.generation;
        self.install(Arc::new(next));
        let keys = self.resync(KeyFilter::every()).await;
        let swapped = SwapReport { generation, from: old.digest().to_string(), to: new.digest().to_string(), keys };
        if generation != before.generation {
            self.report_swap(&swapped);
        }
        Ok(swapped)
    }

    /// Installs a prepared version. The caller holds `changing`.
    pub(crate) fn install(self: &Arc<Self>, next: Arc<LoadedVersion>) {
        if let Some(trial) = self.slot.canary() {
            trial.finish();
        }
        self.shadow.end();
        self.slot.replace(next);
        self.tell_missing_grants();
        self.apply_settings();
    }

    /// Makes every check that can refuse a definition, and runs the start hook last. Changes nothing.
    pub(crate) async fn prepare(
        &self,
        before: &LoadedVersion,
        definition: Definition,
        anew: bool,
    ) -> Result<LoadedVersion, Error> {
        let next = self.load(before, definition, anew).await?;
        if next.generation != before.generation {
            self.run_hook_or_owe(&next).await?;
        }
        Ok(next)
    }

    /// Runs the start hook of a version. A host without a lease runs it when it has one.
    ///
    /// # Errors
    /// [`Error::StartHook`].
    pub(crate) async fn run_hook_or_owe(&self, loaded: &LoadedVersion) -> Result<(), Error> {
        if self.slot.placement.is_holder() {
            self.run_start_hook(loaded).await.map_err(Error::StartHook)?;
        } else {
            loaded.set_owes_hook(true);
            if self.lifecycle.has_started() {
                self.lifecycle.owes_hook.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// As `prepare`, without the start hook.
    pub(crate) async fn load(
        &self,
        before: &LoadedVersion,
        definition: Definition,
        anew: bool,
    ) -> Result<LoadedVersion, Error> {
        self.fits(before, &definition).await?;
        let is_swap = anew || before.component().digest() != definition.component.digest();
        let settings = Settings::merge(definition.component.describe(), &definition.overrides);
        let (context, observations) = (&self.context, &self.telemetry.observations);
        let (follows, enqueued, placement) = (&self.follows, &self.enqueued, &self.slot.placement);
        let effects = effect_stack::build(context, follows, enqueued, placement, observations, &definition);
        let generation = if is_swap { self.slot.next_generation() } else { before.generation };
        Ok(LoadedVersion::new(definition, settings, effects, generation))
    }

    /// Checks that a definition can replace the current one and that its grants cover its required watches,
    /// and declares its kinds.
    pub(crate) async fn fits(&self, before: &LoadedVersion, definition: &Definition) -> Result<(), Error> {
        definition.keeps_placement(&before.definition)?;
        let (old, new) = (before.component().describe(), definition.component.describe());
        if !old.manages.kind.same_type(&new.manages.kind) || old.manages.kind.version != new.manages.kind.version {
            let (old, new) = (old.manages.kind.to_string(), new.manages.kind.to_string());
            return Err(Error::ManagedKindChanged { old, new });
        }
        self.context.admit(definition).await
    }

    /// Applies the settings of the slot's version to queue, workers and feeders.
    fn apply_settings(self: &Arc<Self>) {
        let current = self.slot.current();
        self.queue.configure(current.settings.queue_options(&current.definition.limits));
        self.suspension.apply();
        worker::spawn_missing(self);
        self.feeders.sync_feeders();
    }

    /// Requeues keys of the store at low priority, without an event, and returns their number. If the store
    /// cannot be read now, a feeder of its own retries.
    pub(crate) async fn resync(&self, which: KeyFilter) -> usize {
        let manages = self.slot.current().component().describe().manages.clone();
        if manages.keys_only {
            return 0;
        }
        let look = KeyResync {
            deletions: self.feeders.deletions().clone(),
            slot: self.slot.clone(),
            store: self.context.store.clone(),
            kind: manages.kind,
            which,
            behind: Mutex::default(),
        };
        match look.once().await {
            Ok((keys, true)) => keys,
            Ok((keys, false)) => {
                self.feeders.run_once(Arc::new(look));
                keys
            }
            Err(_) => {
                self.feeders.run_once(Arc::new(look));
                0
            }
        }
    }

    pub(crate) fn report_swap(&self, swapped: &SwapReport) {
        let SwapReport { generation, from, to, keys } = swapped.clone();
        let message = format!("generation {generation}: {to} replaces {from}, {keys} keys were requeued");
        self.context.event(&self.name, None, Severity::Normal, "Swapped", &message);
        tracing::info!(controller = %self.name, generation, %from, %to, keys, "swapped");
        self.telemetry.stats.swapped(SwapRecord { time: now(), from, to, generation });
    }
}

/// Selects the keys to requeue. Waiting keys keep their due time and failures.
#[derive(Clone)]
pub(crate) struct KeyFilter {
    which: Arc<KeyPredicate>,
}

/// Decides whether a key is requeued, and if so whether a parked key is reset.
type KeyPredicate = dyn Fn(&Key) -> Option<ResetParked> + Send + Sync;

/// Whether a parked key gets a fresh try.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResetParked {
    Yes,
    No,
}

impl KeyFilter {
    /// Selects all keys and resets parked ones: another version may succeed on them.
    pub(crate) fn every() -> Self {
        Self::at(|_| Some(ResetParked::Yes))
    }

    pub(crate) fn at(which: impl Fn(&Key) -> Option<ResetParked> + Send + Sync + 'static) -> Self {
        Self { which: Arc::new(which) }
    }
}

struct KeyResync {
    deletions: Arc<SuspendFilter>,
    slot: Arc<Slot>,
    store: Arc<dyn Store>,
    kind: Kind,
    which: KeyFilter,
    /// Namespace and name of the last requeued key, when the queue had no room for the rest. Lists are in
    /// this order.
    behind: Mutex<Option<(String, String)>>,
}

impl KeyResync {
    /// Requeues the selected keys. Returns their number, and whether the queue had room for all.
    async fn once(&self) -> homeostat_store::Result<(usize, bool)> {
        let (mut keys, mut fits) = (0, true);
        let mut behind = self.behind.lock().clone();
        for_each_listed(&*self.store, &self.kind, |resource| {
            let key = Key::new(self.kind.clone(), resource.key().namespace(), resource.key().name());
            let at = (key.namespace(), key.name());
            if !fits || behind.as_ref().is_some_and(|(namespace, name)| at <= (namespace, name)) {
                return;
            }
            let Some(fresh) = (self.which.which)(&key).filter(|_| self.slot.may_get(&key) && self.slot.has(&key))
            else {
                return;
            };
            let look =
                |queue: &Queue<Key>, key, priority| queue.add_without_event(key, priority, fresh == ResetParked::Yes);
            let added = self.deletions.add(key.clone(), Priority::LOW, look);
            fits = added != Err(AddError::Full);
            if fits {
                keys += usize::from(added.is_ok());
                behind = Some((key.namespace().to_owned(), key.name().to_owned()));
            }
        })
        .await?;
        *self.behind.lock() = behind;
        Ok((keys, fits))
    }
}

impl Feeder for KeyResync {
    fn name(&self) -> &str {
        "requeue"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        while !self.once().await?.1 {
            intake.report_full();
            intake.wait_for_room().await;
        }
        Ok(())
    }
}
