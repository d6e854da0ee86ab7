//! The host's records: events, logs, costs, known kinds, and the dependents of a resource.
//!
//! Events and logs are sent as one JSON document per line. With `follow=1` the stream continues until the
//! client disconnects.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::{EventLog, LogBook};
use homeostat_store::{Key, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::Client;
use crate::forwarder::Question;
use crate::merged_documents;
use crate::merged_records::{self, RecordQuestion};
use crate::params::{self, BoolParam};
use crate::presentation::redacted;
use crate::state::Api;
use crate::status::Failure;

/// The path of events.
pub(crate) const EVENTS_PATH: &str = "/homeostat/v1/events";
/// The path of logs.
pub(crate) const LOGS_PATH: &str = "/homeostat/v1/logs";

/// Lines of a log in one response, by default.
const LINES: usize = 1000;

/// The minimum time between two reads without a match.
const PAUSE: Duration = Duration::from_millis(100);

/// Filters records.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordQuery {
    controller: Option<String>,
    /// In the printed form: `apps/v1/Deployment default/web`.
    key: Option<String>,
    after: u64,
    /// Only the last so many of the existing records.
    lines: Option<usize>,
    follow: BoolParam,
}

pub(crate) async fn kinds(State(api): State<Arc<Api>>) -> Json<Value> {
    Json(json!({ "items": api.host.kinds().list() }))
}

/// Responds with events, oldest first.
pub(crate) async fn events(State(api): State<Arc<Api>>, uri: Uri, headers: HeaderMap) -> Result<Response, Failure> {
    let source = RecordSource::Events(api.host.events());
    answer(api, source, params::parse(&uri)?, headers).await
}

/// Responds with lines of the log.
pub(crate) async fn logs(State(api): State<Arc<Api>>, uri: Uri, headers: HeaderMap) -> Result<Response, Failure> {
    let mut query: RecordQuery = params::parse(&uri)?;
    query.lines.get_or_insert(LINES);
    let source = RecordSource::Logs(api.host.logs());
    answer(api, source, query, headers).await
}

/// Responds with the records of a source. Those of controllers that work under leases are from all hosts that hold them,
/// unless the client continues after a sequence, which is a number of this host.
async fn answer(
    api: Arc<Api>,
    source: RecordSource,
    query: RecordQuery,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let may_ask = query.after == 0 && !Question::is_forwarded(&headers);
    let asked = RecordQuestion {
        path: source.path(),
        controller: query.controller.clone(),
        key: query.key.clone(),
        lines: query.lines.unwrap_or(usize::MAX),
        headers,
    };
    let own = RecordStream::new(source, query)?;
    if may_ask && asked.may_have_holders(&api.host, own.follow) {
        return Ok(merged_records::response(api, own, asked).await);
    }
    Ok(own.response())
}

/// Selects costs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CostParams {
    /// Only this controller, with its most expensive keys.
    controller: Option<String>,
    /// With the most expensive keys of all controllers.
    keys: BoolParam,
}

/// Responds with the costs of reconciles on all hosts that hold leases of the controllers, and with the
/// components that are being compiled here.
pub(crate) async fn costs(State(api): State<Arc<Api>>, uri: Uri, headers: HeaderMap) -> Result<Json<Value>, Failure> {
    let CostParams { controller, keys } = params::parse(&uri)?;
    let costs = match &controller {
        Some(name) => vec![api.host.costs_of(name)?],
        None => api.host.costs(keys.is_on()),
    };
    let compiling = |(name, since): (String, Duration)| json!({ "name": name, "compilingForMs": u64::try_from(since.as_millis()).unwrap_or(u64::MAX) });
    let compiling: Vec<Value> = api.host.all_compiling().into_iter().map(compiling).collect();
    let mut document = json!({ "items": costs, "compiling": compiling });
    let names =
        costs.iter().map(|cost| &*cost.controller).filter(|name| api.host.has_leases(name)).collect::<BTreeSet<_>>();
    let mut answers = api.ask_holders(names.iter().copied(), &Method::GET, &uri, &headers).await;
    merged_documents::add_costs(&mut document, answers.documents(), |name| names.contains(name));
    merged_documents::name_unanswered(&mut document, &answers.unanswered);
    Ok(Json(document))
}

/// Selects the dependents of an owner.
#[derive(Debug, Deserialize)]
struct DependentParams {
    uid: String,
}

/// Responds with the resources of any kind that name an owner.
pub(crate) async fn dependents(State(api): State<Arc<Api>>, request: Request) -> Result<Json<Value>, Failure> {
    let DependentParams { uid } = params::parse(request.uri())?;
    let _held = api.limits.lists.acquire(&Client::of(request.extensions()), 1).await?;
    let found = api.host.store().dependents(&uid).await?;
    let shown = found.iter().map(|resource| redacted(resource.document(), resource.key().kind()));
    Ok(Json(json!({ "items": shown.collect::<Vec<_>>() })))
}

/// Parses a key in its printed form.
fn read_key(text: &str) -> Option<Key> {
    let (kind, name) = text.split_once(' ')?;
    let (api_version, kind) = kind.rsplit_once('/')?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Some(Key::new(Kind::parse(api_version, kind).ok()?, namespace, name))
}

/// A source of records.
enum RecordSource {
    Events(Arc<EventLog>),
    Logs(Arc<LogBook>),
}

/// One record, with the fields that filters need.
struct RecordLine {
    sequence: u64,
    controller: Arc<str>,
    key: Option<Key>,
    line: Bytes,
}

impl RecordSource {
    /// Returns the path that serves the records.
    fn path(&self) -> &'static str {
        match self {
            Self::Events(_) => EVENTS_PATH,
            Self::Logs(_) => LOGS_PATH,
        }
    }

    /// Returns the records after `sequence`, of one controller or of all.
    fn read(&self, controller: Option<&str>, after: u64) -> Vec<RecordLine> {
        match self {
            Self::Events(log) => {
                let filter = EventFilter { controller: controller.map(str::to_owned), key: None, after };
                let events = log.list(&filter).into_iter();
                events
                    .map(|event| RecordLine::new(event.sequence, &event, event.controller.clone(), event.key.clone()))
                    .collect()
            }
            Self::Logs(book) => {
                let lines = book.tail(controller, after, usize::MAX).into_iter();
                lines
                    .map(|line| RecordLine::new(line.sequence, &line, line.controller.clone(), line.key.clone()))
                    .collect()
            }
        }
    }

    async fn changed(&self, after: u64) {
        match self {
            Self::Events(log) => log.changed(after).await,
            Self::Logs(book) => book.changed(after).await,
        }
    }
}

impl RecordLine {
    fn new(sequence: u64, record: &impl Serialize, controller: Arc<str>, key: Option<Key>) -> Self {
        Self { sequence, controller, key, line: format!("{}\n", json!(record)).into() }
    }
}

/// The records that one client reads.
pub(crate) struct RecordStream {
    source: RecordSource,
    controller: Option<String>,
    key: Option<Key>,
    after: u64,
    /// How many of the existing records to send; `None` once they were sent.
    first: Option<usize>,
    pub(crate) follow: bool,
}

impl RecordStream {
    fn new(source: RecordSource, query: RecordQuery) -> Result<Self, Failure> {
        let RecordQuery { controller, key, after, lines, follow } = query;
        let unreadable =
            |text: &str| Failure::bad_request(format!("key: `{text}` is not like `apps/v1/Deployment default/web`"));
        let key = key.map(|text| read_key(&text).ok_or_else(|| unreadable(&text))).transpose()?;
        let first = Some(lines.unwrap_or(usize::MAX));
        Ok(Self { source, controller, key, after, first, follow: follow.is_on() })
    }

    fn response(self) -> Response {
        let lines =
            stream::unfold(self, async |mut records| Some((Ok::<_, Infallible>(records.next().await?), records)));
        ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
    }

    /// Returns the existing lines that match. [`RecordStream::next`] continues after them.
    pub(crate) fn existing(&mut self) -> Bytes {
        let lines = self.first.take().unwrap_or(usize::MAX);
        self.read(lines)
    }

    /// Returns the next lines; `None` at the end.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            let lines = self.read(first);
            if !lines.is_empty() {
                return Some(lines);
            }
        }
        while self.follow {
            self.source.changed(self.after).await;
            let lines = self.read(usize::MAX);
            if !lines.is_empty() {
                return Some(lines);
            }
            // The new records do not match, or were evicted already.
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    /// Reads the new records and returns the last `count` lines that match.
    ///
    /// A client that follows reads the records of all controllers, because the newest sequence is that of the
    /// whole log.
    fn read(&mut self, count: usize) -> Bytes {
        let controller = self.controller.as_deref();
        let records = self.source.read(controller.filter(|_| !self.follow), self.after);
        self.after = records.last().map_or(self.after, |record| record.sequence);
        let matches = |record: &&RecordLine| {
            controller.is_none_or(|name| name == &*record.controller) && (self.key.is_none() || record.key == self.key)
        };
        let found: Vec<&RecordLine> = records.iter().filter(matches).collect();
        let lines = &found[found.len().saturating_sub(count)..];
        lines.iter().flat_map(|record| record.line.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests;
