//! The state that all handlers share.

use std::sync::Arc;

use homeostat_runtime::Host;
use homeostat_store::embedded::EmbeddedStore;
use tokio::sync::{Mutex, watch};

use crate::limits::Limits;
use crate::lines::EncodedEventCache;
use crate::tokens::Tokens;
use crate::{Check, Metrics};

/// What every handler has.
pub(crate) struct Api {
    pub(crate) host: Host,
    pub(crate) metrics: Metrics,
    pub(crate) checks: Vec<Check>,
    /// The store that backups are made of; `None` where it has no file.
    pub(crate) backups: Option<Arc<EmbeddedStore>>,
    /// Held while a backup is made.
    pub(crate) backup_lock: Arc<Mutex<()>>,
    /// Becomes true when the server stops; streams end then.
    pub(crate) stopped: watch::Receiver<bool>,
    /// Who may ask; `None` means every program of this machine.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// What is spoken: `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) limits: Limits,
    /// What watches tell.
    pub(crate) event_cache: EncodedEventCache,
}
