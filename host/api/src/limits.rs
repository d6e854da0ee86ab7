//! What requests may take: how many watches at once, and how long anything.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::Semaphore;

use crate::params::is_yes;
use crate::router::{Api, BACKUP};
use crate::status::Failure;

/// Seconds after which a client may ask again for a watch that there was no room for. An API server says the same.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The bounds of a server.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Taken by each watch, and by whatever else goes on until the client leaves.
    pub(crate) watches: Arc<Semaphore>,
    /// The longest watch that does not say how long it is to be. The shortest is half of it.
    pub(crate) watch_max: Duration,
    /// How long an answer may take to begin.
    pub(crate) answer_max: Duration,
}

/// What a request takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Takes {
    /// An answer.
    Answer,
    /// An answer that goes on for a time that is ours to choose.
    Watch,
    /// An answer that goes on for as long as the client says.
    TimedWatch,
    /// A stream of records, which ends when the client leaves.
    Records,
    /// A copy of the whole store.
    Backup,
}

impl Takes {
    fn of(method: &Method, uri: &Uri) -> Self {
        if uri.path() == BACKUP {
            return Self::Backup;
        }
        // Pairs, so that no repetition hides from here what a handler sees.
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else { return Self::Answer };
        let says = |wanted: &str| pairs.iter().any(|(name, value)| name == wanted && is_yes(Some(value)));
        let is_timed = pairs.iter().any(|(name, value)| name == "timeoutSeconds" && value != "0");
        match () {
            () if method != Method::GET => Self::Answer,
            () if says("watch") && is_timed => Self::TimedWatch,
            () if says("watch") => Self::Watch,
            () if says("follow") => Self::Records,
            () => Self::Answer,
        }
    }
}

/// Answers a request within its bounds.
pub(crate) async fn bound(State(api): State<Api>, request: Request, next: Next) -> Response {
    let Limits { watches, watch_max, answer_max } = api.limits;
    let takes = Takes::of(request.method(), request.uri());
    let time = match takes {
        Takes::Backup => return next.run(request).await,
        Takes::Answer => return within(answer_max, request, next).await,
        Takes::Watch => Some(between_half_and_all(watch_max)),
        Takes::TimedWatch | Takes::Records => None,
    };
    let Ok(one) = watches.try_acquire_owned() else { return too_many() };
    let response = within(answer_max, request, next).await;
    if !response.status().is_success() {
        return response;
    }
    response.map(|body| {
        let pieces = body.into_data_stream().map(move |piece| {
            let _held = &one;
            piece
        });
        match time {
            Some(time) => Body::from_stream(pieces.take_until(tokio::time::sleep(time))),
            None => Body::from_stream(pieces),
        }
    })
}

/// Waits for an answer to begin.
async fn within(answer_max: Duration, request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(answer_max, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let reason = format!(
            "Timeout: request did not complete within {} s: what it was to change may have been changed",
            answer_max.as_secs_f32()
        );
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", reason).into_response()
    })
}

fn too_many() -> Response {
    let reason = "there are as many watches as this server has room for, please try again later";
    let mut response = Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", reason).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

/// Spreads ends over the upper half, so that watches that began together do not all come back together.
fn between_half_and_all(all: Duration) -> Duration {
    let half = all / 2;
    let share = RandomState::new().hash_one(0_u8) % 1024;
    half + half.mul_f64(share as f64 / 1024.0)
}

#[cfg(test)]
mod tests;
