//! A loaded component, with the facts collected when it was loaded.

use std::fmt;
use std::sync::Arc;

use homeostat_digest::Digest;
use serde::Serialize;

use crate::engine::Engine;
use crate::grants::{Grants, Verb};
use crate::missing;
use crate::outcome::Cost;
use crate::spec::ControllerSpec;
use crate::tier::Tier;
use crate::tiered_code::TieredCode;
use crate::warm_instances::WarmInstances;

/// A compiled component whose imports, exports and description were checked. Cheap to clone.
///
/// Every call runs in a fresh instance, without state from earlier calls, unless its caller keeps instances
/// ([`Component::reconcile_with`]); calls may run concurrently. A call waits while the engine runs its maximum of guests. The deadline starts after that wait.
///
/// The second field has the description with the kinds that a manifest assigned; `None` if it assigned none.
#[derive(Clone)]
pub struct Component(pub(crate) Arc<LoadedComponent>, pub(crate) Option<Arc<ControllerSpec>>);

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Component").field(&self.digest().as_str()).finish()
    }
}

impl Component {
    /// Returns the digest of the component.
    pub fn digest(&self) -> &Digest {
        &self.0.facts.digest
    }

    /// Returns the size of the component in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.facts.size_bytes
    }

    /// Returns the optional exports that it has.
    pub fn exports(&self) -> Exports {
        self.0.exports
    }

    /// Returns the names of the imported interfaces, sorted.
    pub fn imports(&self) -> &[String] {
        &self.0.facts.imports
    }

    /// Returns the facts that are known without running it.
    pub fn info(&self) -> &ComponentInfo {
        &self.0.facts
    }

    /// Returns the quality of the code that the next call runs.
    pub fn tier(&self) -> Tier {
        self.0.code.tier()
    }

    /// Returns why the component keeps its baseline code; `None` if it does not, or if optimised code will
    /// replace it.
    pub fn optimisation_error(&self) -> Option<&str> {
        self.0.code.failed()
    }

    /// Returns the description that the component returned when it was loaded, with the kinds that a manifest
    /// assigned.
    pub fn describe(&self) -> &ControllerSpec {
        self.1.as_deref().unwrap_or(&self.0.spec)
    }

    /// Creates the instances that one version of a controller keeps between its calls: none yet.
    pub fn warm_instances(&self) -> WarmInstances {
        WarmInstances::new(self.0.engine.warm())
    }

    /// Returns the cost of the description. Its memory is that of a call that does nothing: the memory of a new instance,
    /// and the growth by the runtime of the guest's language.
    pub fn describe_cost(&self) -> &Cost {
        &self.0.describe_cost
    }

    /// Describes the verbs that the component uses and no line of `grants` covers, with the lines that would
    /// grant them. Returns `None` if none is missing. Every call with these verbs will be denied.
    pub fn missing_grants(&self, grants: &Grants) -> Option<String> {
        missing::missing(&self.0.verbs, grants, &self.describe().manages.kind)
    }
}

/// The parts of a loaded component.
pub(crate) struct LoadedComponent {
    pub(crate) engine: Engine,
    pub(crate) code: Arc<TieredCode>,
    pub(crate) exports: Exports,
    pub(crate) facts: ComponentInfo,
    /// The verbs that it is known to use on the store, derived from its imports.
    pub(crate) verbs: Vec<Verb>,
    pub(crate) spec: ControllerSpec,
    pub(crate) describe_cost: Cost,
}

/// Facts about a component that are known without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentInfo {
    /// The digest of the component.
    pub digest: Digest,
    /// The size of the component as it was loaded.
    pub size_bytes: u64,
    /// The names of all imported interfaces with their versions, sorted.
    pub imports: Vec<String>,
    /// The names of all exports with their versions, sorted.
    pub exports: Vec<String>,
    /// Whether its instances come from the pool. False for components that exceed its slots; these start more
    /// slowly.
    pub pooled: bool,
    /// The bound of the pool that it exceeds, if any.
    pub unpooled: Option<String>,
}

/// The optional exports of a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exports {
    /// `mapper.map` can be called.
    pub mapper: bool,
    /// `poller.poll` can be called.
    pub poller: bool,
    /// `lifecycle.start` and `lifecycle.stop` can be called.
    pub lifecycle: bool,
    /// `converter.convert` can be called.
    pub converter: bool,
}

#[cfg(test)]
mod tests;
