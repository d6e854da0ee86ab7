//! The state that all handlers share.

use std::sync::Arc;

use homeostat_runtime::Host;
use homeostat_store::embedded::EmbeddedStore;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::event_cache::EncodedEventCache;
use crate::limits::Limits;
use crate::tokens::Tokens;
use crate::{Check, Metrics};

/// The state that all handlers share.
pub(crate) struct Api {
    pub(crate) host: Host,
    pub(crate) metrics: Metrics,
    pub(crate) checks: Vec<Check>,
    /// The store for backups; `None` if the store has no file.
    pub(crate) backups: Option<Arc<EmbeddedStore>>,
    /// Held while a backup is made and read.
    pub(crate) backup_lock: Arc<Mutex<()>>,
    /// Cancelled when the server stops; streams end then.
    pub(crate) stopped: CancellationToken,
    /// The tokens; `None` gives every program on this machine full access.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) limits: Limits,
    /// The encoded events that watches share.
    pub(crate) event_cache: EncodedEventCache,
}
