//! The slot of a controller: its current version (component, grants, limits and settings, replaced together),
//! and the canary beside it during a rollout. It decides which version reconciles a key.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use homeostat_component::{Component, Disclosure, Effects, WarmInstances};
use homeostat_store::Key;

use crate::fleet::Placement;
use crate::rollout::{CanaryStep, RunResult, RunTotals, Track};
use crate::{Definition, OtherHost, Settings, ShardedSum, VersionInfo};

/// Reads never block. A worker that took a [`LoadedVersion`] finishes its key on it.
pub(crate) struct Slot {
    /// What this host holds of the controller.
    pub(crate) placement: Arc<Placement>,
    versions: ArcSwap<SlotVersions>,
    /// The highest generation so far.
    generation_max: AtomicU64,
    /// The version that the last reconcile ran on.
    answered: ArcSwapOption<VersionInfo>,
}

/// The stable version and the canary. Both are replaced together, so that every key has exactly one.
struct SlotVersions {
    current: Arc<LoadedVersion>,
    canary: Option<Arc<CanaryStep>>,
}

impl SlotVersions {
    /// Returns the version that reconciles a key; during a rollout also the canary step and the key's track.
    fn of(&self, key: &Key) -> (&Arc<LoadedVersion>, Option<(Arc<CanaryStep>, Track)>) {
        let Some(trial) = &self.canary else { return (&self.current, None) };
        let side = trial.track_of(key);
        (if side == Track::Canary { &trial.loaded } else { &self.current }, Some((trial.clone(), side)))
    }
}

/// The version that reconciles a key.
pub(crate) struct Assignment<'a> {
    pub(crate) cached: &'a CachedVersion,
    /// The canary step that records the reconcile, and the key's track.
    pub(crate) canary: Option<(Arc<CanaryStep>, Track)>,
}

/// The version that a feeder calls.
pub(crate) struct CallTarget {
    pub(crate) loaded: Arc<LoadedVersion>,
    /// The canary step that records the call, and its track.
    pub(crate) canary: Option<(Arc<CanaryStep>, Track)>,
}

/// The version that a worker caches across keys. Changing shared reference counts for every key would slow
/// down all workers.
pub(crate) struct CachedVersion {
    pub(crate) loaded: Arc<LoadedVersion>,
    /// The effect layers of `loaded`, with a reference count of this worker's own.
    pub(crate) effects: Arc<dyn Effects>,
}

impl CachedVersion {
    fn of(loaded: &Arc<LoadedVersion>) -> Self {
        Self { loaded: loaded.clone(), effects: Arc::new(loaded.effects.clone()) }
    }
}

impl Slot {
    pub(crate) fn new(first: LoadedVersion, placement: Arc<Placement>) -> Self {
        let generation_max = AtomicU64::new(first.generation);
        Self {
            placement,
            versions: ArcSwap::from_pointee(SlotVersions { current: Arc::new(first), canary: None }),
            generation_max,
            answered: ArcSwapOption::empty(),
        }
    }

    /// Returns the stable version, regardless of any canary.
    pub(crate) fn current(&self) -> Arc<LoadedVersion> {
        self.versions.load().current.clone()
    }

    /// Returns the maximum number of concurrent reconciles; the stable version sets it for both.
    pub(crate) fn concurrency(&self) -> u32 {
        self.versions.load().current.settings.concurrency
    }

    /// Returns the canary step.
    pub(crate) fn canary(&self) -> Option<Arc<CanaryStep>> {
        self.versions.load().canary.clone()
    }

    /// Returns the version for a claimed key. Called once for each claim; the claim is exclusive, so a key
    /// never runs on both versions at once. `kept` caches the version of the worker's last key. Returns
    /// `None` if the grants of the version do not cover the key.
    pub(crate) fn assign<'a>(&self, key: &Key, kept: &'a mut Option<CachedVersion>) -> Option<Assignment<'a>> {
        let sides = self.versions.load();
        let (loaded, trial) = sides.of(key);
        if !loaded.definition.may_get(key) {
            return None;
        }
        let known = kept.take().filter(|known| Arc::ptr_eq(&known.loaded, loaded));
        Some(Assignment { cached: kept.insert(known.unwrap_or_else(|| CachedVersion::of(loaded))), canary: trial })
    }

    /// Records the version that a reconcile ran on.
    pub(crate) fn answered_by(&self, by: &LoadedVersion) {
        let is_known = |answered: &VersionInfo| {
            answered.generation == by.generation
                && answered.revision == by.revision()
                && answered.digest == by.component().digest().as_str()
        };
        if !self.answered.load().as_deref().is_some_and(is_known) {
            self.answered.store(Some(Arc::new(by.version_info())));
        }
    }

    /// Returns the version that the last reconcile ran on.
    pub(crate) fn answered(&self) -> Option<VersionInfo> {
        self.answered.load().as_deref().cloned()
    }

    /// Installs another version for all keys, and drops the canary.
    pub(crate) fn replace(&self, next: Arc<LoadedVersion>) {
        self.generation_max.fetch_max(next.generation, Ordering::Relaxed);
        self.versions.store(Arc::new(SlotVersions { current: next, canary: None }));
    }

    /// Sets the canary step; `None` ends the canary.
    pub(crate) fn set_canary(&self, trial: Option<Arc<CanaryStep>>) {
        if let Some(trial) = &trial {
            self.generation_max.fetch_max(trial.loaded.generation, Ordering::Relaxed);
        }
        let current = self.current();
        self.versions.store(Arc::new(SlotVersions { current, canary: trial }));
    }

    /// Returns the generation for the next component, which no other component has had.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation_max.load(Ordering::Relaxed) + 1
    }

    /// Returns the version that a feeder calls: the canary if the feeder was started for it (`whose`) and it
    /// is still tried, else the stable version. The caller checks whether that version wants the call.
    pub(crate) fn call_target(&self, whose: Option<&Weak<LoadedVersion>>) -> CallTarget {
        let sides = self.versions.load();
        let Some(trial) = &sides.canary else { return CallTarget { loaded: sides.current.clone(), canary: None } };
        let is_candidates = whose.is_some_and(|whose| trial.is_candidate(whose));
        let (loaded, side) =
            if is_candidates { (&trial.loaded, Track::Canary) } else { (&sides.current, Track::Stable) };
        CallTarget { loaded: loaded.clone(), canary: Some((trial.clone(), side)) }
    }
}

/// One definition, ready to run.
pub(crate) struct LoadedVersion {
    pub(crate) definition: Definition,
    pub(crate) settings: Settings,
    /// The effect layers of its sandboxes.
    pub(crate) effects: Arc<dyn Effects>,
    /// Its number among the components that this slot has held, from 1; canaries count too.
    pub(crate) generation: u64,
    /// Its revision number in the controller's history, from 1; 0 while unknown.
    revision: AtomicU64,
    /// Whether its start hook waits for a lease.
    owes_hook: AtomicBool,
    /// Totals of its reconciles.
    totals: ShardedSum<RunTotals>,
    /// The instances that it keeps between reconciles; `None` if each has a fresh one.
    pub(crate) warm: Option<WarmInstances>,
}

impl LoadedVersion {
    pub(crate) fn new(definition: Definition, settings: Settings, effects: Arc<dyn Effects>, generation: u64) -> Self {
        let (revision, owes_hook, totals) = Default::default();
        let warm = settings.reuse_instances.then(|| definition.component.warm_instances());
        Self { definition, settings, effects, generation, revision, owes_hook, totals, warm }
    }

    /// Returns its revision number in the controller's history; `None` if it has none or it is not known yet.
    pub(crate) fn revision(&self) -> Option<u64> {
        Some(self.revision.load(Ordering::Relaxed)).filter(|revision| *revision > 0)
    }

    /// Records whether its start hook waits for a lease.
    pub(crate) fn set_owes_hook(&self, owes: bool) {
        self.owes_hook.store(owes, Ordering::Relaxed);
    }

    /// Returns whether its start hook waits for a lease.
    pub(crate) fn owes_hook(&self) -> bool {
        self.owes_hook.load(Ordering::Relaxed)
    }

    /// Records the result of a reconcile.
    pub(crate) fn record(&self, end: RunResult) {
        self.totals.local().record(end);
    }

    /// Returns the totals of its reconciles.
    pub(crate) fn past(&self) -> RunTotals {
        let mut past = RunTotals::default();
        self.totals.shards().for_each(|part| past.merge(*part));
        past
    }

    /// Sets its revision number. A definition that is installed again gets a new one.
    pub(crate) fn set_revision(&self, number: u64) {
        self.revision.store(number, Ordering::Relaxed);
    }

    /// Returns the status entry for reconciles on this version.
    pub(crate) fn version_info(&self) -> VersionInfo {
        let digest = self.component().digest().to_string();
        VersionInfo { digest, generation: self.generation, revision: self.revision() }
    }

    pub(crate) fn component(&self) -> &Component {
        &self.definition.component
    }
}

/// The versions that reconcile the keys of a controller, for their feeders. Must not block.
///
/// All versions of a controller share a feeder, and grants change while it runs. So no grant is stored with a
/// key: it is checked when the key is added, and again when it runs.
pub(crate) trait Audience: Send + Sync + 'static {
    /// Returns whether the version that would reconcile `key` now may receive it: its grants cover a watch of
    /// it.
    fn may_get(&self, key: &Key) -> bool;

    /// Returns whether the version that would reconcile `key` now may receive it because `of` has changed,
    /// which reveals `reveals` of `of`.
    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool;

    /// Returns whether `key` belongs on the queue of this host: no other host may have its lease.
    fn has(&self, _key: &Key) -> bool {
        true
    }

    /// Returns the other host that holds the lease of `key`; `None` if this host holds it, or no holder is known.
    fn other_holder_of(&self, _key: &Key) -> Option<OtherHost> {
        None
    }

    /// Returns the other hosts that hold leases of the controller.
    fn other_holders(&self) -> Vec<OtherHost> {
        Vec::new()
    }
}

impl Audience for Slot {
    fn may_get(&self, key: &Key) -> bool {
        self.versions.load().of(key).0.definition.may_get(key)
    }

    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        let sides = self.versions.load();
        let definition = &sides.of(key).0.definition;
        definition.may_get(key) && definition.grants.discloses(of, reveals)
    }

    fn has(&self, key: &Key) -> bool {
        self.placement.has(key)
    }

    fn other_holder_of(&self, key: &Key) -> Option<OtherHost> {
        self.placement.other_holder_of(key)
    }

    fn other_holders(&self) -> Vec<OtherHost> {
        self.placement.other_holders()
    }
}
