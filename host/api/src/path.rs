//! Parses the path of a request: the kind, the resource and the subresource. Pure.

use axum::http::Uri;
use homeostat_store::is_path_character;

/// The health endpoints.
pub(crate) const HEALTH: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// Returns whether a path is a health endpoint, or one of its checks.
pub(crate) fn is_health(path: &str) -> bool {
    HEALTH.iter().any(|endpoint| is_below(path, endpoint))
}

/// Returns whether a path is another one, or below it.
pub(crate) fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The metrics endpoint.
pub(crate) const METRICS: &str = "/metrics";

/// Where other programs learn by which key tokens of service accounts are verified. Source: OpenID Connect Discovery 1.0,
/// and Kubernetes for the second.
pub(crate) const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";
pub(crate) const OPENID_KEYS: &str = "/openid/v1/jwks";

/// The backup endpoint, a copy of the whole store.
pub(crate) const BACKUP: &str = "/homeostat/v1/backup";

/// The target of a path under `/api` or `/apis`.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Route<'p> {
    /// `/api`: the versions of the core group.
    Versions,
    /// `/apis`: the groups.
    Groups,
    /// `/apis/GROUP`.
    Group(&'p str),
    /// `/api/v1` and `/apis/GROUP/VERSION`: the kinds of a group.
    Kinds { group: &'p str, version: &'p str },
    /// A collection, one resource, or a subresource.
    Resources(Target<'p>),
}

/// The resources that a path names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Target<'p> {
    pub(crate) group: &'p str,
    pub(crate) version: &'p str,
    pub(crate) namespace: Option<&'p str>,
    pub(crate) plural: &'p str,
    pub(crate) name: Option<&'p str>,
    /// The path after the name, such as `status`; it may have several segments.
    pub(crate) subresource: Option<&'p str>,
}

impl Target<'_> {
    /// Returns whether it has the path of autoscalers in the version that is not stored.
    pub(crate) fn is_autoscaler(&self) -> bool {
        self.group == "autoscaling" && self.version == "v1" && self.plural == "horizontalpodautoscalers"
    }
}

/// Returns a URI without needless escapes in its path, as some clients write `%3A` in a name; `None` if it has none, or has
/// one of a character that no name has.
pub(crate) fn unescaped(uri: &Uri) -> Option<Uri> {
    let mut rest = uri.path();
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once('%') {
        let code = u8::from_str_radix(after.get(..2)?, 16).ok()?;
        let character = Some(char::from(code)).filter(|c| is_path_character(*c))?;
        plain.push_str(before);
        plain.push(character);
        rest = &after[2..];
    }
    if plain.is_empty() {
        return None;
    }
    plain.push_str(rest);
    if let Some(query) = uri.query() {
        plain.push('?');
        plain.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(plain.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the group of a path under `/api` or `/apis`.
pub(crate) fn group(path: &str) -> Option<&str> {
    if path.starts_with("/api/") {
        return Some("");
    }
    path.strip_prefix("/apis/")?.split('/').next()
}

/// Returns the URI of the list that an old path watches, as `/api/v1/watch/namespaces/NS/pods`, and of one resource with its
/// name after that; `None` for another path.
pub(crate) fn watched(uri: &Uri) -> Option<Uri> {
    let (root, rest) = match uri.path().strip_prefix("/api/") {
        Some(rest) => ("/api/", rest),
        None => ("/apis/", uri.path().strip_prefix("/apis/")?),
    };
    let (version, rest) = rest.split_once("/watch/")?;
    if version.matches('/').count() != usize::from(root == "/apis/") {
        return None;
    }
    let path = format!("{root}{version}/{}", rest.strip_suffix('/').unwrap_or(rest));
    let Some(Route::Resources(target)) = parse(&path) else { return None };
    let (path, name) = match target.name {
        Some(name) => {
            (path.strip_suffix(name)?.trim_end_matches('/'), format!("&fieldSelector=metadata.name%3D{name}"))
        }
        None => (path.as_str(), String::new()),
    };
    let query = uri.query().map(|query| format!("&{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{path}?watch=true{name}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Parses a path; `None` if it has no meaning.
pub(crate) fn parse(path: &str) -> Option<Route<'_>> {
    // No name needs an escape, and `unescaped` has removed the needless ones.
    if path.contains('%') {
        return None;
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path == "/api" {
        return Some(Route::Versions);
    }
    if path == "/apis" {
        return Some(Route::Groups);
    }
    let (group, rest) = match path.strip_prefix("/api/") {
        Some(rest) => ("", rest),
        None => match path.strip_prefix("/apis/")?.split_once('/') {
            Some((group, rest)) => (group, rest),
            None => return path.strip_prefix("/apis/").filter(|group| !group.is_empty()).map(Route::Group),
        },
    };
    let (version, rest) = rest.split_once('/').map_or((rest, None), |(version, rest)| (version, Some(rest)));
    let Some(rest) = rest else {
        return (!version.is_empty()).then_some(Route::Kinds { group, version });
    };
    let (namespace, rest) = namespace(group, rest);
    let mut words = rest.splitn(3, '/');
    let plural = words.next()?;
    let (name, part) = (words.next(), words.next());
    let some_empty = [Some(version), namespace, Some(plural), name, part].into_iter().flatten().any(str::is_empty);
    (!some_empty).then_some(Route::Resources(Target { group, version, namespace, plural, name, subresource: part }))
}

/// Splits off `namespaces/NS/…`. `namespaces/NS` itself, its `status` and its `finalize` belong to the kind
/// `Namespace`.
fn namespace<'p>(group: &str, rest: &'p str) -> (Option<&'p str>, &'p str) {
    let Some((namespace, inside)) = rest.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/')) else {
        return (None, rest);
    };
    match namespace {
        // As in Kubernetes, this is a list across all namespaces.
        "" if !inside.contains('/') => (None, inside),
        _ if group.is_empty() && matches!(inside, "status" | "finalize") => (None, rest),
        _ => (Some(namespace), inside),
    }
}

#[cfg(test)]
mod tests;
