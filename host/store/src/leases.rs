//! The leases of a store that several hosts share, for a host that does not know the protocol of its server.
//!
//! Deliberately absent: times and decisions, which are those of [`homeostat_fleet::Lease`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_fleet::{Answer, Epoch, Identity, LeaseName, Observation, Request};

use crate::{Fence, Result};

/// A term of a lease that lives in another store than the one that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherTerm {
    /// The lease.
    pub lease: LeaseName,
    /// The host that holds it.
    pub holder: Identity,
    /// The id of the content of the store of the lease. Terms in other content are neither earlier nor later.
    pub content: String,
    /// The number of the term there.
    pub epoch: Epoch,
}

/// The leases of controllers in one store.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Returns the requests of one lease for a host. `length` is that of the lease, rounded up to whole seconds.
    /// Asks nothing.
    ///
    /// # Errors
    /// `Invalid` for a name that the store cannot have.
    fn lease(&self, name: &LeaseName, identity: &Identity, length: Duration) -> Result<Arc<dyn LeaseRequests>>;

    /// Makes this store refuse the writes of all earlier terms of a lease that lives in another store. Returns the fence
    /// of the writes of this term; `None` where the server checks no fences. Can be repeated.
    ///
    /// # Errors
    /// `Fenced` when a later term was here before, `Unavailable`, `Closed`, `Invalid` for a name that the store cannot
    /// have. Cancel safe: a dropped request may still arrive, and is refused after that of a later term.
    async fn raise_fence(&self, term: &OtherTerm) -> Result<Option<Fence>>;

    /// Opens a stream of the records of all leases, and of their changes. Its list comes first.
    ///
    /// # Errors
    /// `Unavailable`, `Closed`. Cancel safe.
    async fn watch_leases(&self) -> Result<Box<dyn LeaseWatch>>;
}

/// The requests of one lease, for one host.
#[async_trait]
pub trait LeaseRequests: Send + Sync + 'static {
    /// Returns the fence of all writes of a term; `None` where the server checks no fences.
    fn fence(&self, epoch: Epoch) -> Option<Fence>;

    /// Has each later write of the holder carry this description of it. A text above
    /// [`DESCRIPTION_BYTES_MAX`](homeostat_fleet::DESCRIPTION_BYTES_MAX) bytes is left out.
    fn describe(&self, description: &str);

    /// Carries out a request of the machine once, and returns the answer. Ends within the caller's timeout, or is
    /// dropped then.
    ///
    /// # Errors
    /// The reason why the answer is [`Answer::Unknown`]: the server is away, refuses the request, or the record has
    /// a form that this host does not know. Cancel safe: a dropped request counts as [`Answer::Unknown`].
    async fn carry_out(&self, request: &Request) -> Result<Answer>;
}

/// A stream of the records of all leases of a store.
#[async_trait]
pub trait LeaseWatch: Send {
    /// Waits for the next state of a record. It may be older than one that was read.
    ///
    /// # Errors
    /// The stream has ended; the caller opens another one. Cancel safe.
    async fn next(&mut self) -> Result<(LeaseName, Observation)>;
}
