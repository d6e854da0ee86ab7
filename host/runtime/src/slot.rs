//! The named place that holds what a controller runs now: component, grants, limits and settings, replaced together; and beside it, while a
//! rollout lasts, the candidate that some keys are tried on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use homeostat_component::{Component, Disclosure, Effects};
use homeostat_store::Key;

use crate::feeders::Audience;
use crate::rollout::{RunResult, RunTotals, Track};
use crate::trial::CanaryStep;
use crate::{Definition, Settings, ShardedSum, VersionInfo};

/// Reading never waits. Who took a [`LoadedVersion`] keeps it for that key: what runs finishes on what it began with.
pub(crate) struct Slot {
    versions: ArcSwap<SlotVersions>,
    /// The greatest generation that it has held.
    generation_max: AtomicU64,
}

/// What runs, and what is tried beside it. Replaced together, so that no key is between the two.
struct SlotVersions {
    current: Arc<LoadedVersion>,
    canary: Option<Arc<CanaryStep>>,
}

impl SlotVersions {
    /// Returns what a key is reconciled by, and where something is tried, on which side.
    fn of(&self, key: &Key) -> (&Arc<LoadedVersion>, Option<(Arc<CanaryStep>, Track)>) {
        let Some(trial) = &self.canary else { return (&self.current, None) };
        let side = trial.track_of(key);
        (if side == Track::Canary { &trial.loaded } else { &self.current }, Some((trial.clone(), side)))
    }
}

/// One definition, ready to run.
pub(crate) struct LoadedVersion {
    pub(crate) definition: Definition,
    pub(crate) settings: Settings,
    /// The way out of its sandboxes: the world behind its grants.
    pub(crate) effects: Arc<dyn Effects>,
    /// Counts the components that this slot has held, from 1, those that were tried as well.
    pub(crate) generation: u64,
    /// Its number in the history of its controller, from 1; 0 for as long as nobody has said.
    revision: AtomicU64,
    /// What it did so far.
    totals: ShardedSum<RunTotals>,
}

/// What a key is reconciled by.
pub(crate) struct Assignment<'a> {
    pub(crate) cached: &'a CachedVersion,
    /// What takes note of it, and on which side.
    pub(crate) canary: Option<(Arc<CanaryStep>, Track)>,
}

/// What a feeder asks.
pub(crate) struct CallTarget {
    pub(crate) loaded: Arc<LoadedVersion>,
    /// What takes note of it, and on which side.
    pub(crate) canary: Option<(Arc<CanaryStep>, Track)>,
}

/// What a worker took, and keeps for its next keys: counting itself in and out for each of them would cost every worker the others' time.
pub(crate) struct CachedVersion {
    pub(crate) loaded: Arc<LoadedVersion>,
    /// The same way out as that of `loaded`, counted by this worker alone.
    pub(crate) effects: Arc<dyn Effects>,
}

impl CachedVersion {
    fn of(loaded: &Arc<LoadedVersion>) -> Self {
        Self { loaded: loaded.clone(), effects: Arc::new(loaded.effects.clone()) }
    }
}

impl LoadedVersion {
    pub(crate) fn new(definition: Definition, settings: Settings, effects: Arc<dyn Effects>, generation: u64) -> Self {
        Self { definition, settings, effects, generation, revision: AtomicU64::new(0), totals: ShardedSum::default() }
    }

    /// Returns its number in the history of its controller; `None`: it stands in none, or nobody has said.
    pub(crate) fn revision(&self) -> Option<u64> {
        Some(self.revision.load(Ordering::Relaxed)).filter(|revision| *revision > 0)
    }

    /// Takes note of how a reconcile ended.
    pub(crate) fn record(&self, end: RunResult) {
        self.totals.local().record(end);
    }

    /// Returns what it did so far.
    pub(crate) fn past(&self) -> RunTotals {
        let mut past = RunTotals::default();
        self.totals.shards().for_each(|part| past.merge(*part));
        past
    }

    /// Says its number in the history of its controller. What is put in once more moves up.
    pub(crate) fn set_revision(&self, number: u64) {
        self.revision.store(number, Ordering::Relaxed);
    }

    /// Returns what is told of it when it has answered.
    pub(crate) fn version_info(&self) -> VersionInfo {
        let digest = self.component().digest().to_string();
        VersionInfo { digest, generation: self.generation, revision: self.revision() }
    }

    pub(crate) fn component(&self) -> &Component {
        &self.definition.component
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

    /// Returns what runs; of what is tried beside it nothing is known here.
    pub(crate) fn current(&self) -> Arc<LoadedVersion> {
        self.versions.load().current.clone()
    }

    /// Returns how many reconciles there may be at once: what runs says so for both.
    pub(crate) fn concurrency(&self) -> u32 {
        self.versions.load().current.settings.concurrency
    }

    /// Returns what is tried.
    pub(crate) fn canary(&self) -> Option<Arc<CanaryStep>> {
        self.versions.load().canary.clone()
    }

    /// Returns what a key is reconciled by now. Asked once for each claim: as nobody else has the key then, it never runs by both.
    /// `kept` is what the same worker took last, or nothing. `None`: that one may not be told of the key, whoever has put it on the queue.
    pub(crate) fn assign<'a>(&self, key: &Key, kept: &'a mut Option<CachedVersion>) -> Option<Assignment<'a>> {
        let sides = self.versions.load();
        let (loaded, trial) = sides.of(key);
        if !loaded.definition.may_get(key) {
            return None;
        }
        let known = kept.take().filter(|known| Arc::ptr_eq(&known.loaded, loaded));
        Some(Assignment { cached: kept.insert(known.unwrap_or_else(|| CachedVersion::of(loaded))), canary: trial })
    }

    /// Puts another definition in, for all keys. What was tried is tried no more.
    pub(crate) fn replace(&self, next: Arc<LoadedVersion>) {
        self.generation_max.fetch_max(next.generation, Ordering::Relaxed);
        self.versions.store(Arc::new(SlotVersions { current: next, canary: None }));
    }

    /// Tries a candidate, or tries it on other keys; `None`: no more.
    pub(crate) fn set_canary(&self, trial: Option<Arc<CanaryStep>>) {
        if let Some(trial) = &trial {
            self.generation_max.fetch_max(trial.loaded.generation, Ordering::Relaxed);
        }
        let current = self.current();
        self.versions.store(Arc::new(SlotVersions { current, canary: trial }));
    }

    /// Returns the generation of a component that is put in, or tried, next: no other one has had it.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation_max.load(Ordering::Relaxed) + 1
    }

    /// Returns who is asked by a feeder that was begun for `whose`: that candidate for as long as it is tried, and else what runs. Whoever
    /// asks looks whether it wants to be asked.
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
