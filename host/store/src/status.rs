//! What is known of a store without asking it: for readiness, metrics and people.

use std::sync::Arc;
use std::time::SystemTime;

use crate::{Error, Kind, Result, Revision, View};

/// The state of one store. A store that is composed of others has one for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    /// The name under which several stores of a host are told apart; empty for a store that stands alone.
    pub name: Arc<str>,
    /// Where the resources are: `memory`, `embedded`, `nats` or `kubernetes`.
    pub storage: &'static str,
    /// The id that distinguishes the content of this store from all others, whose revisions cannot be
    /// compared with its own. `None` before the first contact with a server, and if the server does not tell.
    pub id: Option<String>,
    /// Whether the store can be used.
    pub availability: Availability,
    /// The last revision that the store has seen; `None` before the first contact, and where every kind has
    /// revisions of its own.
    pub revision: Option<Revision>,
    /// Whether one order of revisions covers all kinds, so that
    /// [`Scope::Everything`](crate::Scope::Everything) can be watched.
    pub orders_all_kinds: bool,
    /// Whether its server deletes the dependents of deleted owners by itself.
    pub collects_garbage: bool,
    /// The caches that a store that is far away keeps, one for each kind in use.
    pub caches: Vec<CacheStatus>,
    /// Bytes that all of these caches may use together; `None` for a store in this process.
    pub cache_bytes_max: Option<u64>,
    /// The requests to the server of a store that is far away.
    pub requests: RequestCounts,
    /// What a person should know although the store may work, such as settings of its server that may lose data.
    pub notes: Vec<String>,
}

/// The cache of one kind of a store that is far away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStatus {
    /// The kind.
    pub kind: Kind,
    /// How much of each resource is kept.
    pub view: View,
    /// The state of the cache.
    pub state: CacheState,
    /// Number of subscriptions and open watches.
    pub users: usize,
    /// Number of resources.
    pub resources: usize,
    /// Number of resources that are left out, because this host cannot read their documents.
    pub unreadable: usize,
    /// Its memory, in bytes.
    pub bytes: u64,
    /// The revision up to which it has every change; `None` before the first list.
    pub revision: Option<Revision>,
    /// Lists of a server that lagged, which were refused.
    pub stale_lists: u64,
    /// The last error, for a person; `None` while the cache follows the server.
    pub reason: Option<String>,
    /// Why the kind cannot be used although the server answers; `None` if it can.
    pub obstacle: Option<Obstacle>,
}

/// Why a kind cannot be used although its server answers. It waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The server refuses this host the kind.
    Forbidden,
    /// The server does not serve the kind.
    NotServed,
    /// The resources exceed the bound of the store's cache.
    Full,
}

impl Obstacle {
    /// Returns the reason as one word, as conditions and events have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "KindForbidden",
            Self::NotServed => "KindNotServed",
            Self::Full => "CacheFull",
        }
    }
}

/// The state of the cache of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// It has no list yet. Reads wait.
    Listing,
    /// It follows the changes of the server.
    Synced,
    /// It has the resources as of its revision, and does not follow the changes of the server.
    Behind {
        /// When it stopped following, by the clock of this host.
        since: SystemTime,
    },
    /// The resources exceed the bound of the store's cache. Reads are refused.
    Full,
}

/// Numbers of requests to a server, since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Requests that were sent, each attempt counted.
    pub sent: u64,
    /// Attempts after the first one.
    pub retried: u64,
    /// Writes that were not sent because they would have changed nothing.
    pub skipped: u64,
}

/// Whether a store can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// The server has not answered yet.
    Starting {
        /// The last error, for a person; `None` while the first attempt runs.
        reason: Option<String>,
    },
    /// Reads and writes are possible.
    Ready,
    /// The store refuses writes, or reads, or both.
    Unhealthy {
        /// The reason, for a person.
        reason: String,
    },
    /// The server has answered before, and does not now.
    Away {
        /// When it last answered, by the clock of this host.
        since: SystemTime,
        /// The last error, for a person.
        reason: String,
    },
    /// The server has other content than before: it was restored, emptied, or is another one. Nothing of it
    /// is used until a person accepts it.
    Replaced {
        /// The id of the content before.
        before: String,
        /// The id of the content now.
        now: String,
    },
    /// The store was closed.
    Closed,
}

impl StoreStatus {
    /// Returns the status of a store in this process that stands alone.
    pub(crate) fn local(storage: &'static str, id: &str, availability: Availability, revision: Revision) -> Self {
        Self {
            name: "".into(),
            storage,
            id: Some(id.to_owned()),
            availability,
            revision: Some(revision),
            orders_all_kinds: true,
            collects_garbage: false,
            caches: Vec::new(),
            cache_bytes_max: None,
            requests: RequestCounts::default(),
            notes: Vec::new(),
        }
    }

    /// Returns whether the store can be used.
    ///
    /// # Errors
    /// `Unavailable` with the reason, for a person; `Closed`.
    pub fn health(&self) -> Result<()> {
        self.availability.health(&self.name)
    }
}

impl Availability {
    /// As [`StoreStatus::health`], for a store of this name.
    pub(crate) fn health(&self, store: &str) -> Result<()> {
        let reason = match self {
            Self::Ready => return Ok(()),
            Self::Closed => return Err(Error::Closed),
            Self::Starting { reason } => reason.as_deref().unwrap_or("it has not answered yet").to_owned(),
            Self::Unhealthy { reason } | Self::Away { reason, .. } => reason.clone(),
            Self::Replaced { before, now } => format!(
                "its content {before:?} was replaced by {now:?}: it was emptied, restored or exchanged, or the settings lead to another server; it is not used until somebody accepts it"
            ),
        };
        let named = if store.is_empty() { reason } else { format!("store {store}: {reason}") };
        Err(Error::unavailable(named))
    }
}

/// Returns the error of the acceptance of content that was not replaced.
pub(crate) fn not_replaced() -> Error {
    Error::invalid("store", "its content was not replaced")
}

/// Keeps a kind of a store at hand while it lives ([`Store::subscribe`](crate::Store::subscribe)).
#[must_use = "the store may forget the kind once this is dropped"]
pub struct Subscription(#[allow(dead_code, reason = "only its drop matters")] Option<Box<dyn Send + Sync>>);

impl Subscription {
    /// Returns a subscription to a store that keeps every kind at hand.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns a subscription that ends when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}
