//! Timeouts of one connection: it must be used, and the client must read its responses.
//!
//! A response is sent in pieces. While a piece waits for the client, it is the client's turn, and a turn has
//! a time limit. A client that stops reading, or reads far too slowly, loses the connection with everything
//! that it holds. This is the only place that bounds it, for HTTP/1 and HTTP/2 alike. Over HTTP/2, one
//! response can stall while others continue.

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

/// Bytes of a response that are sent as one piece.
const PIECE_BYTES: usize = 64 * 1024;

/// The maximum time between two checks of a connection with requests in flight.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// How long a connection may be unused or stalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeoutOptions {
    /// Until its first request.
    pub(crate) first: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// For one piece of a response, and for the lag behind the minimum rate.
    pub(crate) stall: Duration,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CloseReason {
    /// No request arrived in time.
    Idle,
    /// The client does not read a response.
    Stalled,
}

/// The requests and timeouts of one connection.
pub(crate) struct ConnectionTimeouts {
    options: TimeoutOptions,
    state: Mutex<State>,
}

/// Pure: the time is an argument.
#[derive(Debug)]
struct State {
    /// The number of requests so far.
    requests: u64,
    /// The number of requests in flight.
    in_flight: usize,
    /// When the last response ended, or the connection opened.
    idle_since: Instant,
    /// When the client's turn ends, by request.
    turn_ends: BTreeMap<u64, Instant>,
}

impl State {
    /// Returns the time of the next check, or why the connection must be closed.
    fn next_check(&self, options: &TimeoutOptions, now: Instant) -> Result<Instant, CloseReason> {
        let TimeoutOptions { first, idle, stall } = *options;
        let unused = if self.requests == 0 { first } else { idle };
        let stalled = self.turn_ends.values().min().map(|until| (*until, CloseReason::Stalled));
        let unused = (self.in_flight == 0).then(|| (self.idle_since + unused, CloseReason::Idle));
        let due = [stalled, unused].into_iter().flatten().min_by_key(|(at, _)| *at);
        match due {
            Some((at, end)) if at <= now => Err(end),
            // Turns and pauses that start after this check end after this time. Only the turn of a client
            // that lags can end earlier.
            due => {
                let later = if self.in_flight == 0 { idle.min(stall) } else { idle.min(stall).min(CHECK_INTERVAL_MAX) };
                Ok((now + later).min(due.map_or(now + idle, |(at, _)| at)))
            }
        }
    }
}

impl ConnectionTimeouts {
    pub(crate) fn new(options: TimeoutOptions) -> Arc<Self> {
        let state = State { requests: 0, in_flight: 0, idle_since: Instant::now(), turn_ends: BTreeMap::new() };
        Arc::new(Self { options, state: Mutex::new(state) })
    }

    /// Waits until the connection must be closed.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn expired(&self) -> CloseReason {
        loop {
            let check = self.state.lock().next_check(&self.options, Instant::now());
            match check {
                Ok(again) => tokio::time::sleep_until(again).await,
                Err(end) => return end,
            }
        }
    }

    /// Registers a request as in flight until the result is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> InFlightRequest {
        let mut state = self.state.lock();
        state.requests += 1;
        state.in_flight += 1;
        let pace = Pace { behind: Duration::ZERO, bytes: 0, turn_since: Instant::now() };
        InFlightRequest { timeouts: self.clone(), number: state.requests, pace }
    }
}

/// A request in flight.
pub(crate) struct InFlightRequest {
    timeouts: Arc<ConnectionTimeouts>,
    number: u64,
    pace: Pace,
}

/// How fast a client reads a response. Pure: the time is an argument.
///
/// The lag grows during the client's turns, and shrinks with each byte that the client reads. It also shrinks
/// during the server's turns, so a stream with few events is never too slow.
#[derive(Debug)]
struct Pace {
    /// How far the client lags behind the minimum rate.
    behind: Duration,
    /// Bytes of the piece that waits for the client.
    bytes: usize,
    /// When the current turn began, of the client or the server.
    turn_since: Instant,
}

impl Pace {
    /// Begins the client's turn with so many bytes. Returns when it must end.
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
    /// Returns a body that tracks the turns. It is the client's turn from now on.
    pub(crate) fn body(mut self, body: Body) -> StallGuardBody {
        self.begin_client_turn(0);
        StallGuardBody { body, rest: Bytes::new(), request: self }
    }

    /// Begins the client's turn with so many bytes.
    fn begin_client_turn(&mut self, bytes: usize) {
        let until = self.pace.begin_turn(Instant::now(), bytes, self.timeouts.options.stall);
        self.timeouts.state.lock().turn_ends.insert(self.number, until);
    }

    /// Ends the client's turn.
    fn end_client_turn(&mut self) {
        if self.timeouts.state.lock().turn_ends.remove(&self.number).is_some() {
            self.pace.end_turn(Instant::now());
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let mut state = self.timeouts.state.lock();
        state.turn_ends.remove(&self.number);
        state.in_flight -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of a response, in pieces.
pub(crate) struct StallGuardBody {
    body: Body,
    /// The rest of the last frame of the body.
    rest: Bytes,
    request: InFlightRequest,
}

impl hyper::body::Body for StallGuardBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, rest, request } = self.get_mut();
        request.end_client_turn();
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
        request.begin_client_turn(piece.len());
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
