//! The bucket as an [`Upstream`]: its first contact, its checks, and the way to its reads, writes and
//! streams.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use homeostat_store::cached::{CachedState, DeltaStream, Incarnation, Start, Upstream, UpstreamResponse};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    ClockAndIds, Error, Key, Kind, LeaseStore, Page, Query, Request, RequestCounts, Resource, Result, Revision, View,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;

use crate::checks::{Facts, SettingProblem, Severity, outdated, setting_problems};
use crate::connection::Connection;
use crate::errors::{RequestError, RequestResult};
use crate::follow::BucketStream;
use crate::foreign;
use crate::lease::BucketLeases;
use crate::protocol::{AccountInfo, StreamInfo, new_stream};
use crate::settings::BucketSettings;
use crate::state::{BucketIncarnation, BucketState, lock};
use crate::write::Guard;

/// The version of the layout of the bucket.
const FORMAT: u32 = 1;

/// A bucket of JetStream, whose values are resources.
pub struct Bucket {
    state: Arc<BucketState>,
    /// The followers of foreign buckets; they begin with the first contact.
    followers: Mutex<JoinSet<()>>,
    /// Held while a connection is opened, so that there is one.
    opening: tokio::sync::Mutex<()>,
    setting_problems: Mutex<Vec<SettingProblem>>,
    /// Whether this host used the bucket before its last start.
    was_used: bool,
}

/// The store's own entry in the bucket.
#[derive(Debug, Serialize, Deserialize)]
struct StoreEntry {
    format: u32,
    id: String,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("bucket", &self.state.settings.bucket).finish_non_exhaustive()
    }
}

impl Bucket {
    /// Creates the store of a bucket without contacting a server. `schemas` validates what is written.
    ///
    /// # Errors
    /// `Invalid` for the settings ([`BucketSettings::check`]).
    pub fn new(settings: BucketSettings, schemas: Schemas, clock: Arc<dyn ClockAndIds>) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            state: Arc::new(BucketState::new(settings, schemas, clock)),
            followers: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            setting_problems: Mutex::new(Vec::new()),
            was_used: false,
        })
    }

    /// Says that this host has used the bucket before, so that the bucket is not created if it is missing.
    #[must_use]
    pub fn used_before(self, was_used: bool) -> Self {
        Self { was_used, ..self }
    }

    /// Returns what the last contact found wrong with the server and the bucket, refusals first. Findings
    /// that the settings accept are left out.
    pub fn setting_problems(&self) -> Vec<SettingProblem> {
        lock(&self.setting_problems).clone()
    }

    /// Checks the server and the bucket without writing anything ([`Bucket::setting_problems`]). Returns
    /// whether the bucket exists.
    ///
    /// # Errors
    /// As [`Upstream::connect`].
    pub async fn inspect(&self) -> Result<bool> {
        let connection = self.open_connection().await?;
        let failed = |failure| self.state.error(failure, "contact");
        let account = self.account(&connection).await?;
        match self.state.info(&connection).await {
            Ok(info) => self.check(&connection, &account, &info).map(|()| true),
            Err(failure) if failure.is_no_bucket() => Ok(false),
            Err(failure) => Err(failed(failure)),
        }
    }

    /// Reads the account, and checks the version of the server.
    async fn account(&self, connection: &Connection) -> Result<AccountInfo> {
        let account = connection.call("INFO", &json!({})).await;
        let account: AccountInfo = account.map_err(|failure| self.state.error(failure, "contact"))?;
        let outdated = outdated(&connection.server().version, account.api.level);
        if outdated.is_empty() { Ok(account) } else { self.keep(outdated).map(|()| account) }
    }

    /// Starts to follow the foreign buckets, once.
    fn follow_foreign(&self) {
        let mut followers = lock(&self.followers);
        if followers.is_empty() {
            for foreign in &self.state.settings.foreign {
                followers.spawn(foreign::follow(Arc::clone(&self.state), foreign.clone()));
            }
        }
    }

    /// Returns a connection that is open, and opens the first one.
    async fn open_connection(&self) -> Result<Arc<Connection>> {
        let failed = |failure| self.state.error(failure, "contact");
        let _one = self.opening.lock().await;
        if self.state.is_opened() {
            let connection = self.state.connection()?;
            connection.connected().await.map_err(failed)?;
            return Ok(connection);
        }
        let connection = Arc::new(Connection::open(&self.state.settings).await.map_err(failed)?);
        if self.state.opened(&connection) { Ok(connection) } else { Err(Error::Closed) }
    }

    /// Reads the state of the stream, and creates it if this host has never seen it.
    async fn info_or_create(&self, connection: &Connection) -> RequestResult<StreamInfo> {
        let BucketState { settings, stream, .. } = &*self.state;
        match (self.state.info(connection).await, &settings.create) {
            (Err(failure), Some(create)) if failure.is_no_bucket() && !self.is_known() => {
                let request = new_stream(stream, &settings.bucket, create);
                connection.call(&format!("STREAM.CREATE.{stream}"), &request).await
            }
            (answer, _) => answer,
        }
    }

    /// Returns whether this host has seen the content of the bucket.
    fn is_known(&self) -> bool {
        self.was_used || self.state.knows_content()
    }

    /// Returns the error of a bucket that cannot be read or created.
    fn missing(&self, failure: RequestError) -> Error {
        let BucketState { settings, .. } = &*self.state;
        if failure.is_no_bucket() && settings.create.is_some() && self.is_known() {
            let reason = format!(
                "there is no bucket {:?} any more; it is not created, because this host has used it before: restore it, or make an empty one and accept that",
                settings.bucket
            );
            return Error::unavailable(reason);
        }
        self.state.error(failure, "contact")
    }

    /// Checks the server and the bucket.
    fn check(&self, connection: &Connection, account: &AccountInfo, info: &StreamInfo) -> Result<()> {
        let server = connection.server();
        let addresses = &self.state.settings.servers;
        let facts = Facts {
            version: server.version,
            api_level: account.api.level,
            payload_bytes_max: connection.payload_bytes_max(),
            encrypted: server.tls_required
                || self.state.settings.tls.required
                || addresses.iter().all(|address| address.starts_with("tls://")),
            local: addresses.iter().all(|address| is_local(address)),
            bucket: info.config.facts(&self.state.settings.bucket),
        };
        let wants_memory = self.state.settings.create.as_ref().is_some_and(|create| create.memory);
        self.state.fenced_writes.set_replicated(facts.bucket.replicas > 1);
        let found = setting_problems(&facts, wants_memory, &self.state.settings.accept);
        self.keep(found)
    }

    /// Keeps the problems of the settings and logs those that are new.
    fn keep(&self, found: Vec<SettingProblem>) -> Result<()> {
        let refusals: Vec<String> =
            found.iter().filter(|it| it.severity == Severity::Refused).map(ToString::to_string).collect();
        let mut before = lock(&self.setting_problems);
        for problem in found.iter().filter(|problem| !before.contains(problem)) {
            tracing::warn!(store = self.state.settings.name, bucket = self.state.settings.bucket, "{problem}");
        }
        *before = found;
        if refusals.is_empty() { Ok(()) } else { Err(Error::unavailable(refusals.join(". "))) }
    }

    /// Reads the store's own entry, and writes it into a new bucket.
    async fn store_entry(&self, connection: &Connection) -> Result<StoreEntry> {
        let subject = self.state.subjects.store();
        let failed = |failure| self.state.error(failure, "contact");
        let mut last = self.state.last(connection, &subject).await.map_err(failed)?;
        if last.is_none() {
            let entry = StoreEntry { format: FORMAT, id: self.state.clock.uid() };
            let value = serde_json::to_string(&entry).map_err(Error::unavailable)?;
            match self.state.write_if_absent(connection, &subject, &value).await {
                Ok(_) => return Ok(entry),
                Err(failure) if failure.is_wrong_sequence() => {
                    last = self.state.last(connection, &subject).await.map_err(failed)?;
                }
                Err(failure) => return Err(failed(failure)),
            }
        }
        let payload = last.map(|message| message.payload).unwrap_or_default();
        let entry: StoreEntry = serde_json::from_slice(&payload).map_err(|error| {
            Error::unavailable(format!("the value of {subject:?} is no entry of a store ({error}): use another prefix"))
        })?;
        if entry.format == FORMAT {
            Ok(entry)
        } else {
            let reason = format!("the bucket has the format {}, this host reads format {FORMAT}", entry.format);
            Err(Error::unavailable(reason))
        }
    }
}

#[async_trait]
impl Upstream for Bucket {
    fn name(&self) -> &str {
        &self.state.settings.name
    }

    fn storage(&self) -> &'static str {
        "nats"
    }

    fn schemas(&self) -> Option<&Schemas> {
        Some(&self.state.schemas)
    }

    async fn connect(&self) -> Result<Incarnation> {
        let connection = self.open_connection().await?;
        let account = self.account(&connection).await?;
        let info = self.info_or_create(&connection).await.map_err(|failure| self.missing(failure))?;
        self.check(&connection, &account, &info)?;
        let entry = self.store_entry(&connection).await?;
        let id = format!("{}@{}", entry.id, info.created);
        let last = info.state.last_seq;
        self.state.found(BucketIncarnation { created: info.created, id: entry.id }, last);
        self.follow_foreign();
        Ok(Incarnation { id: Some(id), at: Some(Revision(last)) })
    }

    async fn reached(&self) -> Result<Option<Revision>> {
        let connection = self.state.connection()?;
        let info = self.state.info(&connection).await.map_err(|failure| self.state.error(failure, "revision"))?;
        Ok(Some(Revision(info.state.last_seq)))
    }

    async fn ping(&self) -> Result<()> {
        let connection = self.state.connection()?;
        let answer = self.state.last(&connection, &self.state.subjects.store()).await;
        answer.map(drop).map_err(|failure| self.state.error(failure, "ping"))
    }

    async fn open(&self, kind: &Kind, _view: View, start: Start) -> Result<Box<dyn DeltaStream>> {
        Ok(Box::new(BucketStream::open(&self.state, kind, start).await?))
    }

    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.state.read(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.state.read_all(query).await
    }

    async fn revision(&self, kind: &Kind) -> Result<Revision> {
        let connection = self.state.connection()?;
        let info = self.state.info(&connection).await.map_err(|failure| self.state.error(failure, "revision"))?;
        let last = info.state.last_seq;
        self.state.hear(&self.state.subjects.kind(kind), last);
        Ok(Revision(last))
    }

    async fn submit(&self, request: Request, cached: CachedState) -> Result<UpstreamResponse> {
        let kind = request.write.target()?.kind;
        let is_foreign = self.state.settings.foreign.iter().any(|foreign| foreign.kind.same_type(&kind));
        let guard: Guard<'_> = if is_foreign { &foreign::guard } else { &|_, _| Ok(()) };
        self.state.write(request, cached, guard).await
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        let connection = self.state.connection()?;
        let request = json!({"subjects_filter": self.state.subjects.written_kinds()});
        let info = connection.call(&format!("STREAM.INFO.{}", self.state.stream), &request).await;
        let info: StreamInfo = info.map_err(|failure| self.state.error(failure, "list of kinds"))?;
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in info.state.subjects.keys().filter_map(|subject| self.state.subjects.kind_of(subject)) {
            if !kinds.iter().any(|known| known.same_type(&kind)) {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }

    fn refuses_writes(&self) -> Option<String> {
        self.state.refused_writes.reason(self.state.elapsed())
    }

    fn notes(&self) -> Vec<String> {
        self.setting_problems().iter().filter(|it| it.severity == Severity::Warned).map(ToString::to_string).collect()
    }

    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        Some(Arc::new(BucketLeases(Arc::clone(&self.state))))
    }

    fn counts(&self) -> RequestCounts {
        let sent = self.state.connection().map_or(0, |connection| connection.sent());
        let BucketState { retried, skipped, .. } = &*self.state;
        RequestCounts { sent, retried: retried.load(Ordering::Relaxed), skipped: skipped.load(Ordering::Relaxed) }
    }

    async fn close(&self) {
        lock(&self.followers).abort_all();
        if let Some(connection) = self.state.close() {
            connection.close().await;
        }
    }
}

/// Returns whether the address of a server names this machine.
fn is_local(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = host.rsplit_once('@').map_or(host, |(_, rest)| rest);
    host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]")
}
