//! Who may ask for what: by tokens where the server has some, else programs of this machine alone.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::client::Client;
use crate::path::HEALTH;
use crate::path::{self, Route, Target};
use crate::state::Api;
use crate::status::Failure;
use crate::tokens::{Access, AuthenticatedCaller, Caller, Tokens};

/// Lets a request through, or refuses it.
pub(crate) async fn check(api: &Api, mut request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        // Source: RFC 9112, 3.2. Whoever stands in between may have looked at the other one.
        return Failure::bad_request("a request names its host once").into_response();
    }
    let Some(tokens) = &api.tokens else {
        return match refuse_foreign_page(api.scheme, request.method(), request.uri(), request.headers()) {
            Ok(()) => next(request).await,
            Err(failure) => failure.into_response(),
        };
    };
    match Authentication::of(tokens, request.uri(), request.headers()).await {
        Authentication::Authenticated(pass) => match may(&pass.caller, request.method(), request.uri()) {
            Ok(()) => {
                request.extensions_mut().insert(Client::Token(pass.caller.name.clone()));
                // An answer that goes on ends with it.
                request.extensions_mut().insert(pass);
                next(request).await
            }
            Err(failure) => failure.into_response(),
        },
        Authentication::HealthProbe => without_details(next(request).await),
        Authentication::Unauthenticated => unauthorized(),
    }
}

/// Who a request comes from, where tokens are demanded.
enum Authentication {
    Authenticated(AuthenticatedCaller),
    /// Somebody who asks only whether the server is well.
    HealthProbe,
    Unauthenticated,
}

impl Authentication {
    async fn of(tokens: &Arc<Tokens>, uri: &Uri, headers: &HeaderMap) -> Self {
        match tokens.authenticate(headers).await {
            Some(pass) => Self::Authenticated(pass),
            // A query asks for details, or leaves checks out by their names.
            None if HEALTH.contains(&uri.path()) && uri.query().is_none() => Self::HealthProbe,
            None => Self::Unauthenticated,
        }
    }
}

/// Takes the names of what is not well out of an answer about health.
fn without_details(response: Response) -> Response {
    match response.status() {
        StatusCode::SERVICE_UNAVAILABLE => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
        _ => response,
    }
}

fn unauthorized() -> Response {
    let failure = Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
    let mut response = failure.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Refuses what changes anything to who may only read.
fn may(caller: &Caller, method: &Method, uri: &Uri) -> Result<(), Failure> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if reads || caller.access == Access::Write {
        return Ok(());
    }
    let Some(Route::Resources(target)) = path::parse(uri.path()) else {
        let verb = method.as_str().to_ascii_lowercase();
        let (name, path) = (&caller.name, uri.path());
        return Err(Failure::forbidden(format!(
            "forbidden: User \"{name}\" cannot {verb} path \"{path}\": {READS_ONLY}"
        )));
    };
    Err(Failure::forbidden(forbidden(caller, method, &target)).about(&target))
}

/// Why a token does not let its owner write.
const READS_ONLY: &str = "the token is for reading";

/// Says it as Kubernetes does.
fn forbidden(caller: &Caller, method: &Method, target: &Target<'_>) -> String {
    let Target { group, namespace, plural, name, subresource: part, .. } = *target;
    let verb = match (method, name) {
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, None) => "deletecollection",
        (&Method::DELETE, Some(_)) => "delete",
        (other, _) => other.as_str(),
    };
    let what = [plural, group].join(".");
    let what = what.trim_end_matches('.');
    let named = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let part = part.map(|part| format!("/{part}")).unwrap_or_default();
    let place = match namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let user = &caller.name;
    format!(
        "{what}{named} is forbidden: User \"{user}\" cannot {verb} resource \"{plural}{part}\" in API group \"{group}\" {place}: {READS_ONLY}"
    )
}

/// The types of a body that a page may send anywhere without asking first. Source: the Fetch standard, CORS-safelisted request headers.
const SIMPLE_TYPES: [&str; 3] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// Refuses what a page of some web site makes a browser on this machine ask: without tokens nothing else would stop it.
///
/// Pages that another program of this machine serves on a port of its own are such pages too. `scheme` is that of the server.
fn refuse_foreign_page(scheme: &str, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    if !is_from_here(scheme, uri, headers) {
        let reason = "only programs of this machine may ask: the request was made for another host, or by a page that is not served here";
        return Err(Failure::forbidden(reason));
    }
    // Browsers ask first, and get no leave, before they send any other method, or a body of any other type. What has no type they send
    // without asking, as programs do; but a browser says with every POST for whose page it is, which was looked at above.
    if *method == Method::POST && is_simple(headers) {
        let reason = "a POST of text or of a form, which any page in a browser could send, is not taken: say in `Content-Type` what it is, \
                      which is application/json as a rule";
        return Err(Failure::unsupported_media_type(reason));
    }
    Ok(())
}

/// Returns whether a request is meant for this machine, and made by a program or by a page that this server has served.
fn is_from_here(scheme: &str, uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // HTTP/2 has no header for the host.
    let asked = [uri.authority().map(Authority::as_str), text(header::HOST)];
    let is_same = |origin: &str| {
        let authority =
            origin.split_once("://").filter(|(spoken, _)| *spoken == scheme).map(|(_, authority)| authority);
        authority.is_some_and(|authority| asked.iter().flatten().all(|asked| asked.eq_ignore_ascii_case(authority)))
    };
    asked.into_iter().flatten().all(is_loopback)
        && text(header::ORIGIN).is_none_or(is_same)
        // Also for what has no origin, as a picture. A page of another port is of the same site.
        && text(FETCH_SITE).is_none_or(|site| matches!(site, "same-origin" | "none"))
}

/// Where a browser says whose page asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns whether a browser sends a body of this type without asking first.
fn is_simple(headers: &HeaderMap) -> bool {
    let is_simple = |value: &HeaderValue| {
        let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        SIMPLE_TYPES.iter().any(|simple| essence.eq_ignore_ascii_case(simple))
    };
    headers.get_all(header::CONTENT_TYPE).iter().any(is_simple)
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
