//! Routes requests to handlers by path.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use homeostat_runtime::{Host, Requester, manifest};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::authentication::AuthenticatedCaller;
use crate::client::Client;
use crate::forwarder::{ANSWERED_BY, FORWARDED_TO};
use crate::metrics::ExpositionFormat;
use crate::path::{self, BACKUP, HEALTH, METRICS, OPENID_CONFIGURATION, OPENID_KEYS, Route};
use crate::request::RequestContext;
use crate::state::Api;
use crate::status::Failure;
use crate::warnings::WarningRecorder;
use crate::{
    access, backup, body, controllers, discovery, document_response, health, hosts, kind_graph, limits, negotiate,
    openapi, record_stream, resources, reviews, role_guard, stores, webhooks,
};

/// Answers the requests of all connections. Clones share one state.
#[derive(Clone)]
pub(crate) struct ApiService {
    api: Arc<Api>,
    /// Handles everything outside of the Kubernetes API.
    router: TowerToHyperService<Router>,
}

impl ApiService {
    pub(crate) fn new(api: Api) -> Self {
        let api = Arc::new(api);
        Self { router: TowerToHyperService::new(router(Arc::clone(&api))), api }
    }

    /// Authenticates and authorises a request, and answers it within its limits.
    pub(crate) async fn answer(&self, mut request: Request) -> Response {
        let api = &self.api;
        if let Some(plain) = path::unescaped(request.uri()).filter(|plain| is_kubernetes_path(plain.path())) {
            *request.uri_mut() = plain;
        }
        if request.method() == Method::GET
            && let Some(list) = path::watched(request.uri())
        {
            *request.uri_mut() = list;
        }
        let format = negotiate::document_format(request.headers());
        let mark = request.headers().get(FORWARDED_TO).cloned();
        let is_own = mark.as_ref().is_none_or(|mark| mark.as_bytes() == api.host.identity().as_bytes());
        // The senders of webhooks have no token of this server: each webhook checks them.
        let mut response = if webhooks::is_webhook(request.uri().path()) {
            webhooks::answer(api, request, is_own).await
        } else {
            // In this order: an unauthorised request takes no permits.
            access::check(api, request, async |request| {
                if !is_own {
                    return misdirected(&api.host).into_response();
                }
                limits::bound(&api.limits, &api.stopped, request, async |request| self.route(request).await).await
            })
            .await
        };
        // Here only refusals that were made before the request got its permit are left to encode.
        response = document_response::encoded(response, format);
        // The name is that of the request, so it tells the client nothing.
        response.headers_mut().extend(mark.filter(|_| is_own).map(|mark| (ANSWERED_BY, mark)));
        response
    }

    async fn route(&self, request: Request) -> Response {
        let format = negotiate::document_format(request.headers());
        // Nearly all requests are about resources, and need no router.
        let response = if is_kubernetes_path(request.uri().path()) {
            kubernetes_api(&self.api, request).await.into_response()
        } else {
            let Ok(response) = self.router.call(request).await;
            response
        };
        document_response::encoded(response, format)
    }
}

fn is_kubernetes_path(path: &str) -> bool {
    let below = path.strip_prefix("/apis").or_else(|| path.strip_prefix("/api"));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

fn router(api: Arc<Api>) -> Router {
    let [alive, ready, healthy] = HEALTH;
    Router::new()
        .route(alive, get(health::live))
        .route(ready, get(health::ready))
        .route(healthy, get(health::ready))
        .route("/livez/{*check}", get(health::live_check))
        .route("/readyz/{*check}", get(health::ready_check))
        .route("/healthz/{*check}", get(health::ready_check))
        .route(METRICS, get(metrics))
        .route("/", get(async |State(api): State<Arc<Api>>| discovery::paths(&discovery::kinds(&api.host))))
        .route("/version", get(discovery::version))
        .route("/version/", get(discovery::version))
        .route(
            "/openapi/v2",
            get(async |State(api): State<Arc<Api>>, headers: HeaderMap| openapi::version_2(&api, &headers).await),
        )
        .route("/openapi/v3", get(async |State(api): State<Arc<Api>>| openapi::index(&api.host.kinds().list())))
        .route(
            "/openapi/v3/{*path}",
            get(async |State(api): State<Arc<Api>>, Path(path): Path<String>, headers: HeaderMap| {
                openapi::document(&api, &path, &headers).await
            }),
        )
        .route(
            OPENID_CONFIGURATION,
            get(async |State(api): State<Arc<Api>>, headers: HeaderMap| openid_configuration(&api, &headers)),
        )
        .route(OPENID_KEYS, get(async |State(api): State<Arc<Api>>| openid_keys(&api)))
        .route(BACKUP, get(backup::answer))
        .route("/homeostat/v1/kinds", get(record_stream::kinds))
        .route("/homeostat/v1/stores", get(stores::answer))
        .route("/homeostat/v1/stores/{name}/accept", post(stores::accept).fallback(only_post))
        .route("/homeostat/v1/stores/{name}/copy", post(stores::copy).fallback(only_post))
        .route("/homeostat/v1/stores/{name}/prune", post(stores::prune).fallback(only_post))
        .route("/homeostat/v1/graph", get(kind_graph::answer))
        .route("/homeostat/v1/hosts", get(hosts::answer))
        .route("/homeostat/v1/drain", post(hosts::drain).fallback(only_post))
        .route("/homeostat/v1/uncordon", post(hosts::uncordon).fallback(only_post))
        .route(record_stream::EVENTS_PATH, get(record_stream::events))
        .route(record_stream::LOGS_PATH, get(record_stream::logs))
        .route("/homeostat/v1/costs", get(record_stream::costs))
        .route("/homeostat/v1/dependents", get(record_stream::dependents))
        .fallback(async || Failure::unknown_page())
        .method_not_allowed_fallback(async || Failure::method_not_allowed("this path is read-only: use GET"))
        .with_state(api)
}

/// Refuses a request with another method.
async fn only_post() -> Failure {
    Failure::method_not_allowed("this path changes something: use POST")
}

/// Responds with all metrics, in the format that the client prefers.
async fn metrics(State(api): State<Arc<Api>>, headers: HeaderMap) -> Result<Response, Failure> {
    let format = ExpositionFormat::choose(&headers);
    // With many controllers rendering takes long, so it runs on a blocking thread.
    let rendered = tokio::task::spawn_blocking(move || api.metrics.render(&api.host, format)).await;
    let text = rendered.map_err(|error| Failure::internal(format!("the metrics could not be rendered: {error}")))?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// Responds with the configuration by which other programs verify tokens of service accounts.
fn openid_configuration(api: &Api, headers: &HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    Json(api.service_accounts.openid_configuration(&format!("{}://{host}", api.scheme))).into_response()
}

/// Responds with the public key of tokens of service accounts.
fn openid_keys(api: &Api) -> Result<Response, Failure> {
    let keys = api.service_accounts.openid_keys().map_err(|error| Failure::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/jwk-set+json")], keys.to_string()).into_response())
}

/// Serves everything under `/api` and `/apis`.
async fn kubernetes_api(api: &Api, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    // As in an API server, each built-in group answers for its paths.
    let is_built_in = || path::group(path).is_some_and(|group| api.host.kinds().has_built_in_group(group));
    let unknown = || if is_built_in() { Failure::unknown_path() } else { Failure::unknown_page() };
    let route = path::parse(path).ok_or_else(unknown)?;
    if let Route::Resources(target) = route {
        // The permit of the body is held until the response is made.
        let client = &Client::of(&parts.extensions);
        let is_bare = parts.method.is_safe();
        let (body, _held) =
            if is_bare { (Bytes::new(), None) } else { body::read(body, client, &api.limits.bodies).await? };
        let (method, uri, headers) = (&parts.method, &parts.uri, &parts.headers);
        let caller = parts.extensions.get::<AuthenticatedCaller>().map(|pass| Arc::clone(&pass.caller));
        let sender = caller.clone();
        let requester = Arc::new(Requester::new(move || reviews::user(sender.as_deref())));
        let ask = RequestContext {
            api,
            method,
            target,
            uri,
            headers,
            body,
            client,
            caller,
            requester,
            warnings: WarningRecorder::default(),
        };
        let is_controllers = target.group == manifest::GROUP && target.plural == manifest::PLURAL;
        if let Some(answer) = reviews::answer(&ask).await {
            return answer;
        }
        role_guard::check(&ask).await.map_err(|failure| failure.about(&target))?;
        let answer = if is_controllers { controllers::answer(&ask).await } else { resources::answer(&ask).await };
        return answer.map_err(|failure| {
            let info = api.host.kinds().by_plural(target.group, target.version, target.plural);
            failure.about(&target).of_kind(info.as_ref().map(|info| &info.kind))
        });
    }
    let kinds = discovery::kinds(&api.host);
    let all = negotiate::wants_all_groups(&parts.headers);
    match route {
        Route::Versions if all => Ok(discovery::aggregated(&kinds, true)),
        Route::Groups if all => Ok(discovery::aggregated(&kinds, false)),
        Route::Versions => Ok(discovery::versions()),
        Route::Groups => Ok(discovery::groups(&kinds)),
        Route::Group(group) => discovery::group(&kinds, group),
        Route::Kinds { group, version } => discovery::resources(&kinds, group, version).ok_or_else(unknown),
        Route::Resources(_) => unreachable!("answered above"),
    }
}

/// Refuses a request that another host forwarded to a host which is not this one.
fn misdirected(host: &Host) -> Failure {
    let reason = format!("the request was forwarded to another host: this is {:?}", host.identity());
    Failure::new(StatusCode::MISDIRECTED_REQUEST, "Misdirected", reason)
}
