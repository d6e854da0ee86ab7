//! Counts of what a controller did, and everything about it that is a number.

use std::sync::Arc;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use homeostat_component::{Capability, CompilationCounts};
use homeostat_workqueue::{Ages, Counters, KeyCounts};
use parking_lot::Mutex;

use crate::controller::Controller;
use crate::costs::Usage;
use crate::rollout::Share;
use crate::slot::LoadedVersion;
use crate::status::{ControllerStatus, SwapRecord, VersionInfo};

/// A host in numbers, at the moment that it was asked.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Its controllers, by name. One that is being removed is not among them.
    pub controllers: Vec<ControllerMeasures>,
    /// Guests that run, of all controllers, those that are asked to describe themselves included.
    pub instances_running: usize,
    /// Guests that could start besides without waiting.
    pub instances_free: usize,
    /// The room that all controllers share.
    pub room: HostCapacity,
    /// What has come of compilations since the start, of components of all controllers and of none.
    pub compiled: CompilationCounts,
}

/// What all controllers have, and may have, together: in their queues, and of themselves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostCapacity {
    /// Keys.
    pub keys: u64,
    /// Keys, at most.
    pub keys_max: u64,
    /// Bytes of the errors that are kept for them.
    pub error_bytes: u64,
    /// Bytes of these, at most.
    pub error_bytes_max: u64,
    /// Controllers, those that are ending included.
    pub controllers: u64,
    /// Controllers, at most.
    pub controllers_max: u64,
}

impl HostCapacity {
    pub(crate) fn of(room: &homeostat_workqueue::SharedCapacity, controllers: usize, controllers_max: usize) -> Self {
        Self {
            keys: room.keys(),
            keys_max: room.keys_max(),
            error_bytes: room.error_bytes(),
            error_bytes_max: room.error_bytes_max(),
            controllers: controllers as u64,
            controllers_max: controllers_max as u64,
        }
    }
}

/// A controller in numbers, at the moment that it was asked. What is counted is counted from its start.
#[derive(Clone, Debug)]
pub struct ControllerMeasures {
    /// How it is.
    pub status: ControllerStatus,
    /// Keys by state.
    pub keys: KeyCounts,
    /// What happened on its queue.
    pub counters: Counters,
    /// How long things have taken on its queue so far.
    pub ages: Ages,
    /// Components that were put in the place of another one.
    pub swaps: u64,
    /// Components and definitions that were refused while it ran: calls of [`Host::refused`](crate::Host::refused).
    pub refusals: u64,
    /// Trials of candidates that ended, in the order of [`RolloutResult::ALL`].
    pub rollouts: [u64; RolloutResult::ALL.len()],
    /// The share of the keys that a candidate has now, from 0 to 1; 0 when there is none.
    pub candidate_share: f64,
    /// What its reconciles used.
    pub spent: Usage,
    /// How often it was denied something, in the order of [`Capability::ALL`].
    pub denials: [u64; Capability::ALL.len()],
    /// What came of its reconciles while another version was tried as a shadow, in the order of [`ShadowOutcome::ALL`].
    pub shadowed: [u64; ShadowOutcome::ALL.len()],
}

impl Controller {
    pub(crate) fn measure(&self) -> ControllerMeasures {
        let Self { queue, stats, costs, observations, slot, .. } = self;
        ControllerMeasures {
            status: self.status(),
            keys: queue.counts(),
            counters: queue.counters(),
            ages: queue.ages(),
            swaps: stats.swaps.load(Ordering::Relaxed),
            refusals: stats.refusals.load(Ordering::Relaxed),
            rollouts: stats.rollouts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            candidate_share: slot.canary().and_then(|trial| trial.share()).map_or(0.0, Share::fraction),
            spent: costs.spent(),
            denials: observations.denials(),
            shadowed: stats.shadowed.each_ref().map(|count| count.load(Ordering::Relaxed)),
        }
    }
}

#[derive(Default)]
pub(crate) struct Stats {
    answered: ArcSwapOption<VersionInfo>,
    last_swap: Mutex<Option<SwapRecord>>,
    swaps: AtomicU64,
    refusals: AtomicU64,
    rollouts: [AtomicU64; RolloutResult::ALL.len()],
    /// In the order of [`ShadowOutcome::ALL`].
    shadowed: [AtomicU64; ShadowOutcome::ALL.len()],
}

/// How the trial of a candidate ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RolloutResult {
    /// It has all keys.
    Promoted,
    /// It went back by itself.
    RolledBack,
    /// Something else was wanted.
    Replaced,
}

impl RolloutResult {
    /// Every one, each at its own place: `ALL[end as usize] == end`.
    pub const ALL: [Self; 3] = [Self::Promoted, Self::RolledBack, Self::Replaced];

    /// Returns it as it stands in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::RolledBack => "rolled_back",
            Self::Replaced => "replaced",
        }
    }
}

/// What comes of reconciles while another version is tried as a shadow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShadowOutcome {
    /// Both versions did the same.
    Equal,
    /// They did not.
    Differing,
    /// They did not, and the new one alone failed.
    Error,
    /// They could not be compared.
    Unfit,
    /// There was no time for it.
    Skipped,
}

impl ShadowOutcome {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Equal, Self::Differing, Self::Error, Self::Unfit, Self::Skipped];

    /// Returns the label as it stands in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Differing => "differing",
            Self::Error => "error",
            Self::Unfit => "unfit",
            Self::Skipped => "skipped",
        }
    }
}

impl Stats {
    /// Counts what came of one reconcile beside a shadow.
    pub(crate) fn shadowed(&self, what: ShadowOutcome) {
        self.shadowed[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes who answered a reconcile that ended.
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

    pub(crate) fn answered(&self) -> Option<VersionInfo> {
        self.answered.load().as_deref().cloned()
    }

    /// Counts a swap, and keeps what it was.
    pub(crate) fn swapped(&self, record: SwapRecord) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
        *self.last_swap.lock() = Some(record);
    }

    /// Counts one refusal of what was to run instead.
    pub(crate) fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a trial.
    pub(crate) fn rollout(&self, end: RolloutResult) {
        self.rollouts[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn last_swap(&self) -> Option<SwapRecord> {
        self.last_swap.lock().clone()
    }
}

/// The number of workers that run. It follows the number that is wanted: up at once, down as they finish what they have.
#[derive(Default)]
pub(crate) struct Workers(AtomicU32);

impl Workers {
    /// Counts up to `wanted`, and returns how many workers to start for that.
    pub(crate) fn missing(&self, wanted: u32) -> u32 {
        wanted.saturating_sub(self.0.fetch_max(wanted, Ordering::SeqCst))
    }

    /// Returns whether more run than are wanted.
    pub(crate) fn are_surplus(&self, wanted: u32) -> bool {
        self.0.load(Ordering::Relaxed) > wanted
    }

    /// Lets the calling worker leave when more run than are wanted.
    pub(crate) fn leave_if_surplus(&self, wanted: u32) -> bool {
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |running| (running > wanted).then(|| running - 1))
            .is_ok()
    }
}

#[cfg(test)]
mod tests;
