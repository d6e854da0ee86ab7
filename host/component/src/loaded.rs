//! A component in memory, with everything that was found out when it was loaded.

use std::sync::Arc;

use homeostat_digest::Digest;
use serde::Serialize;

use crate::code::{Code, LinkedCode, ReloadError, ResidentCode};
use crate::engine::Engine;
use crate::grants::Verb;
use crate::link::link;
use crate::spec::ControllerSpec;

/// What a component is made of.
pub(crate) struct LoadedComponent {
    pub(crate) engine: Engine,
    pub(crate) code: Arc<Code>,
    pub(crate) exports: Exports,
    pub(crate) facts: ComponentInfo,
    /// What it is known to ask the store for, by its imports.
    pub(crate) verbs: Vec<Verb>,
    pub(crate) spec: ControllerSpec,
}

/// What can be told of a component without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentInfo {
    /// The name of the component by its content.
    pub digest: Digest,
    /// The length of the component as it was handed in.
    pub size_bytes: u64,
    /// The names of all interfaces that the component imports, with their versions, sorted.
    pub imports: Vec<String>,
    /// The names of everything that the component exports, with their versions, sorted.
    pub exports: Vec<String>,
    /// Whether its instances come out of the pool. False for components that are too large for its slots: they start more slowly.
    pub pooled: bool,
    /// Which bound of the pool it exceeds, where it does.
    pub unpooled: Option<String>,
}

/// Which of the optional exports a component has.
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
    /// Returns the code for one call. It does not rest before the answer is dropped.
    pub(crate) fn ready(&self) -> Result<Arc<ResidentCode>, ReloadError> {
        self.code.ready(self.engine.codes())
    }

    pub(crate) fn linked<'a>(&self, ready: &'a ResidentCode) -> Result<&'a LinkedCode, ReloadError> {
        // What could be linked once can be again.
        ready.linked(|component| link(&self.code.machine, component, self.exports).map_err(|_| ReloadError))
    }
}
