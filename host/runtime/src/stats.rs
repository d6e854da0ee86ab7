//! Counters of a controller, and all measures of a host.

use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_component::{Capability, CompilationCounts};
use homeostat_workqueue::{Ages, Counters, KeyCounts};
use parking_lot::Mutex;

use crate::costs::Usage;
use crate::status::{ControllerStatus, SwapRecord};

/// The measures of a host at one moment.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Controllers by name, without those that are being removed.
    pub controllers: Vec<ControllerMeasures>,
    /// Guest instances in use, including those that only describe themselves.
    pub instances_running: usize,
    /// Guest instances that could still start without waiting.
    pub instances_free: usize,
    /// The capacity that all controllers share.
    pub room: HostCapacity,
    /// Compilations since the start of the host, by result. Includes components of no controller.
    pub compiled: CompilationCounts,
    /// Components that run baseline code.
    pub baseline: usize,
}

/// Usage and bounds of the capacity that all controllers share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostCapacity {
    /// Keys on all queues.
    pub keys: u64,
    /// Maximum number of keys.
    pub keys_max: u64,
    /// Bytes of error texts kept for those keys.
    pub error_bytes: u64,
    /// Maximum bytes of error texts.
    pub error_bytes_max: u64,
    /// Controllers, including those that are ending.
    pub controllers: u64,
    /// Maximum number of controllers.
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

/// The measures of a controller at one moment. Counters start when the controller starts.
#[derive(Clone, Debug)]
pub struct ControllerMeasures {
    /// Its status.
    pub status: ControllerStatus,
    /// Keys by state.
    pub keys: KeyCounts,
    /// Counters of its queue.
    pub counters: Counters,
    /// Ages of its queue: how long keys wait and run.
    pub ages: Ages,
    /// Component swaps.
    pub swaps: u64,
    /// Components and definitions refused while it ran: calls of [`Host::refused`](crate::Host::refused).
    pub refusals: u64,
    /// Finished rollouts, in the order of [`RolloutResult::ALL`].
    pub rollouts: [u64; RolloutResult::ALL.len()],
    /// The canary's share of the keys, from 0 to 1; 0 without a canary.
    pub candidate_share: f64,
    /// The resources that its reconciles used.
    pub spent: Usage,
    /// Denials by capability, in the order of [`Capability::ALL`].
    pub denials: [u64; Capability::ALL.len()],
    /// Reconciles beside a shadow by outcome, in the order of [`ShadowOutcome::ALL`].
    pub shadowed: [u64; ShadowOutcome::ALL.len()],
}

#[derive(Default)]
pub(crate) struct Stats {
    last_swap: Mutex<Option<SwapRecord>>,
    pub(crate) swaps: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) rollouts: [AtomicU64; RolloutResult::ALL.len()],
    /// In the order of [`ShadowOutcome::ALL`].
    pub(crate) shadowed: [AtomicU64; ShadowOutcome::ALL.len()],
}

/// How a rollout ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RolloutResult {
    /// The canary was promoted and has all keys.
    Promoted,
    /// The gate or a fault rolled it back.
    RolledBack,
    /// Another definition replaced it before its end.
    Replaced,
}

impl RolloutResult {
    /// All results, each at its own index: `ALL[end as usize] == end`.
    pub const ALL: [Self; 3] = [Self::Promoted, Self::RolledBack, Self::Replaced];

    /// Returns the label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::RolledBack => "rolled_back",
            Self::Replaced => "replaced",
        }
    }
}

/// The outcome of one reconcile beside a shadow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShadowOutcome {
    /// Both versions did the same.
    Equal,
    /// The versions differed.
    Differing,
    /// The versions differed, and only the candidate failed.
    Error,
    /// The reconcile could not be compared.
    Unfit,
    /// The shadow was busy with other reconciles.
    Skipped,
}

impl ShadowOutcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [Self::Equal, Self::Differing, Self::Error, Self::Unfit, Self::Skipped];

    /// Returns the label value in metrics.
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
    /// Counts one reconcile beside a shadow.
    pub(crate) fn shadowed(&self, what: ShadowOutcome) {
        self.shadowed[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a swap and keeps its record.
    pub(crate) fn swapped(&self, record: SwapRecord) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
        *self.last_swap.lock() = Some(record);
    }

    /// Counts one refused version.
    pub(crate) fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a finished rollout.
    pub(crate) fn rollout(&self, end: RolloutResult) {
        self.rollouts[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn last_swap(&self) -> Option<SwapRecord> {
        self.last_swap.lock().clone()
    }
}
