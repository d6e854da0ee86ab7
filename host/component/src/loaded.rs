//! A loaded component, with the facts collected when it was loaded.

use std::sync::Arc;

use homeostat_digest::Digest;
use serde::Serialize;

use crate::code::{Code, LinkedCode, ReloadError, ResidentCode};
use crate::engine::Engine;
use crate::grants::Verb;
use crate::link::link;
use crate::spec::ControllerSpec;

/// The parts of a loaded component.
pub(crate) struct LoadedComponent {
    pub(crate) engine: Engine,
    pub(crate) code: Arc<Code>,
    pub(crate) exports: Exports,
    pub(crate) facts: ComponentInfo,
    /// The verbs that it is known to use on the store, derived from its imports.
    pub(crate) verbs: Vec<Verb>,
    pub(crate) spec: ControllerSpec,
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
}

impl LoadedComponent {
    /// Returns the code for one call. The code stays in memory while the result is held.
    pub(crate) fn ready(&self) -> Result<Arc<ResidentCode>, ReloadError> {
        self.code.ready(self.engine.codes())
    }

    pub(crate) fn linked<'a>(&self, ready: &'a ResidentCode) -> Result<&'a LinkedCode, ReloadError> {
        // The same code was linked before, so linking it again cannot fail for another reason.
        ready.linked(|component| link(&self.code.machine, component, self.exports).map_err(|_| ReloadError))
    }
}
