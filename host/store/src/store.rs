//! The trait that every store implements, and what goes in and out of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::schema::Schemas;
use crate::{
    ClockAndIds, Key, Kind, Request, Resource, Result, Revision, Scope, Selector, SystemClockAndIds, Watch, Write,
    WriteResponse,
};

/// A question for the resources of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// Which kind; its version is ignored.
    pub kind: Kind,
    /// Which resources of the kind.
    #[serde(default)]
    pub selector: Selector,
    /// How many items at most, from 1; `None` for all of them in one page. A page may hold fewer, and still have a [`Page::next`]: it ends
    /// where its documents come to [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The [`Page::next`] of the page before. Goes with the same kind and selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl Query {
    /// Asks for every resource of a kind.
    pub fn all(kind: Kind) -> Self {
        Self { kind, selector: Selector::default(), limit: None, from: None }
    }
}

/// One answer to a [`Query`].
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Ordered by namespace, then name.
    pub items: Vec<Arc<Resource>>,
    /// The revision of the store at which the list was taken: the same for all pages of one list. A watch from here misses nothing.
    pub revision: Revision,
    /// Goes into [`Query::from`] to read on; `None` at the end.
    pub next: Option<String>,
}

/// What a store can be told when it is made.
///
/// History is cut at whichever bound is hit first, in small pieces beside the writes, and also when nobody writes. A watch or a list that
/// still needed what was cut is `Expired`.
#[derive(Clone)]
pub struct Options {
    /// How many changes are kept for watches and for the later pages of a list: 1 or more, default 100 000. The store may keep a few
    /// hundred more for a while.
    pub history_max: u64,
    /// How long a change is kept, by the clock of `source`: above zero, default one hour, so that a client that was away for some minutes
    /// goes on where it was. A store in a file may keep a change for a minute longer.
    pub history_age_max: Duration,
    /// What the changes that are kept may come to, in bytes of the documents before and after each: default 64 MiB. A store in a
    /// file counts of the one before only what differs. The last change is kept whatever its size. All of a file is read when it is opened, so
    /// this bounds for how long a store with few resources is opened.
    pub history_bytes_max: u64,
    /// How long the journal of a file is that is made, in bytes: default 16 MiB, rounded up to whole pages, at most 1 GiB. The longer it is,
    /// the more changes go to their places in the file together, and the longer it takes to open after a crash. Zero for none: then every
    /// change goes to its place at once, and the file is a plain file of the engine.
    pub wal_bytes: u64,
    /// Time and randomness.
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
            .field("journal_bytes", journal_bytes)
            .finish_non_exhaustive()
    }
}

/// Resources, kept. Strictly serialisable: a write is seen by every read that starts after it was answered.
///
/// Every method may answer `Unavailable` (try again later) and `Closed`.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads one resource. The version of the key is ignored: the answer has the version that it was written with.
    ///
    /// # Errors
    /// `NotFound`. Cancel safe.
    async fn get(&self, key: &Key) -> Result<Arc<Resource>>;

    /// Reads resources of one kind. All pages of one list show the same moment.
    ///
    /// # Errors
    /// `Invalid` for a selector, limit or continue token; `Expired` when the history since the first page is gone. Cancel safe.
    async fn list(&self, query: &Query) -> Result<Page>;

    /// Makes one change, and answers when it will survive whatever the store is made to survive. A dry run answers the same, and changes
    /// nothing.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, `ApplyConflict`, `AlreadyExists`, `Invalid`, `TooLarge`: nothing was changed. After `Unavailable` it is not known.
    /// A call that is dropped may still be carried out.
    async fn submit(&self, request: Request) -> Result<WriteResponse>;

    /// Makes one change in the name of the host: [`Store::submit`] with a manager of that name.
    ///
    /// # Errors
    /// As [`Store::submit`].
    async fn write(&self, write: Write) -> Result<WriteResponse> {
        self.submit(write.into()).await
    }

    /// Returns the schemas by which documents are checked and merged. Whoever declares a kind sets its schema here.
    fn schemas(&self) -> &Schemas;

    /// Follows all changes with a revision above `from`, each once, in the order of their revisions.
    ///
    /// # Errors
    /// `Expired` when the history back to `from` is gone, `FutureRevision` when the store has not reached `from`. Cancel safe.
    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch>;

    /// Returns the revision of the last change that reads can see.
    fn revision(&self) -> Revision;

    /// Returns what tells this store from any other. Revisions of two stores cannot be compared.
    fn id(&self) -> &str;

    /// Returns whether writes can be taken.
    ///
    /// # Errors
    /// `Unavailable` with what a person has to know, `Closed`.
    fn health(&self) -> Result<()> {
        Ok(())
    }

    /// Finishes the writes that were taken, then refuses every further call. Does nothing the second time.
    async fn close(&self);

    /// Returns the kinds of which resources exist, each once, with the version of its first resource.
    ///
    /// # Errors
    /// None of its own. Cancel safe.
    async fn kinds(&self) -> Result<Vec<Kind>>;

    /// Returns every resource, of any kind, that has an owner reference to this uid.
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
