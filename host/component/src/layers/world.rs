//! The innermost layers: [`World`] performs effects, and [`Headers`] completes HTTP requests before. Outer
//! layers have decided whether to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use homeostat_store::{Fence, Key, Kind, Page, Query, Request, Selector, Store, View, Write};
use wasmtime_wasi::Rng;

use super::HttpClient;
use crate::effect::{
    Answer, Blob, Call, Effect, Effects, HttpError, HttpRequest, HttpResponse, Level, PageData, QueuePriority,
    ResourceData, Severity, StoreError, WriteData,
};
use crate::grants::{Grants, HeaderSource};

/// Receives events, log lines and follows of guests. Implementations must not block: they buffer with a
/// bound, and process elsewhere.
pub trait Sink: Send + Sync + 'static {
    /// Receives one event.
    fn event(&self, call: &Call, event: GuestEvent);

    /// Receives one log line.
    fn line(&self, call: &Call, line: GuestLogLine);

    /// Receives one follow on behalf of the key of the call. It takes effect when the reconcile succeeds.
    ///
    /// # Errors
    /// `NotFound` for an undeclared kind, `Unavailable`.
    fn follow(&self, call: &Call, followed: FollowTarget) -> Result<(), StoreError>;

    /// Receives one key for the controller's own queue, which takes it at once.
    ///
    /// # Errors
    /// `Invalid` for a key that no resource of the managed kind can have, `Forbidden`, `Unavailable`.
    fn enqueue(&self, call: &Call, enqueued: EnqueuedKey) -> Result<(), StoreError>;
}

/// An event as emitted by a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestEvent {
    /// The severity.
    pub severity: Severity,
    /// One word, at most 128 bytes.
    pub reason: String,
    /// At most 1024 bytes.
    pub message: String,
    /// The resource it is about; `None` for the key of the call.
    pub regarding: Option<Key>,
}

/// A log line as written by a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestLogLine {
    /// The level.
    pub level: Level,
    /// At most 4096 bytes.
    pub message: String,
    /// At most 16, with names of at most 128 bytes and values of at most 1024.
    pub fields: Vec<(String, String)>,
}

/// A key that a guest enqueues.
#[derive(Clone, Debug, PartialEq)]
pub struct EnqueuedKey {
    /// The key.
    pub key: Key,
    /// The delay, at most 365 days.
    pub after: Duration,
    /// The band.
    pub priority: QueuePriority,
    /// Whether no event shortens the delay.
    pub hold: bool,
}

/// The target of a dynamic watch.
#[derive(Clone, Debug, PartialEq)]
pub enum FollowTarget {
    /// One resource.
    Key(Key),
    /// Every resource of a kind that the selector matches.
    All(Kind, Selector),
}

/// The terms of the leases under which a controller works. Must not block.
pub trait Terms: Send + Sync + 'static {
    /// Returns the term under which a write is sent now, or an effect outside of every store, which has no kind.
    ///
    /// # Errors
    /// `Unavailable` when this host does not hold the lease of the call's key.
    fn term(&self, call: &Call, kind: Option<&Kind>) -> Result<WriteTerm, StoreError>;

    /// Receives how a write has ended.
    fn ended(&self, call: &Call, end: WriteEnd);
}

/// The term of a lease, as a write needs it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WriteTerm {
    /// The term that the store of the kind compares; `None` where the store compares none.
    pub fence: Option<Fence>,
    /// The write is given up after this time: another host may begin soon after.
    pub timeout: Duration,
}

/// How a write has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteEnd {
    /// The store has answered.
    Answered,
    /// The store has not answered, or the caller has not waited for its answer: the write may still arrive.
    Unanswered,
    /// The store has refused it: another term has begun.
    Fenced,
}

/// A write that is on its way. Dropping it says that the caller does not wait for its answer.
struct WriteOnItsWay<'a> {
    terms: &'a dyn Terms,
    call: &'a Call,
    end: WriteEnd,
}

impl Drop for WriteOnItsWay<'_> {
    fn drop(&mut self) {
        self.terms.ended(self.call, self.end);
    }
}

/// The store, settings, network, clocks and randomness of one controller.
pub struct World {
    store: Arc<dyn Store>,
    /// `None` for a controller that works under no lease.
    terms: Option<Arc<dyn Terms>>,
    sink: Arc<dyn Sink>,
    config: Arc<BTreeMap<String, String>>,
    http: HttpClient,
    started: Instant,
    random: Mutex<Box<dyn Rng + Send>>,
}

impl World {
    /// Creates a world. `config` is the guest's settings.
    pub fn new(
        store: Arc<dyn Store>,
        sink: Arc<dyn Sink>,
        config: Arc<BTreeMap<String, String>>,
        http: HttpClient,
    ) -> Self {
        let random = Mutex::new(wasmtime_wasi::thread_rng());
        Self { store, terms: None, sink, config, http, started: Instant::now(), random }
    }

    /// Writes under the terms of leases from now on.
    #[must_use]
    pub fn under(self, terms: Arc<dyn Terms>) -> Self {
        Self { terms: Some(terms), ..self }
    }

    async fn list(&self, query: &Query, view: View) -> Result<PageData, StoreError> {
        let Page { items, revision, next, remaining: _ } = self.store.list(&Query { view, ..query.clone() }).await?;
        let items = items.iter().map(|item| ResourceData::new(item, view)).collect();
        Ok(PageData { items, revision: revision.to_string(), next })
    }

    async fn write(&self, call: &Call, write: Write) -> Result<WriteData, StoreError> {
        let mut request = Request { manager: call.controller.to_string(), ..write.into() };
        let response = match self.terms.as_deref() {
            None => self.store.submit(request).await,
            Some(terms) => {
                let WriteTerm { fence, timeout } = terms.term(call, Some(&request.write.target()?.kind))?;
                request.fence = fence;
                let mut on_its_way = WriteOnItsWay { terms, call, end: WriteEnd::Unanswered };
                let response = tokio::time::timeout(timeout, self.store.submit(request)).await;
                let late = || homeostat_store::Error::unavailable("it does not answer in the time that a lease leaves");
                let response = response.unwrap_or_else(|_| Err(late()));
                on_its_way.end = match &response {
                    Err(homeostat_store::Error::Unavailable { .. }) => WriteEnd::Unanswered,
                    Err(homeostat_store::Error::Fenced { .. }) => WriteEnd::Fenced,
                    _ => WriteEnd::Answered,
                };
                response
            }
        };
        let homeostat_store::WriteResponse { resource, change, .. } = response?;
        Ok(WriteData { resource: ResourceData::new(&resource, View::Whole), change })
    }

    /// Sends an HTTP request, unless the lease of the call is lost.
    async fn send(&self, call: &Call, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Some(terms) = &self.terms {
            terms.term(call, None).map_err(|lost| HttpError::Unreachable(lost.to_string()))?;
        }
        self.http.send(request).await
    }

    fn random(&self, bytes: u32) -> Blob {
        let mut buffer = vec![0; bytes as usize];
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut buffer);
        buffer.into()
    }
}

#[async_trait]
impl Effects for World {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        match effect {
            Effect::Get { key, view, live } => {
                let resource =
                    if live { self.store.get_live(&key).await } else { self.store.get_view(&key, view).await };
                Answer::Resource(resource.map(|resource| ResourceData::new(&resource, view)).map_err(Into::into))
            }
            Effect::List { query, view } => Answer::Page(self.list(&query, view).await),
            Effect::Write(write) => Answer::Written(self.write(call, write).await),
            Effect::Follow { target } => Answer::Done(self.sink.follow(call, FollowTarget::Key(target))),
            Effect::FollowAll { kind, selector } => {
                Answer::Done(self.sink.follow(call, FollowTarget::All(kind, selector)))
            }
            Effect::Enqueue { key, after_ms, priority, hold } => {
                let after = Duration::from_millis(after_ms);
                Answer::Done(self.sink.enqueue(call, EnqueuedKey { key, after, priority, hold }))
            }
            Effect::Emit { severity, reason, message, regarding } => {
                self.sink.event(call, GuestEvent { severity, reason, message, regarding });
                Answer::Unit
            }
            Effect::Log { level, message, fields } => {
                self.sink.line(call, GuestLogLine { level, message, fields });
                Answer::Unit
            }
            Effect::Config { key } => Answer::Config(settings(&self.config, key.as_deref())),
            Effect::Http(request) => Answer::Http(self.send(call, request).await),
            Effect::WallClock => {
                Answer::Nanoseconds(nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
            }
            Effect::MonotonicClock => Answer::Nanoseconds(nanoseconds(self.started.elapsed())),
            Effect::Random { bytes } => Answer::Bytes(self.random(bytes)),
            Effect::Reach(absent) => Answer::Done(Err(StoreError::Forbidden(absent.denial()))),
        }
    }
}

/// Returns one setting, or all of them.
pub(super) fn settings(config: &BTreeMap<String, String>, key: Option<&str>) -> Vec<(String, String)> {
    let pair = |(key, value): (&String, &String)| (key.clone(), value.clone());
    match key {
        Some(key) => config.get_key_value(key).into_iter().map(pair).collect(),
        None => config.iter().map(pair).collect(),
    }
}

/// Returns whole nanoseconds, which suffice until the year 2554.
fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A source of secrets.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// Returns the current secret of this name. Called for every request, so that a secret can be rotated
    /// without a restart.
    ///
    /// # Errors
    /// A reason for the host's operator, without any part of the secret.
    async fn get(&self, name: &str) -> Result<Blob, String>;
}

/// Adds the manifest's headers to HTTP requests, including secrets: sets the headers of the grant that covers
/// a request, and replaces headers of the guest with the same names.
///
/// Belongs directly around [`World`]: recording layers must lie outside of it, so that no secret is ever
/// recorded. Missing grants are not this layer's concern.
pub struct Headers<E> {
    grants: Arc<Grants>,
    secrets: Arc<dyn Secrets>,
    inner: E,
}

impl<E: Effects> Headers<E> {
    /// Adds the headers of `grants` to requests that go to `inner`.
    pub fn new(grants: Arc<Grants>, secrets: Arc<dyn Secrets>, inner: E) -> Self {
        Self { grants, secrets, inner }
    }

    /// Returns the headers to add to a request. An error names the missing secret; the guest does not learn
    /// why it is missing.
    async fn headers(&self, method: &str, url: &str) -> Result<Vec<(String, Blob)>, HttpError> {
        let Some(grant) = self.grants.http_grant(method, url) else { return Ok(Vec::new()) };
        let mut headers = Vec::with_capacity(grant.headers.len());
        for (name, source) in &grant.headers {
            let value = match source {
                HeaderSource::Value(text) => Blob::from(text.clone()),
                HeaderSource::Secret(secret) => self.secrets.get(secret).await.map_err(|_| {
                    HttpError::Unreachable(format!("the host has no secret {secret:?} for the header {name}"))
                })?,
            };
            headers.push((name.to_ascii_lowercase(), value));
        }
        Ok(headers)
    }
}

#[async_trait]
impl<E: Effects> Effects for Headers<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let Effect::Http(mut request) = effect else { return self.inner.perform(call, effect).await };
        match self.headers(&request.method, &request.url).await {
            Ok(added) => {
                request.headers.retain(|(name, _)| !added.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
                request.headers.extend(added);
                self.inner.perform(call, Effect::Http(request)).await
            }
            Err(error) => Answer::Http(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests;
