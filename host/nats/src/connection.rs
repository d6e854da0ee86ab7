//! The connection to the servers: requests with a deadline, and the news about the connection.

mod identity;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::connection::State;
use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, Message, Request, RequestErrorKind, Server, ServerError, Subscriber,
};
use bytes::Bytes;
use homeostat_store::cached::{ExponentialBackoff, jitter};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::errors::{RequestError, RequestResult};
use crate::protocol::{Acknowledgement, Refusal};
use crate::settings::{BucketSettings, Timings};

/// Longest text of a server that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 512;
/// Wait between two attempts to connect again: at least a quarter of it, so that many attempts in a row are
/// never without a wait. At most the two seconds in which hosts work again that hold their lease.
const RECONNECT_BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(200), longest: Duration::from_secs(2), spread: (0.25, 1.0) };

/// The most batches of one host that are on their way at once. A server has 50 open batches of a stream at
/// most, and hosts share them.
const BATCHES_MAX: usize = 16;

const BATCH_ID_HEADER: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE_HEADER: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT_HEADER: &str = "Nats-Batch-Commit";

/// Time between two looks whether there is a connection again. The client does not tell in time.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A connection, which the client renews by itself for as long as it lives. Requests fail at once while there
/// is none: the client would keep them and send them later.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    /// The prefix of requests, without a dot.
    api: String,
    /// The prefix of the subjects of values, with a dot; or empty.
    values: String,
    timings: Timings,
    news: Arc<News>,
    /// Requests that were sent.
    sent: AtomicU64,
    /// The batches that may be on their way at once.
    batches: Semaphore,
}

/// One message of an atomic batch.
#[derive(Debug, Clone)]
pub(crate) struct BatchMessage {
    /// Without the prefix of values.
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

/// The news about the connection, from the client's callbacks.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Grows each time a connection is lost.
    losses: watch::Sender<u64>,
    /// The last error that the server told, which is about some request.
    server_error: Mutex<Option<String>>,
    /// Why the last attempt to connect failed. `None` while there is a connection.
    attempt_error: Mutex<Option<String>>,
}

impl Connection {
    /// Connects to one of the servers.
    pub(crate) async fn open(settings: &BucketSettings) -> RequestResult<Self> {
        let news = Arc::new(News::default());
        let client = options(settings, Arc::clone(&news)).connect(settings.servers.as_slice()).await;
        let client = client.map_err(|error| RequestError::Away(described(&error)))?;
        Ok(Self {
            client,
            api: settings.api.prefix(),
            values: settings.api.value_prefix(),
            timings: settings.timings,
            news,
            sent: AtomicU64::new(0),
            batches: Semaphore::new(BATCHES_MAX),
        })
    }

    /// Returns the number of requests that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns what the server says of itself.
    pub(crate) fn server(&self) -> async_nats::ServerInfo {
        self.client.server_info()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns a receiver that changes each time a connection is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.news.losses.subscribe()
    }

    /// Waits until there is a connection, at most for as long as one attempt may take.
    pub(crate) async fn connected(&self) -> RequestResult<()> {
        let wait = async {
            while !self.is_connected() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(self.timings.connect, wait).await.map_err(|_| self.away())
    }

    /// Makes a request of JetStream. `subject` comes after the prefix.
    pub(crate) async fn call<T: DeserializeOwned>(&self, subject: &str, body: &Value) -> RequestResult<T> {
        let request = Request::new().payload(body.to_string().into());
        decode(&self.send(format!("{}.{subject}", self.api), request).await?.payload)
    }

    /// Publishes a value and waits for its sequence.
    pub(crate) async fn publish(&self, subject: &str, headers: HeaderMap, payload: Bytes) -> RequestResult<u64> {
        let request = Request::new().headers(headers).payload(payload);
        sequence(&self.send(format!("{}{subject}", self.values), request).await?.payload)
    }

    /// Publishes an atomic batch, and waits for the sequence of its last message. The others have the
    /// sequences before it, in their order. The server stores all of them or none.
    ///
    /// Cancel safe: a batch without its last message is dropped by the server.
    pub(crate) async fn publish_batch(&self, mut messages: Vec<BatchMessage>) -> RequestResult<u64> {
        let count = messages.len();
        let Some(last) = messages.pop() else { return Err(RequestError::Silent("the batch is empty".to_owned())) };
        let id = uuid::Uuid::new_v4().simple().to_string();
        let _permit = self.batches.acquire().await.map_err(|_| self.away())?;
        if !self.is_connected() {
            return Err(self.away());
        }
        // The server keeps a batch without its last message for a while.
        if messages.iter().chain([&last]).any(|message| message.payload.len() as u64 > self.payload_bytes_max()) {
            return Err(RequestError::TooLarge);
        }
        for (at, BatchMessage { subject, mut headers, payload }) in messages.into_iter().enumerate() {
            headers.insert(BATCH_ID_HEADER, id.as_str());
            headers.insert(BATCH_SEQUENCE_HEADER, (at + 1).to_string());
            let sent = self.client.publish_with_headers(format!("{}{subject}", self.values), headers, payload).await;
            sent.map_err(|error| match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => RequestError::TooLarge,
                _ => RequestError::Away(described(&error)),
            })?;
        }
        let BatchMessage { subject, mut headers, payload } = last;
        headers.insert(BATCH_ID_HEADER, id.as_str());
        headers.insert(BATCH_SEQUENCE_HEADER, count.to_string());
        headers.insert(BATCH_COMMIT_HEADER, "1");
        let request = Request::new().headers(headers).payload(payload);
        let answer = self.send(format!("{}{subject}", self.values), request).await?;
        let sequence = sequence(&answer.payload)?;
        match serde_json::from_slice(&answer.payload) {
            Ok(Acknowledgement { count: stored, .. }) if stored == count => Ok(sequence),
            _ => Err(RequestError::Silent("the server stored the last message of a batch alone".to_owned())),
        }
    }

    /// Subscribes to a new subject of this connection.
    pub(crate) async fn inbox(&self) -> RequestResult<(String, Subscriber)> {
        if !self.is_connected() {
            return Err(self.away());
        }
        let inbox = self.client.new_inbox();
        match self.client.subscribe(inbox.clone()).await {
            Ok(subscriber) => Ok((inbox, subscriber)),
            Err(error) => Err(RequestError::Away(described(&error))),
        }
    }

    /// Answers a flow-control request of a consumer. Without the answer the server stops delivering.
    pub(crate) async fn respond(&self, reply: async_nats::Subject) -> RequestResult<()> {
        let sent = self.client.publish(reply, Bytes::new()).await;
        sent.map_err(|error| RequestError::Away(described(&error)))
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        if let Err(error) = self.client.drain().await {
            tracing::debug!(%error, "the connection had ended before");
        }
    }

    /// Returns the size of the largest message, in bytes.
    pub(crate) fn payload_bytes_max(&self) -> u64 {
        self.client.max_payload() as u64
    }

    async fn send(&self, subject: String, request: Request) -> RequestResult<Message> {
        let mut losses = self.losses();
        if !self.is_connected() {
            return Err(self.away());
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = tokio::select! {
            biased;
            answer = self.client.send_request(subject.clone(), request) => answer,
            // The client waits for answers that cannot come any more.
            _ = losses.changed() => return Err(RequestError::Silent("the connection was lost before the answer".to_owned())),
        };
        answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => RequestError::NoResponders,
            RequestErrorKind::MaxPayloadExceeded => RequestError::TooLarge,
            RequestErrorKind::TimedOut => self.unanswered(&subject),
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => RequestError::Silent(described(&error)),
        })
    }

    fn away(&self) -> RequestError {
        let attempt =
            lock(&self.news.attempt_error).clone().map(|error| format!("; the last attempt failed: {error:?}"));
        let said = || self.server_error().map(|error| format!("; the server said {error:?}"));
        let why = attempt.or_else(said).unwrap_or_default();
        RequestError::Away(format!("there is no connection to the servers{why}"))
    }

    /// Returns why a request was not answered: a server tells a missing permission beside the request.
    fn unanswered(&self, subject: &str) -> RequestError {
        match self.server_error() {
            Some(error) if error.contains("Permissions Violation") && error.contains(&format!("\"{subject}\"")) => {
                RequestError::Forbidden(format!("{error:?}"))
            }
            _ => RequestError::Silent(format!("no answer within {} ms", self.timings.request.as_millis())),
        }
    }

    fn server_error(&self) -> Option<String> {
        lock(&self.news.server_error).clone()
    }
}

impl News {
    fn tell(&self, event: &Event) {
        match event {
            Event::Connected => {
                *lock(&self.server_error) = None;
                *lock(&self.attempt_error) = None;
            }
            Event::Disconnected | Event::Closed => self.losses.send_modify(|losses| *losses += 1),
            Event::ServerError(ServerError::Other(text)) => self.keep(text),
            Event::ServerError(ServerError::AuthorizationViolation) => self.keep("Authorization Violation"),
            // The event of a failed attempt has no cause. The next attempt tells it.
            Event::ClientError(error) => {
                lock(&self.attempt_error).get_or_insert_with(|| bounded(&error.to_string()));
            }
            _ => {}
        }
    }

    fn keep(&self, text: &str) {
        *lock(&self.server_error) = Some(bounded(text));
    }

    /// Keeps why the attempt before this one failed.
    fn attempt(&self, servers: &[Server]) {
        let errors: BTreeSet<&str> = servers.iter().filter_map(|server| server.last_error.as_deref()).collect();
        if !errors.is_empty() {
            *lock(&self.attempt_error) = Some(bounded(&Vec::from_iter(errors).join("; ")));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns as much of a text as is kept.
fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

pub(crate) fn options(settings: &BucketSettings, news: Arc<News>) -> ConnectOptions {
    let BucketSettings { name, credentials, tls, timings, .. } = settings;
    let attempts = Arc::clone(&news);
    let mut options = match credentials.clone() {
        Some(credentials) => ConnectOptions::with_auth_callback(move |nonce| {
            let answer = identity::answer(&credentials, &nonce);
            async move { answer.map_err(async_nats::AuthError::new) }
        }),
        None => ConnectOptions::new(),
    };
    options = options
        .name(if name.is_empty() { "homeostat".to_owned() } else { format!("homeostat {name}") })
        .connection_timeout(timings.connect)
        .request_timeout(Some(timings.request))
        .ping_interval(timings.heartbeat)
        .require_tls(tls.required || tls.first)
        .reconnect_delay_callback(|attempts| reconnect_delay(attempts, jitter()))
        .reconnect_to_server_callback(move |servers, _| {
            attempts.attempt(&servers);
            // The client chooses the server.
            async { None }
        })
        .event_callback(move |event| {
            news.tell(&event);
            async {}
        });
    if tls.first {
        options = options.tls_first();
    }
    if let Some(authority) = &tls.authority {
        options = options.add_root_certificates(authority.clone());
    }
    if let Some((certificate, key)) = &tls.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    options
}

/// Returns the wait before an attempt to connect, which `attempts` counts from 1. The first attempt may be at
/// once, and is spread so that many hosts do not return in one moment. `jitter` is from 0 to 1.
fn reconnect_delay(attempts: usize, jitter: f64) -> Duration {
    match u32::try_from(attempts).unwrap_or(u32::MAX) {
        0 | 1 => RECONNECT_BACKOFF.first.mul_f64(jitter),
        attempts => RECONNECT_BACKOFF.delay(attempts, jitter),
    }
}

/// Returns the text of an error with its cause, which may be the text of a server.
fn described(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {:?}", cause.to_string()),
        None => error.to_string(),
    }
}

fn decode<T: DeserializeOwned>(payload: &[u8]) -> RequestResult<T> {
    let malformed = |error: serde_json::Error| RequestError::Silent(format!("the answer cannot be read: {error}"));
    let refusal: Refusal = serde_json::from_slice(payload).map_err(malformed)?;
    match refusal.error {
        Some(error) => Err(RequestError::Refused(error)),
        None => serde_json::from_slice(payload).map_err(malformed),
    }
}

/// Returns the sequence of a stored value.
fn sequence(payload: &[u8]) -> RequestResult<u64> {
    match serde_json::from_slice(payload) {
        Ok(Acknowledgement { error: Some(error), .. }) => Err(RequestError::Refused(error)),
        Ok(Acknowledgement { error: None, seq, count: _ }) if seq > 0 => Ok(seq),
        Ok(_) => Err(RequestError::Silent("the answer has no sequence".to_owned())),
        Err(error) => Err(RequestError::Silent(format!("the answer cannot be read: {error}"))),
    }
}
