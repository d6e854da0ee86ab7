//! The limits of requests: how many at once, and how long each may take.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

use crate::authentication::AuthenticatedCaller;
use crate::body::BodyLimits;
use crate::client::Client;
use crate::document_response::DocumentFormat;
use crate::limiter::Limiter;
use crate::params::{self, BoolParam};
use crate::path::{BACKUP, METRICS, is_health};
use crate::status::Failure;
use crate::{negotiate, yaml_response};

/// The longest watch that a client may request with `timeoutSeconds`. Clients watch again afterwards.
const TIMED_WATCH_MAX: Duration = Duration::from_secs(24 * 3600);

/// The minimum average rate, in bytes a second, at which a client sends a body and reads a response.
pub(crate) const BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// The limits of a server.
pub(crate) struct Limits {
    /// Held by each watch, and by every other stream that ends when the client disconnects.
    pub(crate) watches: Limiter,
    /// Held by every other request until its response is sent. Health and metrics requests are exempt.
    pub(crate) requests: Limiter,
    /// Held by each list, and by the initial events of a watch, until they are sent.
    pub(crate) lists: Limiter,
    /// The limits of the bodies of requests.
    pub(crate) bodies: BodyLimits,
    /// Held by each request to a webhook until its response is sent.
    pub(crate) webhooks: Limiter,
    /// The limits of the bodies of webhooks.
    pub(crate) webhook_bodies: BodyLimits,
    /// The longest watch without `timeoutSeconds`. The shortest is half of it.
    pub(crate) watch_max: Duration,
    /// How long a response may take to start.
    pub(crate) answer_max: Duration,
}

/// Which limits apply to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequestClass {
    /// A response that ends by itself.
    Answer,
    /// A watch, for the requested time, or for a time that the server chooses.
    Watch(Option<Duration>),
    /// A stream of records, which ends when the client disconnects.
    RecordStream,
    /// A copy of the whole store.
    Backup,
    /// Health or metrics, which must be answered even if every limit is reached.
    Probe,
}

impl RequestClass {
    fn classify(method: &Method, uri: &Uri) -> Result<Self, Failure> {
        if uri.path() == BACKUP {
            return Ok(Self::Backup);
        }
        if is_health(uri.path()) || uri.path() == METRICS {
            return Ok(Self::Probe);
        }
        // All pairs, so that a repeated parameter cannot mean one thing here and another to the handler. The
        // handler refuses a query that does not parse.
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map_or(Vec::new(), |Query(pairs)| pairs);
        let is_set = |parameter: &str| {
            pairs.iter().any(|(name, value)| name == parameter && BoolParam::from(value.as_str()).is_on())
        };
        let mut times = pairs.iter().filter(|(name, _)| name == "timeoutSeconds");
        Ok(match () {
            () if method != Method::GET => Self::Answer,
            () if is_set("watch") => Self::Watch(times.next().map_or(Ok(None), |(_, seconds)| time(seconds))?),
            () if is_set("follow") => Self::RecordStream,
            () => Self::Answer,
        })
    }
}

/// Parses the requested duration of a watch; zero means none.
fn time(seconds: &str) -> Result<Option<Duration>, Failure> {
    let unreadable = |_| Failure::bad_request(format!("timeoutSeconds: `{seconds}` is not a number of seconds"));
    let seconds: u64 = seconds.parse().map_err(unreadable)?;
    Ok(Some(Duration::from_secs(seconds).min(TIMED_WATCH_MAX)).filter(|time| !time.is_zero()))
}

/// Answers a request within its limits.
pub(crate) async fn bound(
    limits: &Limits,
    stopped: &CancellationToken,
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
            let answer_max = match params::timeout(request.uri()) {
                Ok(given) => given.map_or(answer_max, |given| given.min(answer_max)),
                Err(failure) => return failure.into_response(),
            };
            let is_yaml = negotiate::document_format(request.headers()) == Some(DocumentFormat::Yaml);
            let next = async |request| match is_yaml {
                true => yaml_response::converted(next(request).await).await,
                false => next(request).await,
            };
            return match requests.acquire(&client, 1).await {
                Ok(permit) => hold_until_sent(within(answer_max, request, next).await, permit),
                Err(failure) => failure.into_response(),
            };
        }
        Ok(RequestClass::Watch(time)) => Some(time.unwrap_or_else(|| between_half_and_all(watch_max))),
        Ok(RequestClass::RecordStream) => None,
    };
    let permit = match watches.acquire(&client, 1).await {
        Ok(permit) => permit,
        Err(failure) => return failure.into_response(),
    };
    let caller = request.extensions().get::<AuthenticatedCaller>().cloned();
    let response = within(answer_max, request, next).await;
    if !response.status().is_success() {
        return response;
    }
    hold_until_sent(response.map(|body| until(stream_end(stopped.clone(), time, caller), body)), permit)
}

/// Waits for the end of a stream: the server stops, its time is over, or its token is revoked.
///
/// *Cancel safety*: nothing is lost.
async fn stream_end(stopped: CancellationToken, time: Option<Duration>, caller: Option<AuthenticatedCaller>) {
    tokio::select! {
        () = stopped.cancelled() => {}
        Some(()) = OptionFuture::from(time.map(tokio::time::sleep)) => {}
        Some(()) = OptionFuture::from(caller.as_ref().map(AuthenticatedCaller::revoked)) => {}
    }
}

/// Ends a body when `end` resolves.
fn until(end: impl Future<Output = ()> + Send + 'static, body: Body) -> Body {
    Body::from_stream(body.into_data_stream().take_until(end))
}

/// Holds a value until the response is sent. The length of the response stays known.
pub(crate) fn hold_until_sent(response: Response, held: impl Send + 'static) -> Response {
    response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _held = &held;
            error
        }))
    })
}

/// Waits for a response to start.
pub(crate) async fn within(
    answer_max: Duration,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let answer = tokio::time::timeout(answer_max, next(request)).await;
    answer.unwrap_or_else(|_| {
        let reason = format!(
            "Timeout: request did not complete within {} s, and its change may have been made",
            answer_max.as_secs_f32()
        );
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", reason).into_response()
    })
}

/// Spreads the ends of watches over the upper half, so that watches that started together do not all restart
/// together.
fn between_half_and_all(all: Duration) -> Duration {
    let half = all / 2;
    let share = RandomState::new().hash_one(0_u8) % 1024;
    half + half.mul_f64(share as f64 / 1024.0)
}

#[cfg(test)]
mod tests;
