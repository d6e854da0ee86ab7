//! Drains the rest of a request's body before the response is sent, within bounds.
//!
//! Many HTTP/1 clients send a whole body before they read the response. If the server closes the connection
//! while a body arrives, the system resets it and drops the response: instead of `413` the client sees a
//! broken pipe. HTTP/2 ends a single request, so it needs no draining.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::{Request, Version, header};
use parking_lot::Mutex;

/// Maximum bytes drained from one body. A client that sends more may lose the response.
const BYTES_MAX: u64 = 64 << 20;

/// Maximum time of draining one body.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The longest pause of a client that still sends. A client that pauses longer waits for its response.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The body of a request, of which the handler may have read a part.
pub(crate) struct UnreadBody {
    shared: Option<Arc<Mutex<SharedBody>>>,
    /// The client sent `Expect: 100-continue`: it sends the body only after the handler starts to read it.
    expects_continue: bool,
}

struct SharedBody {
    body: Incoming,
    /// Reading has started.
    is_begun: bool,
    /// The body has ended.
    is_over: bool,
}

impl UnreadBody {
    /// Lends a request's body to its handler.
    pub(crate) fn of(request: Request<Incoming>) -> (Request<Body>, Self) {
        let has_none = hyper::body::Body::is_end_stream(request.body());
        if has_none || request.version() > Version::HTTP_11 {
            return (request.map(Body::new), Self { shared: None, expects_continue: false });
        }
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let (parts, body) = request.into_parts();
        let shared = Arc::new(Mutex::new(SharedBody { body, is_begun: false, is_over: false }));
        (
            Request::from_parts(parts, Body::new(BodyHandle(Arc::clone(&shared)))),
            Self { shared: Some(shared), expects_continue },
        )
    }

    /// Reads and discards the rest of the body, unless it is too long.
    ///
    /// *Cancel safety*: bytes that were read are lost, as all bytes will be.
    pub(crate) async fn drain(self) {
        let Some(shared) = self.shared else { return };
        if !shared.lock().is_worth_reading(self.expects_continue) {
            return;
        }
        let mut left = BYTES_MAX;
        let reading = async {
            while let Ok(Some(Ok(frame))) = tokio::time::timeout(PAUSE_MAX, next(&shared)).await {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(rest) = left.checked_sub(length) else { return };
                left = rest;
            }
        };
        // After a timeout the response is sent at once.
        tokio::time::timeout(TIME_MAX, reading).await.ok();
    }
}

impl SharedBody {
    fn is_worth_reading(&self, expects_continue: bool) -> bool {
        let body = &self.body;
        let is_over = self.is_over || hyper::body::Body::is_end_stream(body);
        let is_too_long = hyper::body::Body::size_hint(body).lower() > BYTES_MAX;
        !(is_over || is_too_long || (expects_continue && !self.is_begun))
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_begun = true;
        let polled = hyper::body::Body::poll_frame(Pin::new(&mut self.body), context);
        self.is_over |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }
}

async fn next(shared: &Mutex<SharedBody>) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    std::future::poll_fn(|context| shared.lock().poll_frame(context)).await
}

/// The body, as the handler has it.
struct BodyHandle(Arc<Mutex<SharedBody>>);

impl hyper::body::Body for BodyHandle {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0.lock().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.0.lock();
        shared.is_over || hyper::body::Body::is_end_stream(&shared.body)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.0.lock().body)
    }
}
