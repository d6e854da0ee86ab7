//! Authorisation: the rights of the sender of a request, and the users that it may act as. A server without tokens serves only programs
//! on this machine, which may do everything. Other rights are those of the token, and those that stored bindings give its
//! user and groups.

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use homeostat_store::is_path_character;

use crate::authentication::{AuthenticatedCaller, Authentication};
use crate::caller::{Access, Caller};
use crate::client::Client;
use crate::params::Params;
use crate::path::{self, HEALTH, OPENID_CONFIGURATION, OPENID_KEYS, Route, Target, is_below};
use crate::rbac::role_book::RoleBook;
use crate::rbac::{Attributes, Subject};
use crate::state::Api;
use crate::status::Failure;
use crate::{impersonation, reviews};

/// Authenticates and authorises a request, then passes it to `next` or answers with the refusal.
pub(crate) async fn check(api: &Api, mut request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        // Source: RFC 9112, 3.2. A proxy may have checked the other `Host` header.
        return Failure::bad_request("the request has more than one Host header").into_response();
    }
    if api.tokens.is_none()
        && let Err(failure) = refuse_foreign_page(api.scheme, request.method(), request.uri(), request.headers())
    {
        return failure.into_response();
    }
    let (tokens, accounts) = (api.tokens.as_ref(), &api.service_accounts);
    let sender = match Authentication::of(tokens, accounts, request.uri(), request.headers()).await {
        Authentication::Authenticated(sender) => Some(sender),
        Authentication::Local => None,
        Authentication::HealthProbe => return without_details(next(request).await),
        Authentication::Unauthenticated => return unauthorized(),
    };
    if let Some(sender) = &sender {
        request.extensions_mut().insert(Client::Token(sender.caller.name.clone()));
    }
    match authorize(api, sender, request.method(), request.uri(), request.headers()).await {
        Ok(caller) => {
            // A stream ends when its token is revoked.
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next(request).await
        }
        Err(failure) => failure.into_response(),
    }
}

/// Returns as whom a request acts, if it may do so, and that user may do what it asks for; `None` for a program on this
/// machine, on a host without tokens.
async fn authorize(
    api: &Api,
    sender: Option<AuthenticatedCaller>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<AuthenticatedCaller>, Failure> {
    if sender.is_none() && !headers.keys().any(impersonation::is_header) {
        return Ok(None);
    }
    let roles = api.roles.book().await;
    let user = impersonation::user(headers, |attributes| match &sender {
        Some(sender) if !is_allowed(&sender.caller, &roles, attributes) => {
            Err(Failure::forbidden(forbidden(&sender.caller, &roles, attributes)))
        }
        _ => Ok(()),
    })?;
    let caller = match (sender, user) {
        (Some(sender), Some(user)) => Some(sender.acting_as(user)),
        (None, Some(user)) => Some(AuthenticatedCaller::local(user)),
        (sender, None) => sender,
    };
    if let Some(caller) = &caller {
        may(&caller.caller, &roles, method, uri)?;
    }
    Ok(caller)
}

/// Removes the names of failed checks from a health response.
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

/// Paths that every authenticated caller may read: they tell which kinds there are. Source: the role `system:discovery` of
/// Kubernetes.
const DISCOVERY: [&str; 4] = ["/api", "/apis", "/openapi", "/homeostat/v1/kinds"];
/// The path that every caller may read beside those of the health. Source: the role `system:public-info-viewer` of Kubernetes.
const VERSION: &str = "/version";
/// Paths that service accounts may read: they tell by which key tokens are verified. Source: the role
/// `system:service-account-issuer-discovery` of Kubernetes.
const ISSUER_DISCOVERY: [&str; 2] = [OPENID_CONFIGURATION, OPENID_KEYS];

/// Refuses a request that neither the token nor stored bindings allow.
fn may(caller: &Caller, roles: &RoleBook, method: &Method, uri: &Uri) -> Result<(), Failure> {
    let route = path::parse(uri.path());
    // The handler refuses a query that does not parse.
    let params = Params::of(uri).unwrap_or_default();
    let attributes = attributes(method, uri, route.as_ref(), &params);
    if is_allowed(caller, roles, &attributes) {
        return Ok(());
    }
    let failure = Failure::forbidden(forbidden(caller, roles, &attributes));
    match route {
        Some(Route::Resources(target))
            if caller.is_authenticated() && reviews::is_of_self(target.group, target.plural) =>
        {
            Ok(())
        }
        Some(Route::Resources(target)) => Err(failure.about(&target)),
        _ => Err(failure),
    }
}

/// Returns whether a caller may do something: by the token, or by stored bindings.
pub(crate) fn is_allowed(caller: &Caller, roles: &RoleBook, request: &Attributes<'_>) -> bool {
    caller.rules.iter().any(|rule| rule.allows(request))
        || roles.allows(caller, request)
        || is_discovery(caller, request)
}

/// Returns whether a request asks for what its caller may read without a rule of its own.
fn is_discovery(caller: &Caller, request: &Attributes<'_>) -> bool {
    let Subject::Path(path) = request.about else { return false };
    matches!(request.verb, "get" | "head" | "options") && paths_of(caller).any(|root| is_below(path, root))
}

/// Returns the paths that a caller may read without a rule of its own.
fn paths_of(caller: &Caller) -> impl Iterator<Item = &'static str> {
    let discovery = if caller.is_authenticated() { &DISCOVERY[..] } else { &[] };
    let of_issuer = if caller.is_service_account() { &ISSUER_DISCOVERY[..] } else { &[] };
    discovery.iter().chain([&VERSION]).chain(&HEALTH).chain(of_issuer).copied()
}

/// Returns the paths that a caller may read without a rule of its own, in the words of Kubernetes.
pub(crate) fn patterns_of(caller: Option<&Caller>) -> Vec<String> {
    let local = Caller::default();
    let mut patterns = Vec::new();
    for path in paths_of(caller.unwrap_or(&local)) {
        patterns.push(path.to_owned());
        if path == VERSION || ISSUER_DISCOVERY.contains(&path) {
            patterns.push(format!("{path}/"));
        } else if DISCOVERY.contains(&path) {
            patterns.push(format!("{path}/*"));
        }
    }
    patterns
}

/// Returns what a request does, in the words of Kubernetes.
fn attributes<'r>(method: &'r Method, uri: &'r Uri, route: Option<&Route<'r>>, params: &'r Params) -> Attributes<'r> {
    let Some(Route::Resources(target)) = route else {
        let verb = match *method {
            Method::GET => "get",
            Method::HEAD => "head",
            Method::OPTIONS => "options",
            Method::POST => "post",
            Method::PUT => "put",
            Method::PATCH => "patch",
            _ => "delete",
        };
        return Attributes { verb, about: Subject::Path(uri.path()) };
    };
    let Target { group, namespace, plural, name, subresource, .. } = *target;
    let verb = match (method, name) {
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, None) => "deletecollection",
        (&Method::DELETE, Some(_)) => "delete",
        (_, None) if params.is_watch() => "watch",
        (_, None) => "list",
        (_, Some(_)) => "get",
    };
    // A list of one name is about that resource.
    let selected = params.field_selector.as_deref().and_then(|selector| {
        let name = selector.strip_prefix("metadata.name=")?;
        let is_plain = |c: char| is_path_character(c) && !matches!(c, ',' | '=' | '!');
        name.chars().all(is_plain).then_some(name)
    });
    // A namespace is in itself.
    let namespace = if group.is_empty() && plural == "namespaces" { name } else { namespace };
    let name = name.or(selected);
    Attributes { verb, about: Subject::Resource { group, plural, subresource, namespace, name } }
}

/// Returns why a request is refused that a caller may expect to be allowed.
fn suffix(caller: &Caller, roles: &RoleBook, request: &Attributes<'_>) -> String {
    if caller.access == Some(Access::Read) {
        return ": the token is read-only".to_owned();
    }
    roles.missing(caller, request.namespace()).map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// Returns the message in the words of Kubernetes.
fn forbidden(caller: &Caller, roles: &RoleBook, request: &Attributes<'_>) -> String {
    let (user, verb, reason) = (&caller.name, request.verb, suffix(caller, roles, request));
    let (group, plural, subresource, namespace, name) = match request.about {
        Subject::Path(path) => return format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"{reason}"),
        Subject::Resource { group, plural, subresource, namespace, name } => {
            (group, plural, subresource, namespace, name)
        }
    };
    let what = [plural, group].join(".");
    let what = what.trim_end_matches('.');
    let named = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let part = subresource.map(|part| format!("/{part}")).unwrap_or_default();
    let place = match namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    format!(
        "{what}{named} is forbidden: User \"{user}\" cannot {verb} resource \"{plural}{part}\" in API group \"{group}\" {place}{reason}"
    )
}

/// The body types that a web page may send to any host without a preflight.
///
/// Source: the Fetch standard, CORS-safelisted request headers.
const SIMPLE_TYPES: [&str; 3] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// Refuses requests that a web page made a browser on this machine send. Without tokens, no other check stops
/// them.
///
/// A page that another program on this machine serves on its own port counts as foreign as well. `scheme` is
/// the server's own.
fn refuse_foreign_page(scheme: &str, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    if !is_from_here(scheme, uri, headers) {
        let reason = "without tokens only programs on this machine have access: the request is for another host, or comes from another web page";
        return Err(Failure::forbidden(reason));
    }
    // For any other method or body type a browser sends a preflight first, which this server never grants. A
    // browser sends a body without a type and without a preflight, as programs do. But it names the page's
    // site with every POST, and that was checked above.
    if *method == Method::POST && is_simple(headers) {
        let reason =
            "a POST with this Content-Type is refused, because any web page could send it: use application/json";
        return Err(Failure::unsupported_media_type(reason));
    }
    Ok(())
}

/// Returns whether a request addresses this machine and comes from a program or from a page of this server.
fn is_from_here(scheme: &str, uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // HTTP/2 carries the authority in the URI instead of a `Host` header.
    let hosts = [uri.authority().map(Authority::as_str), text(header::HOST)];
    let is_same = |origin: &str| {
        let authority =
            origin.split_once("://").filter(|(spoken, _)| *spoken == scheme).map(|(_, authority)| authority);
        authority.is_some_and(|authority| hosts.iter().flatten().all(|host| host.eq_ignore_ascii_case(authority)))
    };
    hosts.into_iter().flatten().all(is_loopback)
        && text(header::ORIGIN).is_none_or(is_same)
        // This also covers requests without an origin, such as images. A page on another port is `same-site`,
        // not `same-origin`.
        && text(FETCH_SITE).is_none_or(|site| matches!(site, "same-origin" | "none"))
}

/// The header in which a browser states how the requesting page relates to this server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns whether a browser sends a body of this type without a preflight.
fn is_simple(headers: &HeaderMap) -> bool {
    let is_simple = |value: &HeaderValue| {
        let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        SIMPLE_TYPES.iter().any(|simple| essence.eq_ignore_ascii_case(simple))
    };
    headers.get_all(header::CONTENT_TYPE).iter().any(is_simple)
}

/// Returns whether an authority, `HOST` or `HOST:PORT`, names this machine.
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
