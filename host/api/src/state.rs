//! The state that all handlers share.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, Uri};
use bytes::Bytes;
use homeostat_runtime::Host;
use homeostat_store::embedded::EmbeddedStore;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::document_cache::DocumentCache;
use crate::event_cache::EncodedEventCache;
use crate::forwarder::{Answers, Forwarder, Question};
use crate::limits::Limits;
use crate::role_watch::RoleWatch;
use crate::service_accounts::ServiceAccountTokens;
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
    pub(crate) service_accounts: Arc<ServiceAccountTokens>,
    /// The stored roles and bindings.
    pub(crate) roles: RoleWatch,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) limits: Limits,
    /// Asks other hosts.
    pub(crate) forwarder: Forwarder,
    /// The encoded events that watches share.
    pub(crate) event_cache: EncodedEventCache,
    /// The descriptions of the kinds.
    pub(crate) openapi: DocumentCache,
}

impl Api {
    /// Asks the other hosts that hold leases of these controllers what the client asked. None is asked if the
    /// request was forwarded to this host.
    pub(crate) async fn ask_holders<'n>(
        &self,
        controllers: impl IntoIterator<Item = &'n str>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Answers {
        if Question::is_forwarded(headers) {
            return Answers::default();
        }
        self.forwarder.ask_all(&self.host.other_holders(controllers), &question(method, uri, headers)).await
    }

    /// Asks all other hosts that share stores with this one. A host that has released its own lease drains and
    /// answers, or has ended: its silence counts for nothing.
    pub(crate) async fn ask_all_hosts(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Answers {
        if Question::is_forwarded(headers) {
            return Answers::default();
        }
        let (mut hosts, mut released) = (self.host.other_hosts(), self.host.released_hosts());
        released.retain(|host| hosts.iter().all(|live| live.name != host.name));
        hosts.extend(released.iter().cloned());
        let mut answers = self.forwarder.ask_all(&hosts, &question(method, uri, headers)).await;
        answers.unanswered.retain(|unanswered| released.iter().all(|host| host.name != unanswered.host));
        answers
    }
}

/// Returns what a client asked without a body, for other hosts.
fn question(method: &Method, uri: &Uri, headers: &HeaderMap) -> Question {
    let path = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    Question::new(method.clone(), path, Bytes::new(), headers)
}
