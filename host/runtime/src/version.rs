//! One version of a controller: its component, grants, limits and settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_component::{Component, Effects};

use crate::rollout::{RunResult, RunTotals};
use crate::{Definition, Settings, ShardedSum, VersionInfo};

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
    /// Totals of its reconciles.
    totals: ShardedSum<RunTotals>,
}

impl LoadedVersion {
    pub(crate) fn new(definition: Definition, settings: Settings, effects: Arc<dyn Effects>, generation: u64) -> Self {
        Self { definition, settings, effects, generation, revision: AtomicU64::new(0), totals: ShardedSum::default() }
    }

    /// Returns its revision number in the controller's history; `None` if it has none or it is not known yet.
    pub(crate) fn revision(&self) -> Option<u64> {
        Some(self.revision.load(Ordering::Relaxed)).filter(|revision| *revision > 0)
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
