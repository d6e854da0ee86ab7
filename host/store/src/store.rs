//! The `Store` trait, its options, and the types of a list.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::scale::{self, ScaleRequest};
use crate::schema::Schemas;
use crate::status::not_replaced;
use crate::{
    ClockAndIds, EventSink, Key, Kind, LeaseStore, Request, Resource, Result, Revision, Scope, Selector, StoreStatus,
    Subscription, SystemClockAndIds, View, Watch, Write, WriteResponse,
};

/// A query for the resources of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// The kind; its version is ignored.
    pub kind: Kind,
    /// The conditions on the resources.
    #[serde(default)]
    pub selector: Selector,
    /// Items per page at most, from 1; `None` for all items in one page. A page may hold fewer items and
    /// still have a [`Page::next`]: it ends when its documents reach
    /// [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The [`Page::next`] of the page before, or what [`continue_in_present`](crate::continue_in_present) makes of one that has
    /// expired; use it with the same kind and selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Asks the server of a store that is far away, past every cache of this host. A continue token goes on
    /// with the list that it comes from, and ignores this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The revision that the list shows; `None` for the present. A store that cannot tell shows the present, as
    /// [`Page::revision`] says. [`Query::from`] has a revision of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Revision>,
    /// Asks for [`Page::remaining`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    /// The part of each resource that the caller needs, as for [`Store::get_view`].
    #[serde(default, skip_serializing_if = "is_whole")]
    pub view: View,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_whole(view: &View) -> bool {
    *view == View::Whole
}

impl Query {
    /// Queries all resources of a kind.
    pub fn all(kind: Kind) -> Self {
        Self {
            kind,
            selector: Selector::default(),
            limit: None,
            from: None,
            live: false,
            at: None,
            count: false,
            view: View::Whole,
        }
    }
}

/// One page of the result of a [`Query`].
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Ordered by namespace, then name.
    pub items: Vec<Arc<Resource>>,
    /// The revision of the store that the list shows: the same for all pages of one list, unless its caller went on in the
    /// present. A watch from this revision misses no change.
    pub revision: Revision,
    /// The continue token for [`Query::from`]; `None` on the last page.
    pub next: Option<String>,
    /// The number of resources on the following pages. `None` without [`Query::count`], for a query with conditions
    /// on the resources, on the last page, and where the store does not know it.
    pub remaining: Option<u64>,
}

/// The options of a store.
///
/// History is compacted at whichever bound is reached first: in small pieces beside the writes, and also
/// while the store is idle. A watch or a list that still needed the removed part fails with `Expired`.
#[derive(Clone)]
pub struct Options {
    /// Changes kept for watches and for the later pages of a list: 1 or more, default 100 000. The store may
    /// keep a few hundred more for a while.
    pub history_max: u64,
    /// Retention time of a change, measured by `clock`: above zero, default one hour, so that a client that
    /// was away for some minutes can resume. A store in a file may keep a change for a minute longer.
    pub history_age_max: Duration,
    /// Total size of the kept changes, in bytes of the documents before and after each change: default 64
    /// MiB. A store in a file counts the document before only by its difference. The last change is kept
    /// whatever its size. Opening a store reads the whole file, so this bounds the opening time of a store
    /// with few resources.
    pub history_bytes_max: u64,
    /// Length of the write-ahead log of a new file, in bytes: default 16 MiB, rounded up to whole pages, at
    /// most 1 GiB. With a longer log, more changes share one checkpoint, and opening after a crash takes
    /// longer. Zero for none: then every change goes to the pages at once, and the file is a plain redb file.
    pub wal_bytes: u64,
    /// Source of time, uids and random name suffixes.
    pub clock: Arc<dyn ClockAndIds>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history_max: 100_000,
            history_age_max: Duration::from_secs(60 * 60),
            history_bytes_max: 64 << 20,
            wal_bytes: 16 << 20,
            clock: Arc::new(SystemClockAndIds),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { history_max, history_age_max, history_bytes_max, wal_bytes: journal_bytes, clock: _ } = self;
        f.debug_struct("Options")
            .field("history_max", history_max)
            .field("history_age_max", history_age_max)
            .field("history_bytes_max", history_bytes_max)
            .field("wal_bytes", journal_bytes)
            .finish_non_exhaustive()
    }
}

/// A store of resources, in this process or far away.
///
/// A write is seen by every read of the same host that starts after the write was acknowledged, and what a read
/// has seen no later read of the host takes back. A store in this process is strictly serialisable.
///
/// Every method may fail with `Unavailable` (try again later) and `Closed`.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads one resource. The version of the key is ignored: the document has the version in which it was
    /// stored.
    ///
    /// # Errors
    /// `NotFound`. Cancel safe.
    async fn get(&self, key: &Key) -> Result<Arc<Resource>>;

    /// Reads a part of one resource. The answer has that part, and may have more. Where a cache keeps metadata alone, a
    /// read of the whole resource asks the server.
    ///
    /// # Errors
    /// As [`Store::get`].
    async fn get_view(&self, key: &Key, _view: View) -> Result<Arc<Resource>> {
        self.get(key).await
    }

    /// Reads one resource as [`Store::get`] does, past every cache of this host.
    ///
    /// # Errors
    /// As [`Store::get`].
    async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        self.get(key).await
    }

    /// Lists resources of one kind. All pages of one list show the same revision, unless the caller goes on in the present
    /// ([`continue_in_present`](crate::continue_in_present)).
    ///
    /// # Errors
    /// `Invalid` for a selector, limit or continue token; `Expired` when the history since the first page, or since
    /// [`Query::at`], is gone; `FutureRevision`. Cancel safe.
    async fn list(&self, query: &Query) -> Result<Page>;

    /// Makes one change, and returns once the change is as durable as the store can make it. A dry run
    /// returns the same response and changes nothing.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `ApplyConflict`, `AlreadyExists`, `Invalid`, `TooLarge`: the store did not
    /// change. After `Unavailable` the outcome is unknown: the change may be there, may never be, and may still
    /// come. A dropped call may still be carried out.
    async fn submit(&self, request: Request) -> Result<WriteResponse>;

    /// Makes one change in the name of the host: [`Store::submit`] with the host as manager.
    ///
    /// # Errors
    /// As [`Store::submit`].
    async fn write(&self, write: Write) -> Result<WriteResponse> {
        self.submit(write.into()).await
    }

    /// Reads the number of replicas of a resource as its server tells it, past every cache of this host: a document of
    /// the kind `Scale` of `autoscaling/v1`. For a kind whose [`Catalog`] says so. Of any other kind, its declaration
    /// names the field that has the number.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` where the server has no such subresource. Cancel safe.
    async fn scale(&self, key: &Key) -> Result<Value> {
        Err(scale::unsupported(key))
    }

    /// Sets the number of replicas of a resource by its server, and returns the scale as [`Store::scale`] does.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `Invalid`; `Unsupported` where the server has no such subresource. As with
    /// [`Store::submit`], the outcome is unknown after `Unavailable`.
    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        Err(scale::unsupported(&request.key))
    }

    /// Returns the schemas that validate and merge documents; `None` where a server does both. The code that
    /// declares a kind sets its schema here.
    fn schemas(&self) -> Option<&Schemas>;

    /// Returns whether a server validates and merges the documents. It also defines the kinds then.
    fn server_validates(&self) -> bool {
        self.schemas().is_none()
    }

    /// Returns what a server that has other clients puts before the names of this host's managers; empty for others.
    fn manager_prefix(&self) -> String {
        String::new()
    }

    /// Watches changes with a revision above `from`, each once, in the order of their revisions.
    ///
    /// A store that is far away may leave out a state that was overwritten before the store saw it. The event's
    /// `previous` is then the state that was seen last, which may have another uid.
    ///
    /// # Errors
    /// `Expired` when the history back to `from` is gone, `FutureRevision` when the store has not reached
    /// `from`, `Invalid` for [`Scope::Everything`] where kinds have no common order. Cancel safe.
    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch>;

    /// Returns a revision that later reads of the scope do not go behind, at or after each write that this store
    /// acknowledged before the call. A watch from it has every change that those reads may lack. Asks the server
    /// of a store that is far away for a kind without a cache; a cache may be behind its server.
    ///
    /// # Errors
    /// As [`Store::watch`]. Cancel safe.
    async fn revision(&self, scope: &Scope) -> Result<Revision>;

    /// Announces that a kind is going to be read and watched while the returned value lives, and how much of
    /// its resources. A store that is far away keeps a cache of the kind meanwhile. Never waits.
    fn subscribe(&self, _kind: &Kind, _view: View) -> Subscription {
        Subscription::none()
    }

    /// Returns the part of each resource that the events of a kind have.
    fn watched_view(&self, _kind: &Kind) -> View {
        View::Whole
    }

    /// Returns the known state of the store, without asking its server. A composed store has an entry for each
    /// of its parts.
    fn status(&self) -> Vec<StoreStatus>;

    /// Returns whether every part of the store can be used.
    ///
    /// # Errors
    /// `Unavailable` with the reason of the first part that cannot, for a person; `Closed`.
    fn health(&self) -> Result<()> {
        self.status().iter().try_for_each(StoreStatus::health)
    }

    /// Finishes the accepted writes, then refuses every further call. Does nothing the second time.
    async fn close(&self);

    /// Returns the id of the content that the store has now ([`StoreStatus::id`]), after asking its server. All that
    /// the store answered before the call was of this content, if it had this id then.
    ///
    /// # Errors
    /// `Unavailable` when the store cannot be used; `Closed`. Cancel safe.
    async fn verify_content(&self) -> Result<Option<String>> {
        self.health()?;
        Ok(self.status().into_iter().next().and_then(|status| status.id))
    }

    /// Accepts the content that the server of this store has now, after its content was replaced: it is used from
    /// now on, and what it lacks is deleted for everyone who watches. `content` is what
    /// [`Availability::Replaced`](crate::Availability::Replaced) calls it.
    ///
    /// # Errors
    /// `Invalid` when the content was not replaced, or by other content; `Unavailable` when the acceptance cannot be
    /// recorded.
    async fn accept_replacement(&self, _content: &str) -> Result<()> {
        Err(not_replaced())
    }

    /// Returns the kinds that have resources, each once, with the version of its first resource.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn kinds(&self) -> Result<Vec<Kind>>;

    /// Returns the kinds that the server of the store defines by itself, and their changes; `None` where the host
    /// defines them. Without kinds before the first contact. Never waits.
    fn catalog(&self) -> Option<watch::Receiver<Arc<Catalog>>> {
        None
    }

    /// Returns where the server of the store takes events about its resources; `None` where it has none.
    fn event_sink(&self) -> Option<Arc<dyn EventSink>> {
        None
    }

    /// Returns the leases of controllers that manage resources of this store; `None` where one host alone has it.
    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        None
    }

    /// Returns all resources, of any kind, that have an owner reference to this uid.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        let mut found = Vec::new();
        for kind in self.kinds().await? {
            let selector = Selector { owner: Some(owner.to_owned()), ..Selector::default() };
            found.extend(self.list(&Query { selector, ..Query::all(kind) }).await?.items);
        }
        Ok(found)
    }
}
