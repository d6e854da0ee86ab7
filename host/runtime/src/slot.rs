//! The slot of a controller: its current version (component, grants, limits and settings, replaced together),
//! and the canary beside it during a rollout.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use homeostat_component::{Disclosure, Effects};
use homeostat_store::Key;

use crate::audience::Audience;
use crate::canary_step::CanaryStep;
use crate::rollout::Track;
use crate::version::LoadedVersion;

/// Reads never block. A worker that took a [`LoadedVersion`] finishes its key on it.
pub(crate) struct Slot {
    versions: ArcSwap<SlotVersions>,
    /// The highest generation so far.
    generation_max: AtomicU64,
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
    pub(crate) fn new(first: LoadedVersion) -> Self {
        let generation_max = AtomicU64::new(first.generation);
        Self {
            versions: ArcSwap::from_pointee(SlotVersions { current: Arc::new(first), canary: None }),
            generation_max,
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

impl Audience for Slot {
    fn may_get(&self, key: &Key) -> bool {
        self.versions.load().of(key).0.definition.may_get(key)
    }

    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        let sides = self.versions.load();
        let definition = &sides.of(key).0.definition;
        definition.may_get(key) && definition.grants.discloses(of, reveals)
    }
}
