//! The settings of a controller: the component's, overridden by the manifest, completed with defaults.

use std::time::Duration;

use homeostat_component::{BackoffSpec, ControllerSpec, DuringDelay, Limits};

use crate::Overrides;

/// The wait after a first failure. Source: client-go's per-item exponential limiter.
pub(crate) const BACKOFF_BASE: Duration = Duration::from_millis(5);
/// The longest wait between two tries. Source: client-go's per-item exponential limiter.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(1000);
/// The period in which every key is requeued. Source: controller-runtime's cache.
pub(crate) const RESYNC: Duration = Duration::from_secs(10 * 3600);
/// The shortest period of a resync. Shorter ones are lengthened.
const RESYNC_MIN: Duration = Duration::from_secs(1);
/// The shortest period of a poll. Shorter ones are lengthened.
const POLL_MIN: Duration = Duration::from_millis(100);
/// Reconciles of one controller at once.
pub(crate) const CONCURRENCY: u32 = 4;

/// The settings of one controller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Maximum number of concurrent reconciles, each of another key.
    pub concurrency: u32,
    /// The wait after failures.
    pub backoff: BackoffSpec,
    /// The period in which every key is requeued.
    pub resync: Duration,
    /// The period of the guest's poller; `None` if the guest has no poller.
    pub poll: Option<Duration>,
    /// The effect of an event on a key that is waiting.
    pub during_delay: DuringDelay,
    /// Whether an instance serves further calls after one that succeeded.
    pub reuse_instances: bool,
}

impl Settings {
    /// Merges the settings of the component with those of its manifest. The manifest wins.
    pub fn merge(spec: &ControllerSpec, overrides: &Overrides) -> Self {
        let Overrides { concurrency, backoff, resync, poll, during_delay, reuse_instances } = overrides;
        let default = BackoffSpec { base: BACKOFF_BASE, max: BACKOFF_MAX, retries_max: None };
        Self {
            concurrency: concurrency.or(spec.concurrency).unwrap_or(CONCURRENCY),
            backoff: backoff.or(spec.backoff).unwrap_or(default),
            resync: resync.or(spec.resync_every).unwrap_or(RESYNC).max(RESYNC_MIN),
            poll: spec.poll_every.map(|asked| poll.unwrap_or(asked).max(POLL_MIN)),
            during_delay: during_delay.unwrap_or(spec.during_delay),
            reuse_instances: *reuse_instances,
        }
    }

    /// Returns the options of the queue, with the bounds of the limits.
    pub(crate) fn queue_options(&self, limits: &Limits) -> homeostat_workqueue::Options {
        homeostat_workqueue::Options {
            during_delay: match self.during_delay {
                DuringDelay::RunNow => homeostat_workqueue::DuringDelay::RunNow,
                DuringDelay::Hold => homeostat_workqueue::DuringDelay::Hold,
            },
            backoff: homeostat_workqueue::Backoff {
                base: self.backoff.base,
                max: self.backoff.max,
                retries_max: self.backoff.retries_max,
                ..homeostat_workqueue::Backoff::default()
            },
            keys_max: Some(limits.keys_max),
            error_bytes_max: Some(limits.error_bytes_max),
            ..homeostat_workqueue::Options::default()
        }
    }
}
