//! Looks after one connection: whether anybody asks anything on it, and whether the client takes what it is sent.
//!
//! An answer is handed on in pieces. As long as a piece is not taken it is the client's turn, and a turn has an end: who stops reading
//! loses the connection, with all that it holds. This is the one place that bounds it, for HTTP/1 and HTTP/2 alike, where one
//! answer can stand still while others go on.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Bytes of an answer that are handed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// How long a connection may be of no use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Until its first request.
    pub(crate) first: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// With one piece of an answer.
    pub(crate) stall: Duration,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// Nobody asks anything.
    Idle,
    /// The client does not take what it asked for.
    Stalled,
}

/// What goes on on one connection.
pub(crate) struct Traffic {
    bounds: Bounds,
    state: Mutex<State>,
}

/// Pure: time comes in.
#[derive(Debug)]
struct State {
    /// How many requests there were.
    asked: u64,
    /// How many of them are being answered.
    answering: usize,
    /// When the last one was answered, or the connection opened.
    idle_since: Instant,
    /// Since when it is the client's turn, by request.
    offered: BTreeMap<u64, Instant>,
}

impl State {
    /// Returns when to look again; or why the connection is to end.
    fn look(&self, bounds: &Bounds, now: Instant) -> Result<Instant, End> {
        let Bounds { first, idle, stall } = *bounds;
        let unused = if self.asked == 0 { first } else { idle };
        let stalled = self.offered.values().min().map(|since| (*since + stall, End::Stalled));
        let unused = (self.answering == 0).then(|| (self.idle_since + unused, End::Idle));
        let due = [stalled, unused].into_iter().flatten().min_by_key(|(at, _)| *at);
        match due {
            Some((at, end)) if at <= now => Err(end),
            // What begins after this look is not due before these are over.
            due => Ok((now + idle.min(stall)).min(due.map_or(now + idle, |(at, _)| at))),
        }
    }
}

impl Traffic {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        let state = State { asked: 0, answering: 0, idle_since: Instant::now(), offered: BTreeMap::new() };
        Arc::new(Self { bounds, state: Mutex::new(state) })
    }

    /// Waits until the connection is to end.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn end(&self) -> End {
        loop {
            let looked = self.state.lock().look(&self.bounds, Instant::now());
            match looked {
                Ok(again) => tokio::time::sleep_until(again).await,
                Err(end) => return end,
            }
        }
    }

    /// Notes that a request is being answered, until what this returns is dropped.
    pub(crate) fn asked(self: &Arc<Self>) -> Answering {
        let mut state = self.state.lock();
        state.asked += 1;
        state.answering += 1;
        Answering { traffic: self.clone(), number: state.asked }
    }
}

/// A request that is being answered.
pub(crate) struct Answering {
    traffic: Arc<Traffic>,
    number: u64,
}

impl Answering {
    /// Returns a body that notes whose turn it is. It is the client's from now on.
    pub(crate) fn body(self, body: Body) -> Offered {
        self.offer();
        Offered { body, rest: Bytes::new(), answering: self }
    }

    /// Begins the client's turn.
    fn offer(&self) {
        self.traffic.state.lock().offered.insert(self.number, Instant::now());
    }

    /// Ends the client's turn.
    fn taken(&self) {
        self.traffic.state.lock().offered.remove(&self.number);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.traffic.state.lock();
        state.offered.remove(&self.number);
        state.answering -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of an answer, in pieces.
pub(crate) struct Offered {
    body: Body,
    /// What is left of what the body gave.
    rest: Bytes,
    answering: Answering,
}

impl hyper::body::Body for Offered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, rest, answering } = self.get_mut();
        answering.taken();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        answering.offer();
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(left));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}

#[cfg(test)]
mod tests;
