//! The kinds that a server serves, found by discovery, and again when they change.

pub(crate) mod parse;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use homeostat_store::catalog::{Catalog, ServedKind, Verbs};
use homeostat_store::{Error, Kind, Result};
use tokio::sync::{Mutex, watch};

use self::parse::{Group, Root};
use crate::requests::{Call, Requests};

/// Shortest time between two requested reads of the catalog. A kind that the catalog lacks requests one.
pub(crate) const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(3);

/// Reads the catalog of a server, and keeps the last one.
pub(crate) struct Discovery {
    requests: Arc<Requests>,
    known: watch::Sender<Arc<Catalog>>,
    /// When the catalog was last read; `None` before the first time. Held while it is read, so that callers
    /// who miss a kind at the same time ask once.
    last_read: Mutex<Option<Instant>>,
}

impl Discovery {
    pub(crate) fn new(requests: Arc<Requests>) -> Self {
        Self { requests, known: watch::Sender::new(Arc::default()), last_read: Mutex::default() }
    }

    /// Returns the catalog and its changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Catalog>> {
        self.known.subscribe()
    }

    /// Returns a kind. Reads the catalog again for an unknown one, and for an unknown version.
    ///
    /// # Errors
    /// `Unavailable` for a kind that the server does not serve: `NotFound` would be an answer about a resource.
    /// Those of the requests.
    pub(crate) async fn find(&self, kind: &Kind) -> Result<ServedKind> {
        let known = self.known.borrow().find(kind).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.versions.contains(&kind.version)) {
            return Ok(known.clone());
        }
        let refreshed = self.refresh(REFRESH_INTERVAL_MIN).await;
        // A kind that is served in other versions is read in one of them.
        if known.is_none() {
            refreshed?;
        }
        let known = self.known.borrow().find(kind).cloned();
        known.ok_or_else(|| Error::unavailable(format!("the server does not serve the kind {kind}")))
    }

    /// Reads the catalog again, unless it was read within `age_max`.
    ///
    /// # Errors
    /// Those of the requests; `Unavailable` for an answer that is no discovery document.
    pub(crate) async fn refresh(&self, age_max: Duration) -> Result<()> {
        let mut last_read = self.last_read.lock().await;
        if last_read.is_some_and(|last| last.elapsed() < age_max) {
            return Ok(());
        }
        let mut groups = self.groups("/api").await?;
        groups.extend(self.groups("/apis").await?);
        self.known.send_if_modified(|known| {
            let read = parse::catalog(groups, known);
            let is_new = **known != read;
            if is_new {
                *known = Arc::new(read);
            }
            is_new
        });
        *last_read = Some(Instant::now());
        Ok(())
    }

    async fn groups(&self, path: &str) -> Result<Vec<Group>> {
        let call = Call::get("discovery", path.to_owned()).accepting(parse::ACCEPT);
        let answer = self.requests.send(call).await.map_err(|failure| failure.about("discovery"))?;
        let named = match parse::root(&answer.body).map_err(Error::unavailable)? {
            Root::Aggregated(groups) => return Ok(groups),
            Root::Versions(named) => named,
        };
        let mut groups = Vec::new();
        for parse::GroupVersions { group, versions } in named {
            let mut read = Group { name: group, versions: Vec::new() };
            for version in versions {
                let version = self.version(path, &read.name, version).await;
                read.versions.push(version);
            }
            groups.push(read);
        }
        Ok(groups)
    }

    /// Reads one version of a group. A server behind the server may be away: then the kinds stay as they were.
    async fn version(&self, path: &str, group: &str, name: String) -> parse::GroupVersion {
        let path = if group.is_empty() { format!("{path}/{name}") } else { format!("{path}/{group}/{name}") };
        let answer = self.requests.send(Call::get("discovery", path)).await;
        let read = answer.map_err(|failure| failure.about("discovery").to_string());
        read.and_then(|answer| parse::version(group, &name, &answer.body)).unwrap_or_else(|reason| {
            tracing::warn!(group, version = name, reason = ?reason, "the kinds of a group could not be read");
            parse::GroupVersion { name, stale: true, ..parse::GroupVersion::default() }
        })
    }
}
