//! What requests may take: how many of what at once, and how long anything.

use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::watch;

use crate::client::Client;
use crate::params::parse_bool;
use crate::path::{BACKUP, HEALTH, METRICS};
use crate::room::{Limiter, hold_until_sent};
use crate::shutdown;
use crate::status::Failure;
use crate::tokens::AuthenticatedCaller;

/// The longest watch that says how long it is to be. A client asks again then.
const TIMED_WATCH_MAX: Duration = Duration::from_secs(24 * 3600);

/// Bytes in a second that a client must send of a body, and take of an answer, in the long run.
pub(crate) const BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// The bounds of a server.
pub(crate) struct Limits {
    /// Taken by each watch, and by whatever else goes on until the client leaves.
    pub(crate) watches: Limiter,
    /// Taken by every other request until its answer is sent; not by those that say how the host is.
    pub(crate) requests: Limiter,
    /// Taken by each list, and by what is told first in a watch, until it is sent.
    pub(crate) lists: Limiter,
    /// In bytes: taken by the body of a request, while it is read, until it is answered.
    pub(crate) bodies: Limiter,
    /// Bytes of one body.
    pub(crate) body_bytes_max: usize,
    /// Bytes of the beginning of a body, for which room is taken as they arrive.
    pub(crate) beginning_bytes_max: usize,
    /// How long a body may take to come.
    pub(crate) request_max: Duration,
    /// The longest watch that does not say how long it is to be. The shortest is half of it.
    pub(crate) watch_max: Duration,
    /// How long an answer may take to begin.
    pub(crate) answer_max: Duration,
}

/// What a request takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequestClass {
    /// An answer.
    Answer,
    /// An answer that goes on for as long as the client says, or else for a time that is ours to choose.
    Watch(Option<Duration>),
    /// A stream of records, which ends when the client leaves.
    RecordStream,
    /// A copy of the whole store.
    Backup,
    /// A word about how the host is, which it has to have room for at its worst.
    Probe,
}

impl RequestClass {
    fn classify(method: &Method, uri: &Uri) -> Result<Self, Failure> {
        if uri.path() == BACKUP {
            return Ok(Self::Backup);
        }
        if HEALTH.contains(&uri.path()) || uri.path() == METRICS {
            return Ok(Self::Probe);
        }
        // Pairs, so that no repetition hides from here what a handler sees. It refuses a query that is none.
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map_or(Vec::new(), |Query(pairs)| pairs);
        let says = |wanted: &str| {
            let mut said = pairs.iter().filter(|(name, _)| name == wanted).map(|(name, value)| parse_bool(name, value));
            said.try_fold(false, |is_on, said| said.map(|said| is_on | said.is_on()))
        };
        let mut times = pairs.iter().filter(|(name, _)| name == "timeoutSeconds");
        Ok(match () {
            () if method != Method::GET => Self::Answer,
            () if says("watch")? => Self::Watch(times.next().map_or(Ok(None), |(_, seconds)| time(seconds))?),
            () if says("follow")? => Self::RecordStream,
            () => Self::Answer,
        })
    }
}

/// Reads how long a watch is to last; none is no time of its own.
fn time(seconds: &str) -> Result<Option<Duration>, Failure> {
    let unreadable = |_| Failure::bad_request(format!("timeoutSeconds: `{seconds}` is not a number of seconds"));
    let seconds: u64 = seconds.parse().map_err(unreadable)?;
    Ok(Some(Duration::from_secs(seconds).min(TIMED_WATCH_MAX)).filter(|time| !time.is_zero()))
}

/// Answers a request within its bounds.
pub(crate) async fn bound(
    limits: &Limits,
    stopped: &watch::Receiver<bool>,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let Limits { watches, requests, .. } = limits;
    let Limits { watch_max, answer_max, .. } = *limits;
    let client = Client::of(request.extensions());
    let time = match RequestClass::classify(request.method(), request.uri()) {
        Err(failure) => return failure.into_response(),
        Ok(RequestClass::Backup) => return next(request).await,
        Ok(RequestClass::Probe) => return within(answer_max, request, next).await,
        Ok(RequestClass::Answer) => {
            return match requests.acquire(&client, 1).await {
                Ok(one) => hold_until_sent(within(answer_max, request, next).await, one),
                Err(failure) => failure.into_response(),
            };
        }
        Ok(RequestClass::Watch(time)) => Some(time.unwrap_or_else(|| between_half_and_all(watch_max))),
        Ok(RequestClass::RecordStream) => None,
    };
    let one = match watches.acquire(&client, 1).await {
        Ok(one) => one,
        Err(failure) => return failure.into_response(),
    };
    let pass = request.extensions().get::<AuthenticatedCaller>().cloned();
    let response = within(answer_max, request, next).await;
    if !response.status().is_success() {
        return response;
    }
    response.map(|body| until(stream_end(stopped.clone(), time, pass), body, one))
}

/// Waits for the end of an answer that goes on: the server's, that of its time, or that of the token that asked.
///
/// *Cancel safety*: nothing is lost.
async fn stream_end(stopped: watch::Receiver<bool>, time: Option<Duration>, pass: Option<AuthenticatedCaller>) {
    let time = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => pending().await,
        }
    };
    let token = async {
        match pass {
            Some(pass) => pass.revoked().await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = shutdown::requested(&stopped) => {}
        () = time => {}
        () = token => {}
    }
}

/// Ends a body, whether or not it has more to say, and holds something for as long as it goes on.
fn until(end: impl Future<Output = ()> + Send + 'static, body: Body, held: impl Send + 'static) -> Body {
    let pieces = body.into_data_stream().map(move |piece| {
        let _held = &held;
        piece
    });
    Body::from_stream(pieces.take_until(end))
}

/// Waits for an answer to begin.
async fn within(answer_max: Duration, request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    let answer = tokio::time::timeout(answer_max, next(request)).await;
    answer.unwrap_or_else(|_| {
        let reason = format!(
            "Timeout: request did not complete within {} s: what it was to change may have been changed",
            answer_max.as_secs_f32()
        );
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", reason).into_response()
    })
}

/// Spreads ends over the upper half, so that watches that began together do not all come back together.
fn between_half_and_all(all: Duration) -> Duration {
    let half = all / 2;
    let share = RandomState::new().hash_one(0_u8) % 1024;
    half + half.mul_f64(share as f64 / 1024.0)
}

#[cfg(test)]
mod tests;
