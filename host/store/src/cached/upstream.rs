//! A server with resources, as a [`CachedStore`](super::CachedStore) uses it: requests and streams of
//! changes.
//!
//! Each far store implements [`Upstream`] for its protocol. The cache, own writes, the availability of the
//! server and everything else that far stores have in common are in front of it.
//!
//! Deliberately absent: caches. Each read of an [`Upstream`] is a request, except where a method says
//! otherwise.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::scale::{self, ScaleRequest};
use crate::schema::Schemas;
use crate::status::RequestCounts;
use crate::{Key, Kind, LeaseStore, Page, Query, Request, Resource, Result, Revision, View, WriteResponse};

/// A server with resources.
///
/// Every request ends by a deadline of its own, with `Unavailable`. Every method may fail with `Unavailable`
/// (the server cannot be reached, refuses the credentials, or asks to come back later), `Forbidden` (the server
/// refuses the request) and `Closed` (after [`Upstream::close`]). Revisions of one kind can be
/// compared with one another, and with nothing else.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
    /// Returns the name of the store, for logs and messages; empty for a store that stands alone.
    fn name(&self) -> &str;

    /// Returns the kind of server: `nats` or `kubernetes`.
    fn storage(&self) -> &'static str;

    /// Returns whether the server deletes the dependents of deleted owners by itself.
    fn collects_garbage(&self) -> bool {
        false
    }

    /// Returns the schemas by which [`Upstream::submit`] validates; `None` where the server does that.
    fn schemas(&self) -> Option<&Schemas> {
        None
    }

    /// Returns whether the server validates and merges the documents.
    fn server_validates(&self) -> bool {
        self.schemas().is_none()
    }

    /// Returns the name under which the server knows a field manager.
    fn manager(&self, manager: &str) -> String {
        manager.to_owned()
    }

    /// Contacts the server, checks its version and its settings, and returns whose content it has. Called
    /// before the first request, and again each time the server had been away.
    ///
    /// # Errors
    /// `Unavailable` also for a version or a setting with which the store would lose data, with the reason.
    /// Cancel safe.
    async fn connect(&self) -> Result<Incarnation>;

    /// Makes the cheapest request that proves that the server answers.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn ping(&self) -> Result<()>;

    /// Opens a stream of the resources of one kind and their changes. `view` is how much of each resource the
    /// stream has to have; it may have more.
    ///
    /// # Errors
    /// `Expired` when the server does not have the content or the changes of `start` any more, also because
    /// its content was replaced; `FutureRevision` when it has not reached the revision; `Unsupported` for a
    /// kind that the server cannot stream. Cancel safe.
    async fn open(&self, kind: &Kind, view: View, start: Start) -> Result<Box<dyn DeltaStream>>;

    /// Reads one resource: its newest state, as [`Store::get_live`](crate::Store::get_live).
    ///
    /// # Errors
    /// `NotFound`. Cancel safe.
    async fn get(&self, key: &Key) -> Result<Arc<Resource>>;

    /// Lists resources of one kind: the newest state, as [`Store::list`](crate::Store::list). The server may
    /// ignore a limit and [`Query::at`], and send more of each resource than [`Query::view`]. Continue tokens are those of the implementation.
    ///
    /// # Errors
    /// As [`Store::list`](crate::Store::list). Cancel safe.
    async fn list(&self, query: &Query) -> Result<Page>;

    /// Returns a revision of the kind, at or after each change that the server acknowledged before the call.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn revision(&self, kind: &Kind) -> Result<Revision>;

    /// Makes one change, as [`Store::submit`](crate::Store::submit). `cached` is a state of the resource that
    /// may be old: a change that is decided on it has to be conditional on its revision.
    ///
    /// # Errors
    /// As [`Store::submit`](crate::Store::submit). `Unavailable` means that the change may have happened, and
    /// may still happen.
    async fn submit(&self, request: Request, cached: CachedState) -> Result<UpstreamResponse>;

    /// Reads the number of replicas of a resource, as [`Store::scale`](crate::Store::scale).
    ///
    /// # Errors
    /// As [`Store::scale`](crate::Store::scale). Cancel safe.
    async fn scale(&self, key: &Key) -> Result<Value> {
        Err(scale::unsupported(key))
    }

    /// Sets the number of replicas of a resource, as [`Store::update_scale`](crate::Store::update_scale).
    ///
    /// # Errors
    /// As [`Upstream::submit`].
    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        Err(scale::unsupported(&request.key))
    }

    /// Returns the kinds that may have resources; none where the server cannot tell.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn kinds(&self) -> Result<Vec<Kind>> {
        Ok(Vec::new())
    }

    /// Returns the kinds that the server defines by itself, and their changes, as
    /// [`Store::catalog`](crate::Store::catalog).
    fn catalog(&self) -> Option<watch::Receiver<Arc<Catalog>>> {
        None
    }

    /// Asks the server for a revision that its content has reached; `None` if its revisions have no one order, or if it
    /// does not tell.
    ///
    /// # Errors
    /// `Unavailable`, `Closed`. Cancel safe.
    async fn reached(&self) -> Result<Option<Revision>> {
        Ok(None)
    }

    /// Returns the leases of controllers in this store, as [`Store::leases`](crate::Store::leases).
    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        None
    }

    /// Returns the reason, for a person, why the server refuses all writes although it answers; `None` when
    /// it accepts them. Known from earlier answers, asks nothing.
    fn refuses_writes(&self) -> Option<String> {
        None
    }

    /// Returns what the last contact found that a person should know although the store works. Asks nothing.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the numbers of requests since the start. `skipped` has the writes that [`Upstream::submit`]
    /// did not send.
    fn counts(&self) -> RequestCounts;

    /// Ends the connections. Requests and streams fail with `Closed` afterwards. Does nothing the second
    /// time.
    async fn close(&self);
}

/// Which content a server has. Revisions of different incarnations cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Incarnation {
    /// The id of the content; it differs once the server was emptied and filled anew. `None` when the server
    /// does not tell.
    pub id: Option<String>,
    /// A revision that the content has reached, if its revisions have one order for all kinds and the server tells.
    pub at: Option<Revision>,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With a full list, then the changes after it.
    Now {
        /// The list shows this revision or a later one. `None`: the newest state at the time of the call.
        not_before: Option<Revision>,
    },
    /// With a full list of exactly this revision, then the changes after it.
    Exactly(Revision),
    /// With the changes after this revision. No list.
    After(Revision),
}

/// A stream of the resources of one kind and their changes.
#[async_trait]
pub trait DeltaStream: Send {
    /// Waits for the next delta.
    ///
    /// A stream with a list begins with [`Delta::Listed`] for each resource and [`Delta::ListEnd`].
    /// Afterwards, and in a stream without a list from the beginning, changes follow in the order of their
    /// revisions. The stream notices a silent server by itself.
    ///
    /// # Errors
    /// The stream ends with its first error. After `Expired` the changes since the last delta are lost, and
    /// the caller needs a new list; after any other error it can go on with [`Start::After`]. Cancel safe.
    async fn next(&mut self) -> Result<Delta>;
}

/// A piece of a [`DeltaStream`].
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// A resource of the full list. The same resource may come twice: the later one counts.
    Listed(Arc<Resource>),
    /// The full list has ended: a resource that was not listed does not exist.
    ListEnd {
        /// The revision that the list shows. All listed resources have this revision or an earlier one. It is
        /// at or above everything that earlier streams of the kind delivered, [`Delta::Bookmark`] included:
        /// the cache refuses a lower one, as the list of a server that lags.
        at: Revision,
    },
    /// A resource was created or changed; its revision is that of the change. Before the end of a full list,
    /// the same as [`Delta::Listed`].
    Put(Arc<Resource>),
    /// A resource was deleted. Before the end of a full list, the resource does not belong to the list any
    /// more.
    Deleted {
        /// The resource.
        key: Key,
        /// Its last state, as far as the server tells.
        last: LastState,
        /// The revision of the deletion.
        at: Revision,
    },
    /// A resource has a document that this host cannot read. It belongs to no list, and is no deletion either.
    Unreadable {
        /// The resource.
        key: Key,
        /// Why its document cannot be read, for a person.
        reason: String,
        /// The revision of the document.
        at: Revision,
    },
    /// All changes up to this revision were delivered, and nothing else has happened to the kind.
    Bookmark(Revision),
}

/// The last state of a deleted resource, as the server tells it.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum LastState {
    /// Nothing.
    #[default]
    Unknown,
    /// Its metadata alone, at its last revision before the deletion. A stream that may leave out a change which was
    /// overwritten tells this, so that no watch misses a resource whose only delta is its deletion.
    Metadata(Arc<Resource>),
    /// The whole resource, at the revision of the deletion.
    Whole(Arc<Resource>),
}

/// The state of a write's resource, as a cache knows it. The newest state may be another one.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum CachedState {
    /// Nothing: the kind or the resource is not in a cache.
    #[default]
    Unknown,
    /// The state of the resource at a revision.
    Known {
        /// The resource; `None` when there was none.
        resource: Option<Arc<Resource>>,
        /// The revision of its kind at which this was so.
        at: Revision,
    },
}

/// The result of a write at a server.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamResponse {
    /// The response.
    pub response: WriteResponse,
    /// The revision of the change, or of the unchanged resource. `None` after a deletion whose revision the
    /// server did not tell.
    pub at: Option<Revision>,
}
