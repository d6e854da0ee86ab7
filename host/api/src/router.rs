//! Which path goes where, and who may ask at all.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use homeostat_runtime::Host;
use homeostat_store::embedded::EmbeddedStore;
use tokio::sync::{Mutex, watch};

use crate::path::{self, Route};
use crate::status::Failure;
use crate::{Check, Metrics, backup, controllers, discovery, health, metrics, negotiate, openapi, records, resources};

/// What every handler has.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) host: Host,
    pub(crate) metrics: Metrics,
    pub(crate) checks: Arc<[Check]>,
    /// The store that backups are made of; `None` where it has no file.
    pub(crate) backups: Option<Arc<EmbeddedStore>>,
    /// Held while a backup is made.
    pub(crate) backing_up: Arc<Mutex<()>>,
    /// Becomes true when the server stops; streams end then.
    pub(crate) stopped: watch::Receiver<bool>,
    pub(crate) body_bytes_max: usize,
    pub(crate) request_max: Duration,
}

pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/healthz", get(health::ready))
        .route("/metrics", get(metrics::answer))
        .route("/version", get(discovery::version))
        .route("/api", any(dialect))
        .route("/api/{*path}", any(dialect))
        .route("/apis", any(dialect))
        .route("/apis/{*path}", any(dialect))
        .route("/openapi/v3", get(async |State(api): State<Api>| openapi::index(&api.host.kinds().list())))
        .route(
            "/openapi/v3/{*path}",
            get(async |State(api): State<Api>, Path(path): Path<String>| {
                openapi::document(&api.host.kinds().list(), &path)
            }),
        )
        .route("/homeostat/v1/backup", get(backup::answer))
        .route("/homeostat/v1/kinds", get(records::kinds))
        .route("/homeostat/v1/events", get(records::events))
        .route("/homeostat/v1/logs", get(records::logs))
        .route("/homeostat/v1/dependents", get(records::dependents))
        .fallback(async |uri: Uri| no_such_path(uri.path()))
        .method_not_allowed_fallback(async || Failure::method_not_allowed("this path is only read: use GET"))
        .layer(middleware::from_fn(refuse_foreign_pages))
        .with_state(api)
}

/// Serves everything under `/api` and `/apis`.
async fn dialect(State(api): State<Api>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let route = path::parse(parts.uri.path()).ok_or_else(|| no_such_path(parts.uri.path()))?;
    if let Route::Resources(target) = route {
        let body = read(body, &api).await?;
        let ask = resources::Ask { method: &parts.method, target, uri: &parts.uri, headers: &parts.headers, body };
        let is_controllers = target.group == controllers::GROUP && target.plural == controllers::PLURAL;
        let answer =
            if is_controllers { controllers::answer(&api, &ask).await } else { resources::answer(&api, &ask).await };
        return answer.map_err(|failure| failure.about(&target));
    }
    let kinds = api.host.kinds().list();
    let all = negotiate::wants_all_groups(&parts.headers);
    match route {
        Route::Versions if all => Ok(discovery::aggregated(&kinds, true)),
        Route::Groups if all => Ok(discovery::aggregated(&kinds, false)),
        Route::Versions => Ok(discovery::versions()),
        Route::Groups => Ok(discovery::groups(&kinds)),
        Route::Group(group) => discovery::group(&kinds, group),
        Route::Kinds { group, version } => discovery::resources(&kinds, group, version),
        Route::Resources(_) => unreachable!("answered above"),
    }
}

fn no_such_path(path: &str) -> Failure {
    Failure::not_found(format!("there is nothing at {path}"))
}

/// Reads a request's body, bounded in bytes and in time.
async fn read(body: Body, api: &Api) -> Result<Bytes, Failure> {
    let Api { body_bytes_max, request_max, .. } = api;
    match tokio::time::timeout(*request_max, to_bytes(body, *body_bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_long(&error) => {
            Err(Failure::too_large(format!("the body has more than {body_bytes_max} bytes")))
        }
        Ok(Err(error)) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
        Err(_) => Err(Failure::timeout(format!("the body did not come within {} s", request_max.as_secs()))),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// Refuses what a page of some web site makes a browser on this machine ask: there is no authentication that would stop it.
async fn refuse_foreign_pages(request: Request, next: Next) -> Response {
    if is_from_here(request.headers()) {
        next.run(request).await
    } else {
        Failure::forbidden("only programs of this machine may ask: the Host or Origin of the request is another one")
            .into_response()
    }
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, authority)| authority));
    [text(header::HOST), origin].into_iter().flatten().all(is_loopback)
}

/// Returns whether an authority, `HOST` or `HOST:PORT`, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || number.is_ok_and(|number| number.is_loopback())
}

#[cfg(test)]
mod tests;
