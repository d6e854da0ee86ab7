//! Room: what all requests together may hold at once, whoever sends them.
//!
//! Who finds none waits, in order, and is asked to come back when the wait is over, or when too many wait already.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Metrics;
use crate::metrics::Scarce;
use crate::status::Failure;

/// Seconds after which a client may ask again for what there was no room for. An API server says the same.
const RETRY_AFTER_S: u32 = 1;

/// Requests that wait for one room. More are refused at once.
const WAITING_MAX: usize = 4096;

/// Room of one sort. Clones are the same.
#[derive(Clone)]
pub(crate) struct Room {
    scarce: Scarce,
    free: Arc<Semaphore>,
    /// All of it.
    size: u32,
    line: Arc<Semaphore>,
    wait: Duration,
    metrics: Metrics,
}

/// A part of a room, free again when it is dropped.
pub(crate) type Held = OwnedSemaphorePermit;

impl Room {
    /// Makes a room of `size` parts, in which there has to be a place within `wait`.
    pub(crate) fn new(scarce: Scarce, size: usize, wait: Duration, metrics: Metrics) -> Self {
        let size = u32::try_from(size.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let (free, line) = (Arc::new(Semaphore::new(size as usize)), Arc::new(Semaphore::new(WAITING_MAX)));
        Self { scarce, free, size, line, wait, metrics }
    }

    /// Takes a part of the room; all of it at most.
    ///
    /// # Errors
    /// 429 where there is none within the time. *Cancel safety*: nothing is taken.
    pub(crate) async fn take(&self, parts: usize) -> Result<Held, Failure> {
        let parts = u32::try_from(parts).unwrap_or(u32::MAX).min(self.size);
        if let Ok(held) = self.free.clone().try_acquire_many_owned(parts) {
            return Ok(held);
        }
        let Ok(_waits) = self.line.try_acquire() else { return Err(self.refusal()) };
        let held = tokio::time::timeout(self.wait, self.free.clone().acquire_many_owned(parts)).await;
        held.ok().and_then(Result::ok).ok_or_else(|| self.refusal())
    }

    fn refusal(&self) -> Failure {
        self.metrics.refused(self.scarce);
        let what = match self.scarce {
            Scarce::Watches => "there are as many watches as this server has room for",
            Scarce::Requests => "there are as many requests as this server has room for",
            Scarce::Lists => "there are as many lists being read as this server has room for",
            Scarce::Bodies => "the bodies of other requests take all the room that this server has for them",
        };
        Failure::too_many(RETRY_AFTER_S, format!("{what}, please try again later"))
    }
}

/// Holds something for as long as an answer is being sent.
pub(crate) fn hold(response: Response, held: impl Send + Unpin + 'static) -> Response {
    response.map(|body| Body::new(Holding { body, _held: held }))
}

/// A body that holds something.
struct Holding<H> {
    body: Body,
    _held: H,
}

impl<H: Unpin> hyper::body::Body for Holding<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
