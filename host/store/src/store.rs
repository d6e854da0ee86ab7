//! The `Store` trait, its options, and the types of a list.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::schema::Schemas;
use crate::{
    ClockAndIds, Key, Kind, Request, Resource, Result, Revision, Scope, Selector, SystemClockAndIds, Watch, Write,
    WriteResponse,
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
    /// The [`Page::next`] of the page before; use it with the same kind and selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl Query {
    /// Queries all resources of a kind.
    pub fn all(kind: Kind) -> Self {
        Self { kind, selector: Selector::default(), limit: None, from: None }
    }
}

/// One page of the result of a [`Query`].
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Ordered by namespace, then name.
    pub items: Vec<Arc<Resource>>,
    /// The revision of the store that the list shows: the same for all pages of one list. A watch from this
    /// revision misses no change.
    pub revision: Revision,
    /// The continue token for [`Query::from`]; `None` on the last page.
    pub next: Option<String>,
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

/// A store of resources. Strictly serialisable: a write is seen by every read that starts after the write was
/// acknowledged.
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

    /// Lists resources of one kind. All pages of one list show the same revision.
    ///
    /// # Errors
    /// `Invalid` for a selector, limit or continue token; `Expired` when the history since the first page is
    /// gone. Cancel safe.
    async fn list(&self, query: &Query) -> Result<Page>;

    /// Makes one change, and returns once the change is as durable as the store can make it. A dry run
    /// returns the same response and changes nothing.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `ApplyConflict`, `AlreadyExists`, `Invalid`, `TooLarge`: the store did not
    /// change. After `Unavailable` the outcome is unknown. A dropped call may still be carried out.
    async fn submit(&self, request: Request) -> Result<WriteResponse>;

    /// Makes one change in the name of the host: [`Store::submit`] with the host as manager.
    ///
    /// # Errors
    /// As [`Store::submit`].
    async fn write(&self, write: Write) -> Result<WriteResponse> {
        self.submit(write.into()).await
    }

    /// Returns the schemas that validate and merge documents. The code that declares a kind sets its schema
    /// here.
    fn schemas(&self) -> &Schemas;

    /// Watches all changes with a revision above `from`, each once, in the order of their revisions.
    ///
    /// # Errors
    /// `Expired` when the history back to `from` is gone, `FutureRevision` when the store has not reached
    /// `from`. Cancel safe.
    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch>;

    /// Returns the revision of the last change that reads can see.
    fn revision(&self) -> Revision;

    /// Returns the id that distinguishes this store from all others. Revisions of different stores cannot be
    /// compared.
    fn id(&self) -> &str;

    /// Returns whether the store accepts writes.
    ///
    /// # Errors
    /// `Unavailable` with the reason, for a person; `Closed`.
    fn health(&self) -> Result<()> {
        Ok(())
    }

    /// Finishes the accepted writes, then refuses every further call. Does nothing the second time.
    async fn close(&self);

    /// Returns the kinds that have resources, each once, with the version of its first resource.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn kinds(&self) -> Result<Vec<Kind>>;

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
