//! Follows the resources of one kind: sends the requests of the [`machine`] and reads their answers.

pub(crate) mod machine;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use homeostat_store::cached::{Delta, DeltaStream, Start, jitter};
use homeostat_store::{Error, Kind, Result, View};
use http_body_util::BodyExt;
use kube::client::Body;

use self::machine::{ListStrategy, ListWatchMachine, StreamAction, StreamEvent, StreamRequest};
use crate::catalog::ServedKind;
use crate::document;
use crate::errors::RequestError;
use crate::lines::{LINE_BYTES_MAX, Line, Lines};
use crate::path::Parameters;
use crate::requests::{Call, Requests};

/// Longest wait for a line of a list that is sent by a watch.
const LIST_SILENCE_MAX: Duration = Duration::from_secs(30);
/// Shortest and longest life of a watch, in seconds; between them, so that watches do not all end at once.
const WATCH_SECONDS: (f64, f64) = (240.0, 290.0);

/// Records how to list a kind, for its next stream.
pub(crate) type StrategyRecorder = Box<dyn Fn(&Kind, ListStrategy) + Send>;

/// A stream of the resources of one kind.
pub(crate) struct KindStream {
    requests: Arc<Requests>,
    kind: Kind,
    version: String,
    collection: String,
    labels: Option<&'static str>,
    view: View,
    silence_max: Duration,
    recorder: StrategyRecorder,
    machine: ListWatchMachine,
    next: StreamAction,
    deltas: VecDeque<Delta>,
    /// The open watch.
    watch: Option<OpenWatch>,
}

struct OpenWatch {
    body: Body,
    lines: Lines,
    since: Instant,
    /// When the server last sent something.
    heard: tokio::time::Instant,
}

/// The resources that a stream follows.
pub(crate) struct Subject {
    /// The kind.
    pub(crate) served: ServedKind,
    /// The version of its documents.
    pub(crate) version: String,
    /// The path of its resources.
    pub(crate) collection: String,
    /// The selector of the labels that its resources have; `None` for all resources.
    pub(crate) labels: Option<&'static str>,
    /// How much of each resource is needed.
    pub(crate) view: View,
}

impl KindStream {
    /// Opens a stream: sends its first request.
    pub(crate) async fn open(
        requests: Arc<Requests>,
        Subject { served, version, collection, labels, view }: Subject,
        start: Start,
        strategy: ListStrategy,
        recorder: StrategyRecorder,
    ) -> Result<Self> {
        let (machine, request) = ListWatchMachine::new(served.kind.clone(), start, strategy);
        let silence_max = requests.silence_max();
        let mut stream = Self {
            requests,
            kind: served.kind,
            version,
            collection,
            labels,
            view,
            silence_max,
            recorder,
            machine,
            next: StreamAction::Send(request),
            deltas: VecDeque::new(),
            watch: None,
        };
        stream.advance().await?;
        match stream.next {
            StreamAction::Fail(error) => Err(error),
            _ => Ok(stream),
        }
    }

    /// Does what the machine wants next. Cancel safe: a request that was dropped is sent again, and a line is
    /// taken only when it was read whole.
    async fn advance(&mut self) -> Result<()> {
        let event = match &self.next {
            StreamAction::Send(request) => {
                self.watch = None;
                let (call, is_watch) = self.call(request);
                self.send(call, is_watch).await?
            }
            StreamAction::Read => self.read().await?,
            StreamAction::Fail(error) => return Err(error.clone()),
        };
        let before = self.machine.strategy();
        self.next = self.machine.step(event, &mut self.deltas);
        if self.machine.strategy() != before {
            (self.recorder)(&self.kind, self.machine.strategy());
        }
        Ok(())
    }

    async fn send(&mut self, call: Call, is_watch: bool) -> Result<StreamEvent> {
        if is_watch {
            return Ok(match self.requests.open(call).await {
                Ok(body) => {
                    let heard = tokio::time::Instant::now();
                    self.watch = Some(OpenWatch { body, lines: Lines::default(), since: Instant::now(), heard });
                    StreamEvent::Opened
                }
                Err(failure) => StreamEvent::Failed(failure),
            });
        }
        match self.requests.send(call).await {
            Ok(answer) => Ok(StreamEvent::Page(document::page(&answer.body, &self.kind, &self.version)?)),
            Err(failure) => Ok(StreamEvent::Failed(failure)),
        }
    }

    fn call(&self, request: &StreamRequest) -> (Call, bool) {
        let limit = |limit: &Option<u32>| limit.map(|limit| limit.to_string());
        let seconds = WATCH_SECONDS.0 + jitter() * (WATCH_SECONDS.1 - WATCH_SECONDS.0);
        let watch = Parameters::default()
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("timeoutSeconds", &format!("{seconds:.0}"));
        let (parameters, is_watch) = match request {
            StreamRequest::Page { exactly, from: None, limit: count } => {
                let exactly = exactly.map(|at| at.to_string());
                let parameters = Parameters::default()
                    .with_some("limit", limit(count).as_deref())
                    .with_some("resourceVersion", exactly.as_deref())
                    .with_some("resourceVersionMatch", exactly.as_ref().map(|_| "Exact"));
                (parameters, false)
            }
            StreamRequest::Page { from: token, limit: count, .. } => {
                let parameters = Parameters::default().with_some("limit", limit(count).as_deref());
                (parameters.with_some("continue", token.as_deref()), false)
            }
            StreamRequest::Stream { not_before } => {
                let not_before = not_before.map(|at| at.to_string());
                let parameters = watch
                    .with("sendInitialEvents", "true")
                    .with("resourceVersionMatch", "NotOlderThan")
                    .with_some("resourceVersion", not_before.as_deref());
                (parameters, true)
            }
            StreamRequest::Watch { after } => (watch.with("resourceVersion", &after.to_string()), true),
        };
        let parameters = parameters.with_some("labelSelector", self.labels);
        let verb = if is_watch { "watch" } else { "list" };
        let call = Call::get(verb, parameters.after(&self.collection));
        let call = match is_watch {
            true => call.accepting(accept_watch(self.view)),
            false => call.accepting(accept_list(self.view)).waiting_for_list(),
        };
        (call, is_watch)
    }

    async fn read(&mut self) -> Result<StreamEvent> {
        let silence_max = if self.machine.is_streaming() { LIST_SILENCE_MAX } else { self.silence_max };
        let Some(watch) = &mut self.watch else {
            return Ok(StreamEvent::Ended { lived: Duration::ZERO });
        };
        loop {
            if let Some(line) = watch.lines.next() {
                let line = match line {
                    Line::Whole(text) => document::line(&text, &self.kind, &self.version)?,
                    Line::Head(head) => {
                        let line = document::long_line(&head, &self.kind, &self.version);
                        line.ok_or_else(|| too_long(&self.kind))?
                    }
                };
                return Ok(StreamEvent::Line(line));
            }
            let lived = watch.since.elapsed();
            let frame = tokio::select! {
                frame = tokio::time::timeout_at(watch.heard + silence_max, watch.body.frame()) => frame,
                () = self.requests.closed() => return Err(Error::Closed),
            };
            let bytes = match frame {
                Err(_) => return Ok(StreamEvent::Silent),
                Ok(None | Some(Err(_))) => return Ok(StreamEvent::Ended { lived }),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            watch.heard = tokio::time::Instant::now();
            if watch.lines.add(&bytes).is_err() {
                return Err(too_long(&self.kind));
            }
        }
    }
}

/// Returns the error of a line that is too long and does not tell its resource.
fn too_long(kind: &Kind) -> Error {
    RequestError::TooLong(LINE_BYTES_MAX as u64).about(&format!("watch of {kind}"))
}

/// Returns the type of a list that has what a view needs.
pub(crate) fn accept_list(view: View) -> &'static str {
    match view {
        View::Whole => "application/json",
        View::Metadata | View::Keys => {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// Returns the type of the resources of a watch that have what a view needs.
fn accept_watch(view: View) -> &'static str {
    match view {
        View::Whole => "application/json",
        View::Metadata | View::Keys => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    }
}

#[async_trait]
impl DeltaStream for KindStream {
    async fn next(&mut self) -> Result<Delta> {
        loop {
            if let Some(delta) = self.deltas.pop_front() {
                return Ok(delta);
            }
            self.advance().await?;
        }
    }
}
