//! The events or the log of controllers, from all hosts that hold their leases.
//!
//! First the existing lines of all hosts, in the order of their times. A client that follows gets new lines
//! then as they come. Every [`LOOK_PERIOD`] the stream looks for holders that it does not read yet, so it
//! goes on when a lease moves. A host that does not answer is named in a line with the one field
//! `unanswered`, once for each reason.
//!
//! Lines of other hosts about controllers without leases are left out: each host has its own such controllers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use homeostat_runtime::{Host, OtherHost};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::forwarder::{HOSTS_MAX, LINE_BYTES_MAX, Question, UnansweredHost};
use crate::record_stream::RecordStream;
use crate::state::Api;

/// The time between two looks for other holders.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// Parts of streams that wait for the client. More of them hold up the other hosts.
const PARTS_MAX: usize = 16;

/// Existing lines that another host is asked for at most: its answer is bounded in bytes, too.
const LINES_ASKED_MAX: usize = 4096;

/// Hosts whose reasons a stream remembers. Beyond them it may name one again.
const NAMED_MAX: usize = 256;

/// The question of a client about the records of controllers.
#[derive(Debug)]
pub(crate) struct RecordQuestion {
    /// The path of the records, as `/homeostat/v1/logs`.
    pub(crate) path: &'static str,
    /// Only lines of this controller. By default those of all controllers that work under leases.
    pub(crate) controller: Option<String>,
    /// Only lines about this key, as the client wrote it.
    pub(crate) key: Option<String>,
    /// Only the last so many of the existing lines.
    pub(crate) lines: usize,
    /// The headers of the client.
    pub(crate) headers: HeaderMap,
}

impl RecordQuestion {
    /// Returns whether other hosts may have an answer, now or while the client follows.
    pub(crate) fn may_have_holders(&self, host: &Host, follow: bool) -> bool {
        match &self.controller {
            Some(name) => host.has_leases(name),
            None => follow || !host.leased_controllers().is_empty(),
        }
    }

    /// Returns the other hosts that can answer.
    fn holders(&self, host: &Host) -> Vec<OtherHost> {
        match &self.controller {
            Some(name) => host.other_holders([&**name]),
            None => host.other_holders(host.leased_controllers().iter().map(|name| &**name)),
        }
    }

    /// Returns whether a line of another host belongs to the answer.
    fn includes(&self, host: &Host, line: &HostLine) -> bool {
        let controller = line.controller.as_deref().filter(|name| host.has_leases(name));
        controller.is_some_and(|name| self.controller.as_deref().is_none_or(|asked| asked == name))
    }

    /// Returns the question for another host.
    fn question(&self, lines: usize, after: u64, follow: bool) -> Question {
        let (lines, after) = (lines.min(LINES_ASKED_MAX).to_string(), after.to_string());
        let mut pairs = vec![("lines", &*lines)];
        pairs.extend(self.controller.as_deref().map(|controller| ("controller", controller)));
        pairs.extend(self.key.as_deref().map(|key| ("key", key)));
        pairs.extend((after != "0").then_some(("after", &*after)));
        pairs.extend(follow.then_some(("follow", "1")));
        let address = format!("http://localhost{}", self.path);
        let url = reqwest::Url::parse_with_params(&address, pairs).expect("it is a URL");
        let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
        Question::new(Method::GET, path, Bytes::new(), &self.headers)
    }
}

/// One line, as its host sent it.
#[derive(Debug)]
struct HostLine {
    /// The time of a line of a log, or of the last occurrence of an event.
    time: Option<Timestamp>,
    sequence: u64,
    controller: Option<String>,
    line: Bytes,
}

impl HostLine {
    /// Reads a line, without its end.
    fn read(line: &[u8]) -> serde_json::Result<Self> {
        let document: Value = serde_json::from_slice(line)?;
        let time = document["time"].as_str().or(document["lastSeen"].as_str()).and_then(|time| time.parse().ok());
        let sequence = document["sequence"].as_u64().unwrap_or_default();
        let controller = document["controller"].as_str().map(str::to_owned);
        Ok(Self { time, sequence, controller, line: Bytes::from([line, b"\n"].concat()) })
    }

    /// Reads all lines of a text.
    fn read_all(text: &[u8]) -> serde_json::Result<Vec<Self>> {
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(Self::read).collect()
    }
}

/// Returns the last lines of several hosts, by time. Lines of one host stay in order.
fn last_by_time(mut lines: Vec<HostLine>, count: usize) -> impl Iterator<Item = Bytes> {
    lines.sort_by_key(|line| line.time);
    let left_out = lines.len().saturating_sub(count);
    lines.into_iter().skip(left_out).map(|line| line.line)
}

fn unanswered_line(unanswered: &UnansweredHost) -> Bytes {
    format!("{}\n", json!({ "unanswered": unanswered })).into()
}

/// Responds with the lines of this host, and of the other hosts that hold leases of the controllers.
pub(crate) async fn response(api: Arc<Api>, mut own: RecordStream, asked: RecordQuestion) -> Response {
    // With one line at least, its sequence is known.
    let question = asked.question(asked.lines.max(1), 0, false);
    let holders = asked.holders(&api.host);
    let mut lines = HostLine::read_all(&own.existing()).unwrap_or_default();
    let mut answers = api.forwarder.ask_all(&holders, &question).await;
    let mut unanswered = std::mem::take(&mut answers.unanswered);
    let mut after = BTreeMap::new();
    for answer in answers.answered.drain(..) {
        match HostLine::read_all(&answer.body) {
            Ok(found) => {
                after.insert(answer.host.identity, found.last().map_or(0, |line| line.sequence));
                lines.extend(found.into_iter().filter(|line| asked.includes(&api.host, line)));
            }
            Err(error) => unanswered.push(UnansweredHost::unreadable(&answer.host, &error)),
        }
    }
    let mut first: Vec<Bytes> = unanswered.iter().map(unanswered_line).collect();
    first.extend(last_by_time(lines, asked.lines));
    let first = stream::iter([Bytes::from(first.concat())]);
    let named = unanswered.into_iter().map(|unanswered| (unanswered.host, unanswered.reason)).collect();
    let body = if own.follow {
        let followed = FollowedRecords::new(api, own, asked, after, named);
        let lines = stream::unfold(followed, async |mut followed| Some((followed.next().await?, followed)));
        Body::from_stream(first.chain(lines).map(Ok::<_, Infallible>))
    } else {
        Body::from_stream(first.map(Ok::<_, Infallible>))
    };
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// The records that one client follows.
struct FollowedRecords {
    api: Arc<Api>,
    asked: Arc<RecordQuestion>,
    /// The readers of this host and of others. Each of another host ends with the place where it ended.
    readers: JoinSet<Option<EndedStream>>,
    /// By identity, the hosts that are read, and the last sequence of those that were.
    after: BTreeMap<String, RecordPlace>,
    /// By name, the reasons of hosts that were named.
    named: BTreeMap<String, String>,
    sender: mpsc::Sender<Bytes>,
    parts: mpsc::Receiver<Bytes>,
    look: Interval,
}

/// How far the records of another host were read.
#[derive(Clone, Copy, Debug, Default)]
struct RecordPlace {
    sequence: u64,
    is_read: bool,
}

/// The end of the stream of another host.
struct EndedStream {
    host: OtherHost,
    sequence: u64,
    unanswered: UnansweredHost,
}

impl FollowedRecords {
    fn new(
        api: Arc<Api>,
        mut own: RecordStream,
        asked: RecordQuestion,
        after: BTreeMap<String, u64>,
        named: BTreeMap<String, String>,
    ) -> Self {
        let (sender, parts) = mpsc::channel(PARTS_MAX);
        let mut readers = JoinSet::new();
        let own_parts = sender.clone();
        readers.spawn(async move {
            while let Some(lines) = own.next().await
                && own_parts.send(lines).await.is_ok()
            {}
            None
        });
        let mut look = interval(LOOK_PERIOD);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let place = |(identity, sequence)| (identity, RecordPlace { sequence, is_read: false });
        let after = after.into_iter().map(place).collect();
        Self { api, asked: Arc::new(asked), readers, after, named, sender, parts, look }
    }

    /// Returns the next lines; `None` never, because the client ends the stream.
    ///
    /// *Cancel safety*: nothing is lost.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                part = self.parts.recv() => return part,
                Some(ended) = self.readers.join_next() => {
                    if let Ok(Some(ended)) = ended && let Some(line) = self.end(ended) {
                        return Some(line);
                    }
                }
                _ = self.look.tick() => self.read_holders(),
            }
        }
    }

    /// Starts to read the holders that are not read yet.
    fn read_holders(&mut self) {
        let holders = self.asked.holders(&self.api.host);
        let is_holder = |identity: &str| holders.iter().any(|host| host.identity == identity);
        self.after.retain(|identity, place| place.is_read || is_holder(identity));
        for host in holders {
            if self.readers.len() > HOSTS_MAX {
                return;
            }
            let place = self.after.entry(host.identity.clone()).or_default();
            if std::mem::replace(&mut place.is_read, true) {
                continue;
            }
            let (api, asked, sender) = (Arc::clone(&self.api), Arc::clone(&self.asked), self.sender.clone());
            let sequence = place.sequence;
            self.readers.spawn(async move { Some(read(&api, &asked, host, sequence, &sender).await) });
        }
    }

    /// Takes the end of a stream, and returns the line that names its host, if that is new.
    fn end(&mut self, EndedStream { host, sequence, unanswered }: EndedStream) -> Option<Bytes> {
        self.after.insert(host.identity, RecordPlace { sequence, is_read: false });
        if self.named.len() >= NAMED_MAX {
            self.named.clear();
        }
        let known = self.named.insert(unanswered.host.clone(), unanswered.reason.clone());
        (known.as_ref() != Some(&unanswered.reason)).then(|| unanswered_line(&unanswered))
    }
}

/// Reads the records of another host until its stream ends.
async fn read(
    api: &Api,
    asked: &RecordQuestion,
    host: OtherHost,
    mut sequence: u64,
    sender: &mpsc::Sender<Bytes>,
) -> EndedStream {
    // The earlier records of such a host are new to the client, too.
    let question = asked.question(asked.lines, sequence, true);
    let unanswered = match api.forwarder.stream(&host, &question).await {
        Err(unanswered) => unanswered,
        Ok(mut stream) => {
            let mut lines = LineBuffer::default();
            loop {
                let chunk = match stream.response.chunk().await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) => break UnansweredHost::new(&host, "its stream ended"),
                    Err(error) => break UnansweredHost::new(&host, format!("its stream broke off: {error}")),
                };
                let found = match lines.add(&chunk) {
                    Ok(found) => found,
                    Err(reason) => break UnansweredHost::new(&host, reason),
                };
                sequence = found.iter().map(|line| line.sequence).fold(sequence, u64::max);
                for line in found.into_iter().filter(|line| asked.includes(&api.host, line)) {
                    // The stream ends with its client, and this task with the stream.
                    drop(sender.send(line.line).await);
                }
            }
        }
    };
    EndedStream { host, sequence, unanswered }
}

/// The beginning of a line whose end has not come yet.
#[derive(Debug, Default)]
struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Adds bytes, and returns the lines that they end.
    ///
    /// # Errors
    /// A line of more than [`LINE_BYTES_MAX`] bytes, or one that is not JSON.
    fn add(&mut self, chunk: &[u8]) -> Result<Vec<HostLine>, String> {
        self.0.extend_from_slice(chunk);
        let end = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let rest = self.0.split_off(end);
        let whole = std::mem::replace(&mut self.0, rest);
        let is_long = |line: &[u8]| line.len() > LINE_BYTES_MAX;
        if is_long(&self.0) || whole.split(|byte| *byte == b'\n').any(is_long) {
            return Err(format!("its stream has a line of more than {} KiB", LINE_BYTES_MAX >> 10));
        }
        HostLine::read_all(&whole).map_err(|error| format!("its stream has a line that is not JSON: {error}"))
    }
}

#[cfg(test)]
mod tests;
