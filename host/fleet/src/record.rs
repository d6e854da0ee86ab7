//! The record of a lease, as a store has it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The name of one run of one host: `HOST_RANDOM`. A restart changes it.
///
/// Two processes never have the same identity. A copy of a running virtual machine breaks this promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Arc<str>);

/// The number of a term: the store's revision of the write that began it. A later term has a higher epoch,
/// also after the record was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The store's revision of a record. Every write of the record gives it a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The record of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The version of this state.
    pub version: Version,
    /// The holder; `None` after a release. Source: `holderIdentity` of `coordination.k8s.io`.
    pub holder: Option<Identity>,
    /// The epoch of the term that wrote it last.
    pub epoch: Epoch,
    /// The holder stops before this time has passed since it sent its last renewal. Source:
    /// `leaseDurationSeconds`.
    pub length: Duration,
    /// The host that a releasing holder wants to be next. Source: `preferredHolder`.
    pub preferred_holder: Option<Identity>,
    /// Changes of the holder so far. For people; nothing is decided by it. Source: `leaseTransitions`.
    pub transitions: u32,
    /// What the holder tells about itself, of at most [`DESCRIPTION_BYTES_MAX`] bytes. No term depends on it.
    pub description: Option<Arc<str>>,
}

/// Bytes of a description at most. A longer one counts as none.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// The state of a record as a read or a watch showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// There is no record.
    Absent {
        /// The fence, which stays when the record is deleted: the epoch of the last term. `None` when the
        /// store has none, so that it knows of no term.
        fence: Option<Epoch>,
    },
    /// There is one.
    Present(Record),
}

impl Identity {
    /// Takes an identity that is unique to this run of the host.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the name of the host, which a restart keeps.
    pub fn host(&self) -> &str {
        self.0.rsplit_once('_').map_or(&*self.0, |(host, _)| host)
    }

    /// Returns another identity of the same run, for a lease that it holds besides one of the same name.
    pub fn other(&self, number: u64) -> Self {
        Self::new(&format!("{self}.{number}"))
    }

    /// Returns the identity of the run that has this one besides its own; that of any other run is its own.
    pub fn run(&self) -> Self {
        let run = self.0.rsplit_once('_').and_then(|(host, rest)| Some((host, rest.split_once('.')?.0)));
        run.map_or_else(|| self.clone(), |(host, random)| Self::new(&format!("{host}_{random}")))
    }

    /// Returns the text of the identity.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
