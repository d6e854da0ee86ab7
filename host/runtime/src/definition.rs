//! The definition of a controller, as the host needs it.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_component::{BackoffSpec, Component, Disclosure, DuringDelay, Grants, Limits};
use homeostat_store::{Key, Kind};

use crate::feeder_definition::FeederDefinition;
use crate::{Error, PlacementSpec, Suspend};

/// One controller: its code, its grants and limits, and its settings.
#[derive(Clone)]
pub struct Definition {
    /// A DNS label; the field manager of the controller's writes.
    pub name: String,
    /// The code, loaded and checked.
    pub component: Component,
    /// The permissions of the guest.
    pub grants: Grants,
    /// The limits of one call.
    pub limits: Limits,
    /// The configuration that the guest reads through `wasi:config`. The component must have described itself with it:
    /// see [`Component::described_with`].
    pub config: BTreeMap<String, String>,
    /// Settings that replace the component's own defaults.
    pub overrides: Overrides,
    /// Keep the keys but run none.
    pub suspend: Suspend,
    /// On which of several hosts it runs.
    pub placement: PlacementSpec,
    /// Sources of keys beside the watches.
    pub feeders: Vec<FeederDefinition>,
    /// Kinds that the manifest names and does not declare. Other declarations must keep them.
    pub required_kinds: Vec<Kind>,
}

impl Definition {
    /// Returns a definition with default limits and no grants.
    pub fn new(name: &str, component: Component) -> Self {
        Self {
            name: name.to_owned(),
            component,
            grants: Grants::default(),
            limits: Limits::default(),
            config: BTreeMap::new(),
            overrides: Overrides::default(),
            suspend: Suspend::No,
            placement: PlacementSpec::default(),
            feeders: Vec::new(),
            required_kinds: Vec::new(),
        }
    }

    /// Checks that this definition can replace one that runs, as far as the placement goes.
    ///
    /// # Errors
    /// [`Error::PlacementChanged`].
    pub(crate) fn keeps_placement(&self, running: &Self) -> Result<(), Error> {
        if running.placement == self.placement { Ok(()) } else { Err(Error::PlacementChanged(self.name.clone())) }
    }

    /// Returns whether the guest may receive this key. Keys of kinds without stored resources reveal nothing.
    pub(crate) fn may_get(&self, key: &Key) -> bool {
        self.component.describe().manages.keys_only || self.grants.discloses(key, Disclosure::Key)
    }

    /// Returns whether both definitions would run in the same way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { name, component, grants, limits, config, overrides, suspend, placement, feeders, required_kinds } =
            self;
        *name == other.name
            && component.digest() == other.component.digest()
            && component.describe() == other.component.describe()
            && *required_kinds == other.required_kinds
            && *grants == other.grants
            && *limits == other.limits
            && *config == other.config
            && *overrides == other.overrides
            && *suspend == other.suspend
            && *placement == other.placement
            && *feeders == other.feeders
    }
}

/// Settings of the manifest that replace those of the component. `None` keeps the component's.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overrides {
    /// Reconciles at once, 1 to 1024.
    pub concurrency: Option<u32>,
    /// The wait after failures.
    pub backoff: Option<BackoffSpec>,
    /// The period in which every key is requeued.
    pub resync: Option<Duration>,
    /// The period of the guest's poller.
    pub poll: Option<Duration>,
    /// The effect of an event on a key that is waiting.
    pub during_delay: Option<DuringDelay>,
    /// Whether an instance serves further calls after one that succeeded. No component asks for it.
    pub reuse_instances: bool,
}
