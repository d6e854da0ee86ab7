//! The inputs and outputs of the machine of a lease.

use std::time::Duration;

use crate::record::{Epoch, Identity, Observation, Version};

/// The name of a request, by which its answer is known. Each is higher than those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// A request to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Read the record past every cache.
    Read,
    /// Make this host the holder and begin a term with a new epoch, in one step with the fence.
    Acquire {
        /// The condition on the store.
        expected: AcquireCondition,
        /// The changes of the holder, this one included.
        transitions: u32,
    },
    /// Write the record anew, without another change.
    Renew {
        /// The version that the record must have.
        expected: Version,
        /// The epoch of the term.
        epoch: Epoch,
    },
    /// Write the record without a holder.
    Release {
        /// The version that the record must have.
        expected: Version,
        /// The epoch of the term that ends.
        epoch: Epoch,
        /// The host that shall be next.
        preferred_holder: Option<Identity>,
    },
}

/// The condition of an acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireCondition {
    /// The record has this version.
    Version(Version),
    /// There is no record, and the fence is this one. The fence tells one absence from another: between two
    /// deletions a term may have begun.
    Absent {
        /// The epoch of the fence; `None` for no fence.
        fence: Option<Epoch>,
    },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The write is stored.
    Stored {
        /// The new version of the record.
        version: Version,
        /// The epoch of the term. An acquisition has begun it.
        epoch: Epoch,
    },
    /// The write is not stored, because the record has another version.
    Conflict,
    /// The record that was read.
    Found(Observation),
    /// The request may have been carried out, and may still be.
    Unknown,
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time has passed, as [`Lease::next_tick`](super::Lease::next_tick) asked.
    Tick,
    /// A request was answered.
    Answered {
        /// The request.
        id: RequestId,
        /// The answer.
        answer: Answer,
    },
    /// A watch showed the record.
    Observed(Observation),
    /// The placement says how long after the lease is free this host tries to acquire it; `None` for never.
    Candidacy(Option<Duration>),
    /// The term shall end: the workers finish, and then the lease is released.
    Release {
        /// The host that shall be next.
        preferred_holder: Option<Identity>,
    },
    /// The description of the record has changed: the host renews a term before its time. A request that is on its way may
    /// have the former description.
    Renew,
    /// A store refused a write of this epoch: another term has begun, or the fence is gone.
    Fenced {
        /// The epoch of the write.
        epoch: Epoch,
    },
    /// No worker runs any more, and every write of theirs is answered or has timed out.
    WorkersEnded,
}

/// An output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a request to the store.
    Send {
        /// The name of the request.
        id: RequestId,
        /// The request.
        request: Request,
    },
    /// Raise the fences of the other stores, then start the workers.
    Begin {
        /// The epoch of all their writes.
        epoch: Epoch,
    },
    /// Let the workers finish their keys, take no new ones, and report [`Event::WorkersEnded`].
    Drain,
    /// The lease is lost: abort the workers, and report [`Event::WorkersEnded`].
    Abort,
}
