//! What a controller says of itself.

use std::time::Duration;

use crate::bindings::reconciler::exports::homeostat::reconciler::reconciler as wit;
use crate::kind::{Kind, kind_of};
use crate::time::milliseconds;

/// What a controller is: the kind it manages, what else it wants to hear of, and its defaults.
///
/// ```
/// # use homeostat_sdk::prelude::*;
/// # fn spec<Deployment: Kind, ReplicaSet: Kind, ConfigMap: Kind>() -> Spec {
/// Spec::manages::<Deployment>()
///     .owns::<ReplicaSet>()
///     .watches::<ConfigMap>(Mapping::label("deployment"))
///     .concurrency(8)
/// # }
/// ```
///
/// A manifest may override the numbers. What the controller may *do* is the manifest's alone to say, and what it is told of as well: it
/// must grant `watch` of the managed kind and of every watched one, and for a mapping by label, by field or by the guest also `get` or
/// `list`. Without, the component is refused; `homeostat inspect` prints the lines.
#[derive(Debug, Clone)]
pub struct Spec {
    spec: wit::ControllerSpec,
}

impl Spec {
    /// A controller whose keys are the resources of kind `K`, and which watches nothing else.
    #[must_use]
    pub fn manages<K: Kind>() -> Self {
        Self {
            spec: wit::ControllerSpec {
                manages: declaration::<K>(),
                changes: wit::Changes::All,
                watches: Vec::new(),
                poll_every: None,
                resync_every: None,
                backoff: None,
                concurrency: None,
                during_delay: wit::DuringDelay::RunNow,
            },
        }
    }

    /// The controller creates resources of kind `K` as parts of the managed ones: a change of a part brings its owner's key.
    #[must_use]
    pub fn owns<K: Kind>(self) -> Self {
        self.watch(Watch::of::<K>(Mapping::owner()).secondary())
    }

    /// The controller only reads resources of kind `K`: their changes bring the keys that the mapping says. Its writes of them are
    /// refused, whatever its grants say; for a kind that it writes as well, say [`Watch::secondary`].
    #[must_use]
    pub fn watches<K: Kind>(self, mapping: Mapping) -> Self {
        self.watch(Watch::of::<K>(mapping))
    }

    /// A change of a managed resource brings its key only when more than its `status` has changed: most of all, the controller's own
    /// writes of it wake nobody.
    ///
    /// For a controller that does all it can in one go, and says [`Outcome::again_after`](crate::Outcome::again_after) where there is
    /// more to do. Not for one that moves on by the changes of status that it makes.
    #[must_use]
    pub fn ignore_status(mut self) -> Self {
        self.spec.changes = wit::Changes::ButStatus;
        self
    }

    /// One more watch, said in full. At most 32.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.spec.watches.push(watch.watch);
        self
    }

    /// How often [`Poller::poll`](crate::Poller::poll) is called. At least 100 ms.
    #[must_use]
    pub fn poll_every(mut self, period: Duration) -> Self {
        self.spec.poll_every = Some(milliseconds(period));
        self
    }

    /// How often every key is looked at again, whatever happened. At least one second; 10 hours when not said.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.spec.resync_every = Some(milliseconds(period));
        self
    }

    /// The wait after a failure: `base` after the first, doubled by each in a row, never above `max`. 5 ms and 1000 s when not said.
    #[must_use]
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        let retries_max = self.spec.backoff.as_ref().and_then(|backoff| backoff.retries_max);
        self.spec.backoff = Some(wit::Backoff { base: milliseconds(base), max: milliseconds(max), retries_max });
        self
    }

    /// After this many retries in a row a key is parked. It is tried for ever when not said.
    #[must_use]
    pub fn retries_max(mut self, retries: u32) -> Self {
        let backoff = self.spec.backoff.take().unwrap_or(wit::Backoff { base: 5, max: 1_000_000, retries_max: None });
        self.spec.backoff = Some(wit::Backoff { retries_max: Some(retries), ..backoff });
        self
    }

    /// How many reconciles may run at once, each for another key. 1 to 1024; 4 when not said. No controller gets more than three quarters
    /// of the host's instances (192 of 256, its default).
    #[must_use]
    pub fn concurrency(mut self, reconciles: u32) -> Self {
        self.spec.concurrency = Some(reconciles);
        self
    }

    /// While a key waits, changes do not cut the wait short: neither the delay that its last reconcile asked for, nor its backoff, nor a
    /// delay of a feeder.
    #[must_use]
    pub fn hold_during_delay(mut self) -> Self {
        self.spec.during_delay = wit::DuringDelay::Hold;
        self
    }

    pub(crate) fn into_wit(self) -> wit::ControllerSpec {
        self.spec
    }
}

/// One more kind whose changes matter to the controller.
#[derive(Debug, Clone)]
pub struct Watch {
    watch: wit::Watch,
}

impl Watch {
    /// A watch of kind `K` that the controller only reads (the role `tertiary`): its writes of that kind are refused, whatever its grants
    /// say. It is named by the plural of the kind.
    #[must_use]
    pub fn of<K: Kind>(mapping: Mapping) -> Self {
        let Mapping { mapping } = mapping;
        let name = K::PLURAL.to_owned();
        let (changes, role) = (wit::Changes::All, wit::Role::Tertiary);
        Self { watch: wit::Watch { name, of: declaration::<K>(), mapping, changes, role } }
    }

    /// The same under another name, which must be unique in the controller. At most 63 bytes.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.watch.name);
        self
    }

    /// The same, in which a change counts only when more than the `status` of a resource has changed. Not together with
    /// [`Mapping::field`] on a field of the status.
    #[must_use]
    pub fn ignore_status(mut self) -> Self {
        self.watch.changes = wit::Changes::ButStatus;
        self
    }

    /// The same, of a kind whose resources the controller writes, as far as its grants let it. Watches of one kind have one role.
    #[must_use]
    pub fn secondary(mut self) -> Self {
        self.watch.role = wit::Role::Secondary;
        self
    }
}

/// How a change of a watched resource becomes keys of the managed kind.
///
/// All but [`Mapping::guest`] find a name. A managed kind in namespaces has the resource of that name in the namespace of the changed one;
/// a managed kind outside of namespaces ([`Kind::NAMESPACED`] is `false`) has it there. From a changed resource outside of namespaces to a
/// managed one in a namespace only [`Mapping::guest`] leads, whose keys say in which; with another mapping the component is refused.
#[derive(Debug, Clone)]
pub struct Mapping {
    mapping: wit::Mapping,
}

impl Mapping {
    /// The owners of the changed resource that are of the managed kind.
    #[must_use]
    pub fn owner() -> Self {
        Self { mapping: wit::Mapping::Owner }
    }

    /// The managed resource with the name of the changed one.
    #[must_use]
    pub fn same_name() -> Self {
        Self { mapping: wit::Mapping::SameName }
    }

    /// The managed resource that this label names.
    #[must_use]
    pub fn label(label: &str) -> Self {
        Self { mapping: wit::Mapping::Label(label.to_owned()) }
    }

    /// The managed resources that the string, or the list of strings, at this JSON pointer names.
    #[must_use]
    pub fn field(pointer: &str) -> Self {
        Self { mapping: wit::Mapping::Field(pointer.to_owned()) }
    }

    /// Whatever [`Mapper::map`](crate::Mapper::map) says. Export it: `export!(MyController: mapper)`.
    #[must_use]
    pub fn guest() -> Self {
        Self { mapping: wit::Mapping::Guest }
    }
}

fn declaration<K: Kind>() -> wit::KindDeclaration {
    wit::KindDeclaration {
        kind: kind_of::<K>(),
        plural: K::PLURAL.to_owned(),
        namespaced: K::NAMESPACED,
        keys_only: K::KEYS_ONLY,
        schema: K::schema(),
    }
}
