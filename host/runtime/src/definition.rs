//! What a host needs to know to run a controller.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_component::{BackoffSpec, Component, Disclosure, DuringDelay, Grants, Limits};
use homeostat_store::Key;

use crate::Suspend;

/// One controller: its code, what it may do, and how it is driven.
#[derive(Clone)]
pub struct Definition {
    /// A DNS label. It is the field manager of its writes.
    pub name: String,
    /// Its code, loaded and checked.
    pub component: Component,
    /// What it may do.
    pub grants: Grants,
    /// What one call may use.
    pub limits: Limits,
    /// What it reads through `wasi:config`.
    pub config: BTreeMap<String, String>,
    /// What replaces the component's own defaults.
    pub overrides: Overrides,
    /// Keep the keys, run nothing.
    pub suspend: Suspend,
}

impl Definition {
    /// Returns a definition with default limits that is granted nothing.
    pub fn new(name: &str, component: Component) -> Self {
        Self {
            name: name.to_owned(),
            component,
            grants: Grants::default(),
            limits: Limits::default(),
            config: BTreeMap::new(),
            overrides: Overrides::default(),
            suspend: Suspend::No,
        }
    }

    /// Returns whether its guest may be told of this key. Keys of which nothing is stored tell of nothing.
    pub(crate) fn may_get(&self, key: &Key) -> bool {
        self.component.describe().manages.keys_only || self.grants.discloses(key, Disclosure::Key)
    }

    /// Returns whether the two would run in the same way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { name, component, grants, limits, config, overrides, suspend } = self;
        *name == other.name
            && component.digest() == other.component.digest()
            && *grants == other.grants
            && *limits == other.limits
            && *config == other.config
            && *overrides == other.overrides
            && *suspend == other.suspend
    }
}

/// What a manifest says instead of the component. `None` leaves it as the component asks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overrides {
    /// Reconciles at once, 1 to 1024.
    pub concurrency: Option<u32>,
    /// The wait after failures.
    pub backoff: Option<BackoffSpec>,
    /// How often every key is looked at again.
    pub resync: Option<Duration>,
    /// How often the guest's poller is called.
    pub poll: Option<Duration>,
    /// What an event does while its key waits.
    pub during_delay: Option<DuringDelay>,
}
