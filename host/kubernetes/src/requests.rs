//! The one way to the server: each request waits for its turn, is sent, and is tried again where the server said
//! that it did nothing.
//!
//! Tried again are answers of 429, of 503 with a time to wait, and once an answer of 401, with new credentials.
//! Nothing else: a request without an answer may have been carried out. Credentials are read again after an answer
//! of 401, and when one side does not accept the certificate of the other.

pub(crate) mod pace;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use homeostat_store::RequestCounts;
use homeostat_store::cached::jitter;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::{Notify, watch};

use self::pace::{Pace, Refusal, Wait};
use crate::errors::{RequestError, Status};
use crate::identity::Identity;
use crate::settings::ClusterSettings;

/// Longest answer, in bytes. A longer page of a list is asked for again with fewer resources.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Longest error document, in bytes; the rest is not read.
const ERROR_BYTES_MAX: usize = 256 << 10;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Its name for people and metrics, as `list`.
    pub(crate) verb: &'static str,
    /// The method.
    pub(crate) method: Method,
    /// The path and the parameters.
    pub(crate) uri: String,
    /// The type and the text of the body.
    pub(crate) body: Option<(&'static str, Bytes)>,
    accept: &'static str,
    is_list: bool,
    is_urgent: bool,
    /// When the request has to have ended, if that is before the longest wait for an answer.
    until: Option<Instant>,
}

impl Call {
    /// Asks for JSON.
    pub(crate) fn get(verb: &'static str, uri: String) -> Self {
        Self::with_body(verb, Method::GET, uri, None)
    }

    /// Sends a body.
    pub(crate) fn with_body(
        verb: &'static str,
        method: Method,
        uri: String,
        body: Option<(&'static str, Bytes)>,
    ) -> Self {
        Self { verb, method, uri, body, accept: "application/json", is_list: false, is_urgent: false, until: None }
    }

    /// Asks for another type of answer.
    #[must_use]
    pub(crate) fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Waits as long as a page of a list may take.
    #[must_use]
    pub(crate) fn waiting_for_list(mut self) -> Self {
        self.is_list = true;
        self
    }

    /// Sends the request without waiting for others: the renewal of a lease is of no use when it comes late.
    #[must_use]
    pub(crate) fn urgent(mut self) -> Self {
        self.is_urgent = true;
        self
    }

    /// Ends the request at a time, also where the longest wait for an answer is later.
    #[must_use]
    pub(crate) fn until(mut self, until: Option<Instant>) -> Self {
        self.until = until;
        self
    }

    /// Returns the request. A server that gets a write drops it once `left` has passed.
    fn request(&self, left: Duration) -> std::result::Result<http::Request<Body>, RequestError> {
        let uri = match self.method {
            Method::GET => self.uri.clone(),
            _ => {
                let sign = if self.uri.contains('?') { '&' } else { '?' };
                // Zero stands for the longest time of the server.
                format!("{}{sign}timeout={}ms", self.uri, left.as_millis().max(1))
            }
        };
        let mut request = http::Request::builder().method(self.method.clone()).uri(uri);
        request = request.header(ACCEPT, self.accept);
        if let Some((content_type, _)) = &self.body {
            request = request.header(CONTENT_TYPE, *content_type);
        }
        let body = self.body.as_ref().map_or_else(Body::empty, |(_, text)| Body::from(text.clone()));
        request.body(body).map_err(|error| RequestError::Unsent(error.to_string()))
    }
}

/// A whole answer without an error.
#[derive(Debug)]
pub(crate) struct ServerResponse {
    /// The code.
    pub(crate) code: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

/// Sends requests to a server.
pub(crate) struct Requests {
    identity: Identity,
    pace: Mutex<Pace>,
    /// Told for each request that ends.
    ended: Notify,
    started: Instant,
    deadline: Duration,
    deadline_list: Duration,
    silence_max: Duration,
    closed: watch::Sender<bool>,
    sent: AtomicU64,
    retried: AtomicU64,
}

impl Requests {
    pub(crate) fn new(settings: &ClusterSettings) -> Self {
        Self {
            identity: Identity::new(settings.credentials.clone()),
            pace: Mutex::new(Pace::new(settings.in_flight_max, settings.per_second_max)),
            ended: Notify::new(),
            started: Instant::now(),
            deadline: settings.deadline,
            deadline_list: settings.deadline_list,
            silence_max: settings.silence_max,
            closed: watch::Sender::new(false),
            sent: AtomicU64::new(0),
            retried: AtomicU64::new(0),
        }
    }

    /// Returns the longest silence of a watch.
    pub(crate) fn silence_max(&self) -> Duration {
        self.silence_max
    }

    /// Returns the namespace of the credentials: that of the context, else `default`.
    ///
    /// # Errors
    /// The credentials cannot be read.
    pub(crate) async fn namespace(&self) -> std::result::Result<String, RequestError> {
        let session = self.identity.session().await.map_err(RequestError::Unsent)?;
        Ok(session.namespace.clone())
    }

    /// Returns the numbers of requests since the start.
    pub(crate) fn counts(&self) -> RequestCounts {
        let (sent, retried) = (self.sent.load(Ordering::Relaxed), self.retried.load(Ordering::Relaxed));
        RequestCounts { sent, retried, skipped: 0 }
    }

    /// Ends every request, and refuses further ones.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Waits until the requests were closed. Cancel safe.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as this value.
        drop(self.closed.subscribe().wait_for(|closed| *closed).await);
    }

    /// Sends a request and returns its whole answer.
    pub(crate) async fn send(&self, call: Call) -> std::result::Result<ServerResponse, RequestError> {
        let deadline = self.deadline_of(&call);
        let whole = async {
            let (response, permit) = self.respond(&call, deadline).await?;
            let (parts, body) = response.into_parts();
            let body = read(body, ANSWER_BYTES_MAX).await?;
            drop(permit);
            Ok(ServerResponse { code: parts.status, headers: parts.headers, body })
        };
        self.bounded(deadline, whole).await
    }

    /// Sends a request and returns the body of its answer, which may never end.
    pub(crate) async fn open(&self, call: Call) -> std::result::Result<Body, RequestError> {
        let deadline = self.deadline_of(&call);
        let headers = async { Ok(self.respond(&call, deadline).await?.0.into_body()) };
        self.bounded(deadline, headers).await
    }

    fn deadline_of(&self, call: &Call) -> Instant {
        let longest = Instant::now() + if call.is_list { self.deadline_list } else { self.deadline };
        call.until.map_or(longest, |until| until.min(longest))
    }

    async fn bounded<T>(
        &self,
        deadline: Instant,
        task: impl Future<Output = std::result::Result<T, RequestError>>,
    ) -> std::result::Result<T, RequestError> {
        tokio::select! {
            biased;
            () = self.closed() => Err(RequestError::Closed),
            done = tokio::time::timeout_at(deadline.into(), task) => {
                done.unwrap_or_else(|_| Err(RequestError::Lost("the server did not answer in time".to_owned())))
            }
        }
    }

    /// Sends a request until it is answered without an error that asks for another try.
    async fn respond(
        &self,
        call: &Call,
        deadline: Instant,
    ) -> std::result::Result<(http::Response<Body>, Option<Permit<'_>>), RequestError> {
        let (mut retries, mut has_renewed) = (0, false);
        loop {
            let permit = if call.is_urgent { None } else { Some(self.permit().await) };
            let session = self.identity.session().await.map_err(RequestError::Unsent)?;
            self.sent.fetch_add(1, Ordering::Relaxed);
            let request = call.request(deadline.saturating_duration_since(Instant::now()))?;
            let response = match session.client.send(request).await {
                Ok(response) => response,
                Err(error) => {
                    let reason = describe(&error);
                    // One of the two sides does not know the other's certificate any more.
                    if ["certificate", "handshake"].iter().any(|word| reason.contains(word)) {
                        self.identity.renew(session.number).await;
                    }
                    return Err(RequestError::Lost(reason));
                }
            };
            tracing::trace!(
                verb = call.verb,
                uri = call.uri,
                code = response.status().as_u16(),
                "a request was answered"
            );
            if response.status().is_success() {
                return Ok((response, permit));
            }
            let status = error_status(response).await;
            drop(permit.map(|permit| permit.refused(status.code == 429)));
            if status.code == 401 && !has_renewed {
                has_renewed = true;
                self.retried.fetch_add(1, Ordering::Relaxed);
                self.identity.renew(session.number).await;
                continue;
            }
            let wait = retry_wait(&status, retries).filter(|wait| Instant::now() + *wait < deadline);
            let Some(wait) = wait else {
                return Err(RequestError::Refused(Box::new(status)));
            };
            retries += 1;
            self.retried.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(wait).await;
        }
    }

    async fn permit(&self) -> Permit<'_> {
        loop {
            // Registered before the check, so that no end from here on is missed.
            let ended = self.ended.notified();
            let start = self.pace().start(self.started.elapsed());
            match start {
                Ok(()) => {
                    // Ends for which no request waited yet are kept as one.
                    if self.pace().has_slot() {
                        self.ended.notify_one();
                    }
                    return Permit { requests: self, refused: false };
                }
                Err(Wait::Slot) => ended.await,
                Err(Wait::Until(at)) => tokio::time::sleep_until((self.started + at).into()).await,
            }
        }
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send one request.
struct Permit<'a> {
    requests: &'a Requests,
    refused: bool,
}

impl Permit<'_> {
    /// Says whether the server asked for fewer requests.
    fn refused(mut self, refused: bool) -> Self {
        self.refused = refused;
        self
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let has_slot = {
            let mut pace = self.requests.pace();
            pace.end(self.refused);
            pace.has_slot()
        };
        if has_slot {
            self.requests.ended.notify_one();
        }
    }
}

/// Returns how long to wait before another try; `None` where the request may have been carried out, or will be
/// refused again.
fn retry_wait(status: &Status, retries: u32) -> Option<Duration> {
    let asked = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    let refusal = match (status.code, asked.map(Duration::from_secs)) {
        (429, retry_after) => Refusal::Busy { retry_after },
        (503, Some(retry_after)) => Refusal::Unavailable { retry_after },
        _ => return None,
    };
    Some(pace::wait(refusal, retries, jitter()))
}

async fn error_status(response: http::Response<Body>) -> Status {
    let (parts, body) = response.into_parts();
    let header = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    // A body that could not be read is left out: the code says enough.
    let body = read(body, ERROR_BYTES_MAX).await.unwrap_or_default();
    let mut status = Status::parse(parts.status, &body);
    if let Some(seconds) = header {
        status.details.get_or_insert_default().retry_after_seconds = seconds;
    }
    status
}

async fn read(mut body: Body, bytes_max: usize) -> std::result::Result<Bytes, RequestError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RequestError::Lost(describe(&error)))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if read.len() + bytes.len() > bytes_max {
            return Err(RequestError::TooLong(bytes_max as u64));
        }
        read.extend_from_slice(&bytes);
    }
    Ok(read.freeze())
}

/// Returns an error with its causes. None of them has credentials: the plugins that make them are run by this
/// crate.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    // Many errors repeat the text of their cause.
    texts.dedup_by(|cause, text| text.ends_with(cause.as_str()));
    texts.join(": ")
}
