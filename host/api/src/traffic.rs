//! Looks after one connection: whether anybody asks anything on it, and whether the client takes what it is sent.
//!
//! An answer is handed on in pieces. As long as a piece is not taken it is the client's turn, and a turn has an end: who stops reading
//! loses the connection, with all that it holds; and so does who reads, but so slowly that it comes to the same. This is the one place that bounds it, for HTTP/1 and HTTP/2 alike, where one
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

use crate::limits::BYTES_PER_SECOND_MIN;

/// Bytes of an answer that are handed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// How long at most until a connection is looked at again on which something is answered.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// How long a connection may be of no use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeoutOptions {
    /// Until its first request.
    pub(crate) first: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// With one piece of an answer, and behind what is taken at the least rate.
    pub(crate) stall: Duration,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CloseReason {
    /// Nobody asks anything.
    Idle,
    /// The client does not take what it asked for.
    Stalled,
}

/// What goes on on one connection.
pub(crate) struct ConnectionTimeouts {
    bounds: TimeoutOptions,
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
    /// Until when the client's turn lasts, by request.
    offered: BTreeMap<u64, Instant>,
}

impl State {
    /// Returns when to look again; or why the connection is to end.
    fn next_check(&self, bounds: &TimeoutOptions, now: Instant) -> Result<Instant, CloseReason> {
        let TimeoutOptions { first, idle, stall } = *bounds;
        let unused = if self.asked == 0 { first } else { idle };
        let stalled = self.offered.values().min().map(|until| (*until, CloseReason::Stalled));
        let unused = (self.answering == 0).then(|| (self.idle_since + unused, CloseReason::Idle));
        let due = [stalled, unused].into_iter().flatten().min_by_key(|(at, _)| *at);
        match due {
            Some((at, end)) if at <= now => Err(end),
            // What begins after this look is not due before these are over; but for the turn of a client that is behind.
            due => {
                let later = if self.answering == 0 { idle.min(stall) } else { idle.min(stall).min(CHECK_INTERVAL_MAX) };
                Ok((now + later).min(due.map_or(now + idle, |(at, _)| at)))
            }
        }
    }
}

impl ConnectionTimeouts {
    pub(crate) fn new(bounds: TimeoutOptions) -> Arc<Self> {
        let state = State { asked: 0, answering: 0, idle_since: Instant::now(), offered: BTreeMap::new() };
        Arc::new(Self { bounds, state: Mutex::new(state) })
    }

    /// Waits until the connection is to end.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn expired(&self) -> CloseReason {
        loop {
            let looked = self.state.lock().next_check(&self.bounds, Instant::now());
            match looked {
                Ok(again) => tokio::time::sleep_until(again).await,
                Err(end) => return end,
            }
        }
    }

    /// Notes that a request is being answered, until what this returns is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> InFlightRequest {
        let mut state = self.state.lock();
        state.asked += 1;
        state.answering += 1;
        let pace = Pace { behind: Duration::ZERO, bytes: 0, turn_since: Instant::now() };
        InFlightRequest { traffic: self.clone(), number: state.asked, pace }
    }
}

/// A request that is being answered.
pub(crate) struct InFlightRequest {
    traffic: Arc<ConnectionTimeouts>,
    number: u64,
    pace: Pace,
}

/// How fast a client takes an answer. Pure: time comes in.
///
/// Time passes against it while it has a piece to take, and each byte that it has taken earns some of that back. Time that the server takes counts
/// for it, so an answer that goes on, with little to say, is never too slow.
#[derive(Debug)]
struct Pace {
    /// How far it is behind.
    behind: Duration,
    /// Bytes of the piece that it is to take.
    bytes: usize,
    /// Since when it is the client's turn, or the server's.
    turn_since: Instant,
}

impl Pace {
    /// Begins the client's turn with so many bytes. Returns until when it lasts.
    fn begin_turn(&mut self, now: Instant, bytes: usize, stall: Duration) -> Instant {
        self.behind = self.behind.saturating_sub(now.saturating_duration_since(self.turn_since));
        (self.bytes, self.turn_since) = (bytes, now);
        now + (stall.saturating_sub(self.behind) + earned(bytes)).min(stall)
    }

    /// Ends the client's turn.
    fn end_turn(&mut self, now: Instant) {
        let took = now.saturating_duration_since(self.turn_since);
        self.behind = (self.behind + took).saturating_sub(earned(self.bytes));
        (self.bytes, self.turn_since) = (0, now);
    }
}

fn earned(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND_MIN as f64)
}

impl InFlightRequest {
    /// Returns a body that notes whose turn it is. It is the client's from now on.
    pub(crate) fn body(mut self, body: Body) -> StallGuardBody {
        self.begin_client_turn(0);
        StallGuardBody { body, rest: Bytes::new(), answering: self }
    }

    /// Begins the client's turn with so many bytes.
    fn begin_client_turn(&mut self, bytes: usize) {
        let until = self.pace.begin_turn(Instant::now(), bytes, self.traffic.bounds.stall);
        self.traffic.state.lock().offered.insert(self.number, until);
    }

    /// Ends the client's turn.
    fn end_client_turn(&mut self) {
        if self.traffic.state.lock().offered.remove(&self.number).is_some() {
            self.pace.end_turn(Instant::now());
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let mut state = self.traffic.state.lock();
        state.offered.remove(&self.number);
        state.answering -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of an answer, in pieces.
pub(crate) struct StallGuardBody {
    body: Body,
    /// What is left of what the body gave.
    rest: Bytes,
    answering: InFlightRequest,
}

impl hyper::body::Body for StallGuardBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, rest, answering } = self.get_mut();
        answering.end_client_turn();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        answering.begin_client_turn(piece.len());
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
