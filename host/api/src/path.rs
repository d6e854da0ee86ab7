//! Reads the path of a request: which kind, which resource, which part of it. Pure.

/// Where a server says whether it is well.
pub(crate) const HEALTH: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// Where a server says what it counted.
pub(crate) const METRICS: &str = "/metrics";

/// Where a copy of the whole store is.
pub(crate) const BACKUP: &str = "/homeostat/v1/backup";

/// What a path under `/api` or `/apis` means.
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
    /// Resources, one resource, or a part of one.
    Resources(Target<'p>),
}

/// Resources that a path names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Target<'p> {
    pub(crate) group: &'p str,
    pub(crate) version: &'p str,
    pub(crate) namespace: Option<&'p str>,
    pub(crate) plural: &'p str,
    pub(crate) name: Option<&'p str>,
    /// What follows the name, as `status`; with slashes where it is more than one word.
    pub(crate) subresource: Option<&'p str>,
}

/// Reads a path; `None` when it means nothing.
pub(crate) fn parse(path: &str) -> Option<Route<'_>> {
    // No name in a path needs an escape, and what an escape could hide is not worth decoding.
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

/// Splits `namespaces/NS/…` off. `namespaces/NS` itself, and its status, are the core group's kind of that plural.
fn namespace<'p>(group: &str, rest: &'p str) -> (Option<&'p str>, &'p str) {
    let Some((namespace, inside)) = rest.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/')) else {
        return (None, rest);
    };
    if group.is_empty() && matches!(inside, "status" | "finalize") { (None, rest) } else { (Some(namespace), inside) }
}

#[cfg(test)]
mod tests;
