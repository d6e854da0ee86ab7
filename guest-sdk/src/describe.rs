//! The description of a controller.

use std::time::Duration;

use crate::bindings::reconciler::exports::homeostat::reconciler::reconciler as wit;
use crate::kind::{Kind, kind_of, split_api_version};
use crate::time::milliseconds;

/// The description of a controller: the kind it manages, the kinds it watches, and its defaults.
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
/// A manifest may override the numbers. The grants come from the manifest alone. It must grant `watch` for
/// the managed kind and for every watched one; a mapping by label, by annotation, by field or by the guest also
/// needs `get` or `list`. Otherwise the component is refused, and `homeostat inspect` prints the missing lines.
#[derive(Debug, Clone)]
pub struct Spec {
    spec: wit::ControllerSpec,
}

impl Spec {
    /// Describes a controller whose keys are the resources of kind `K`, without further watches.
    #[must_use]
    pub fn manages<K: Kind>() -> Self {
        Self::new(declaration::<K>())
    }

    /// Describes a controller whose keys are the resources of a kind that is known at run time only, without further
    /// watches. The settings of the controller can name the kind: `describe` may read them, by [`config`](crate::config).
    #[must_use]
    pub fn manages_dynamic(kind: DynamicKind) -> Self {
        Self::new(kind.declaration)
    }

    fn new(manages: wit::KindDeclaration) -> Self {
        Self {
            spec: wit::ControllerSpec {
                manages,
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

    /// Declares that the controller creates resources of kind `K` as parts of the managed ones. A change of a
    /// part queues its owner's key.
    #[must_use]
    pub fn owns<K: Kind>(self) -> Self {
        self.watch(Watch::of::<K>(Mapping::owner()).secondary())
    }

    /// Declares that the controller only reads resources of kind `K`; their changes queue the keys that the
    /// mapping gives. The host refuses its writes to them regardless of its grants. For a kind that it also
    /// writes, use [`Watch::secondary`].
    #[must_use]
    pub fn watches<K: Kind>(self, mapping: Mapping) -> Self {
        self.watch(Watch::of::<K>(mapping))
    }

    /// Ignores changes of `status` alone in managed resources. Most importantly, the controller's own status
    /// writes do not requeue their keys.
    ///
    /// For a controller that does everything possible in one run, and returns
    /// [`Outcome::again_after`](crate::Outcome::again_after) when there is more to do. Not for a controller
    /// that proceeds in steps driven by its own status changes.
    #[must_use]
    pub fn ignore_status(mut self) -> Self {
        self.spec.changes = wit::Changes::ButStatus;
        self
    }

    /// Adds a watch with all its settings. At most 32.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.spec.watches.push(watch.watch);
        self
    }

    /// Sets the period of [`Poller::poll`](crate::Poller::poll). At least 100 ms.
    #[must_use]
    pub fn poll_every(mut self, period: Duration) -> Self {
        self.spec.poll_every = Some(milliseconds(period));
        self
    }

    /// Sets the period of the resync, which reconciles every key again. At least one second; default 10
    /// hours.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.spec.resync_every = Some(milliseconds(period));
        self
    }

    /// Sets the delay after a failure: `base` after the first, doubled with each failure in a row, never
    /// above `max`. Defaults: 5 ms and 1000 s.
    #[must_use]
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        let retries_max = self.spec.backoff.as_ref().and_then(|backoff| backoff.retries_max);
        self.spec.backoff = Some(wit::Backoff { base: milliseconds(base), max: milliseconds(max), retries_max });
        self
    }

    /// Parks a key after this many retries in a row. Default: unlimited retries.
    #[must_use]
    pub fn retries_max(mut self, retries: u32) -> Self {
        let backoff = self.spec.backoff.take().unwrap_or(wit::Backoff { base: 5, max: 1_000_000, retries_max: None });
        self.spec.backoff = Some(wit::Backoff { retries_max: Some(retries), ..backoff });
        self
    }

    /// Sets the maximum number of concurrent reconciles, each for another key. 1 to 1024; default 4. No
    /// controller gets more than three quarters of the host's instances (192 of 256 by default).
    #[must_use]
    pub fn concurrency(mut self, reconciles: u32) -> Self {
        self.spec.concurrency = Some(reconciles);
        self
    }

    /// Lets no change cut a delay short, whether the last reconcile, the backoff or a feeder asked for the
    /// delay.
    #[must_use]
    pub fn hold_during_delay(mut self) -> Self {
        self.spec.during_delay = wit::DuringDelay::Hold;
        self
    }

    pub(crate) fn into_wit(self) -> wit::ControllerSpec {
        self.spec
    }
}

/// A further kind whose changes the controller reacts to.
#[derive(Debug, Clone)]
pub struct Watch {
    watch: wit::Watch,
}

impl Watch {
    /// Watches kind `K`, which the controller only reads (the role `tertiary`): the host refuses its writes
    /// to that kind regardless of its grants. The name of the watch is the plural of the kind.
    #[must_use]
    pub fn of<K: Kind>(mapping: Mapping) -> Self {
        Self::new(declaration::<K>(), mapping)
    }

    /// Watches a kind that is known at run time only, as [`Watch::of`].
    #[must_use]
    pub fn of_dynamic(kind: DynamicKind, mapping: Mapping) -> Self {
        Self::new(kind.declaration, mapping)
    }

    fn new(of: wit::KindDeclaration, Mapping { mapping }: Mapping) -> Self {
        let (name, changes, role) = (of.plural.clone(), wit::Changes::All, wit::Role::Tertiary);
        Self { watch: wit::Watch { name, of, mapping, changes, role } }
    }

    /// Sets another name, which must be unique in the controller. At most 63 bytes.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.watch.name);
        self
    }

    /// Ignores changes of `status` alone. Cannot be combined with [`Mapping::field`] on a field of the
    /// status.
    #[must_use]
    pub fn ignore_status(mut self) -> Self {
        self.watch.changes = wit::Changes::ButStatus;
        self
    }

    /// Declares that the controller also writes resources of this kind, as far as its grants allow it. All
    /// watches of one kind have the same role.
    #[must_use]
    pub fn secondary(mut self) -> Self {
        self.watch.role = wit::Role::Secondary;
        self
    }
}

/// A kind that is known at run time only, as one that the settings of the controller name. Its documents are read and
/// written by [`raw::store`](crate::raw::store).
///
/// ```no_run
/// # use homeostat_sdk::prelude::*;
/// # fn spec() -> Result<Spec, config::Error> {
/// let (kind, plural) = (config::require("kind")?, config::require("plural")?);
/// Ok(Spec::manages_dynamic(DynamicKind::new("demo.homeostat.dev/v1", &kind, &plural)))
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DynamicKind {
    declaration: wit::KindDeclaration,
}

impl DynamicKind {
    /// Names a kind whose resources live in namespaces: `DynamicKind::new("apps/v1", "Deployment", "deployments")`.
    /// The host refuses invalid names.
    #[must_use]
    pub fn new(api_version: &str, name: &str, plural: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        let kind = wit::Kind { group: group.to_owned(), version: version.to_owned(), name: name.to_owned() };
        let plural = plural.to_owned();
        Self { declaration: wit::KindDeclaration { kind, plural, namespaced: true, keys_only: false, schema: None } }
    }

    /// Says that resources of the kind live outside of namespaces.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.declaration.namespaced = false;
        self
    }

    /// Gives the kind a structural schema of its documents (OpenAPI v3), as text.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.declaration.schema = Some(schema.to_owned());
        self
    }
}

/// How a change of a watched resource maps to keys of the managed kind.
///
/// A mapping by owner, by the same name or by a label produces a name. If the managed kind is namespaced, the key
/// has the namespace of the changed resource. If it is cluster-scoped ([`Kind::NAMESPACED`] is `false`), the key
/// has none. These mappings cannot lead from a cluster-scoped resource to a namespaced one: for such a pair, the
/// component is refused.
///
/// [`Mapping::annotation`] and [`Mapping::field`] produce references: `name`, `namespace/name`, or a JSON object
/// with `name` and optionally `namespace`, `kind`, `apiVersion`, `group` or `apiGroup`. A reference without a
/// namespace is a name as above. A reference to another kind yields no key. A reference that no managed resource
/// can have is dropped, and counted in an event.
#[derive(Debug, Clone)]
pub struct Mapping {
    mapping: wit::Mapping,
}

impl Mapping {
    /// Maps to the owners of the changed resource that are of the managed kind.
    #[must_use]
    pub fn owner() -> Self {
        Self { mapping: wit::Mapping::Owner }
    }

    /// Maps to the managed resource with the name of the changed one.
    #[must_use]
    pub fn same_name() -> Self {
        Self { mapping: wit::Mapping::SameName }
    }

    /// Maps to the managed resource that this label names.
    #[must_use]
    pub fn label(label: &str) -> Self {
        Self { mapping: wit::Mapping::Label(label.to_owned()) }
    }

    /// Maps to the managed resource that the reference in this annotation means, or to those of a JSON list of
    /// references. A value that begins with `[` or `{` is JSON.
    #[must_use]
    pub fn annotation(annotation: &str) -> Self {
        Self { mapping: wit::Mapping::Annotation(annotation.to_owned()) }
    }

    /// Maps to the managed resources that the reference, or the list of references, at this JSON pointer means.
    #[must_use]
    pub fn field(pointer: &str) -> Self {
        Self { mapping: wit::Mapping::Field(pointer.to_owned()) }
    }

    /// Maps to the keys that [`Mapper::map`](crate::Mapper::map) returns. Export it: `export!(MyController:
    /// mapper)`.
    #[must_use]
    pub fn guest() -> Self {
        Self { mapping: wit::Mapping::Guest }
    }
}

pub(crate) fn declaration<K: Kind>() -> wit::KindDeclaration {
    wit::KindDeclaration {
        kind: kind_of::<K>(),
        plural: K::PLURAL.to_owned(),
        namespaced: K::NAMESPACED,
        keys_only: K::KEYS_ONLY,
        schema: K::schema(),
    }
}
