//! The options of a store that is far away.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::history::Bounds;
use crate::routes::Routes;
use crate::{ClockAndIds, Kind, Result, Revision, SystemClockAndIds, View};

/// The options of a [`CachedStore`](super::CachedStore).
#[derive(Clone)]
pub struct Options {
    /// Memory of the caches of all kinds together, in bytes: default 1 GiB. The resources of a kind that
    /// exceed it are not cached, and reads of the kind are refused. The history of each kind comes on top.
    pub bytes_max: u64,
    /// Changes kept for watches and for the later pages of a list, of each kind: 1 or more, default 10 000.
    pub history_max: u64,
    /// Total size of the kept changes of each kind, in bytes: default 8 MiB. The last change is kept whatever
    /// its size.
    pub history_bytes_max: u64,
    /// Retention time of a change: above zero, default 10 minutes.
    pub history_age_max: Duration,
    /// Longest wait of a read for the first list of its kind, and for the own writes that a page of a list
    /// has to show: default 10 seconds.
    pub read_wait_max: Duration,
    /// How long the cache of a kind outlives its last user: default 30 seconds.
    pub idle_max: Duration,
    /// The content that the server had when this host last used it; `None` for the first time. Other content, and
    /// an earlier state of the same content, is not used until a person accepts it.
    pub accepted: Option<KnownContent>,
    /// Where the content is recorded, so that the next start can pass it as `accepted`. Content is
    /// used only once its id is recorded; how far it came is recorded each minute. Default: nowhere.
    pub record: Option<Arc<dyn ContentRecord>>,
    /// How much of the resources of each kind its cache keeps, and its watches tell. Default: whole resources.
    pub routes: Routes,
    /// Source of time, ids and jitter.
    pub clock: Arc<dyn ClockAndIds>,
}

/// The content of a server, as a host remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownContent {
    /// Its id ([`Incarnation::id`](super::Incarnation::id)). Content that was restored has an id of its own from
    /// its acceptance on, which begins with the one that the server tells: [`server_id`].
    pub id: String,
    /// A revision that the host has seen of it ([`Incarnation::at`](super::Incarnation::at)).
    pub reached: Option<Revision>,
}

/// Separates the id that a server tells from the name under which a past of its content was accepted.
const RESTORED: &str = "/restored-";

/// Returns the id that the server of a content tells.
pub fn server_id(id: &str) -> &str {
    id.split_once(RESTORED).map_or(id, |(told, _)| told)
}

/// Returns the id of a content that was restored. `name` is that of this acceptance alone.
pub(super) fn restored_id(id: &str, name: &str) -> String {
    format!("{}{RESTORED}{name}", server_id(id))
}

/// The record of the content that a store had, which outlives the host.
#[async_trait]
pub trait ContentRecord: Send + Sync + 'static {
    /// Records that this content is used from now on. Returns when that is durable.
    ///
    /// # Errors
    /// `Unavailable` with the reason.
    async fn write(&self, content: &KnownContent) -> Result<()>;

    /// Returns the name of another store whose content had this id at its server, as far as the record knows.
    fn other_name(&self, id: &str) -> Option<String>;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 30,
            history_max: 10_000,
            history_bytes_max: 8 << 20,
            history_age_max: Duration::from_secs(10 * 60),
            read_wait_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(30),
            accepted: None,
            record: None,
            routes: Routes::default(),
            clock: Arc::new(SystemClockAndIds),
        }
    }
}

impl Options {
    /// Returns how much of the resources of a kind its cache keeps.
    pub(super) fn view(&self, kind: &Kind) -> View {
        match self.routes.of(kind).view {
            View::Whole => View::Whole,
            View::Metadata | View::Keys => View::Metadata,
        }
    }

    /// Returns the bounds of the history of one kind.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            events_max: self.history_max.max(1),
            bytes_max: self.history_bytes_max,
            age_max: self.history_age_max.max(Duration::from_millis(1)),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("bytes_max", &self.bytes_max)
            .field("history_max", &self.history_max)
            .field("accepted", &self.accepted)
            .finish_non_exhaustive()
    }
}
