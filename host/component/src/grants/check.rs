//! Finds grants that can never match, and so must be mistakes.

use super::{AddressScope, Grants, HeaderSource, HttpGrant, ResourceGrant, controllers, pattern};

/// Returns whether `name` is a valid name of a secret: see [`HeaderSource::Secret`].
pub fn is_secret_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=253).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(known)
}

pub(super) fn problems(grants: &Grants) -> Vec<String> {
    let Grants { resources, http, controllers, limited_to: _ } = grants;
    let resources = resources.iter().enumerate().flat_map(|(at, grant)| resource(&format!("resources[{at}]"), grant));
    let http = http.iter().enumerate().flat_map(|(at, grant)| request(&format!("http[{at}]"), grant));
    let controllers = controllers.iter().enumerate();
    let controllers = controllers.flat_map(|(at, grant)| controllers::problems(&format!("controllers[{at}]"), grant));
    resources.chain(http).chain(controllers).collect()
}

fn resource(path: &str, grant: &ResourceGrant) -> Vec<String> {
    let ResourceGrant { kinds, verbs, namespaces, names } = grant;
    let mut problems = Vec::new();
    let lists =
        [("kinds", kinds.len()), ("verbs", verbs.len()), ("namespaces", namespaces.len()), ("names", names.len())];
    for (field, _) in lists.into_iter().filter(|(_, count)| *count == 0) {
        problems.push(format!("{path}.{field}: must not be empty, or nothing is granted"));
    }
    for (at, kind) in kinds.iter().enumerate() {
        let parts: Vec<&str> = kind.split('/').collect();
        match parts.as_slice() {
            [_, version, name] => problems.push(format!(
                "{path}.kinds[{at}]: {kind:?} names the version {version:?}; grants do not: write \"{}/{name}\"",
                parts[0]
            )),
            [group, ""] => {
                problems.push(format!("{path}.kinds[{at}]: no kind after {group:?}; write \"{group}/*\" for all"))
            }
            [""] => problems.push(format!("{path}.kinds[{at}]: must not be empty")),
            [_] | [_, _] => {}
            _ => problems.push(format!("{path}.kinds[{at}]: {kind:?} is no GROUP/KIND")),
        }
    }
    problems
}

fn request(path: &str, grant: &HttpGrant) -> Vec<String> {
    let HttpGrant { urls, methods, addresses, headers } = grant;
    let mut problems = Vec::new();
    for (field, _) in [("urls", urls.len()), ("methods", methods.len())].into_iter().filter(|(_, count)| *count == 0) {
        problems.push(format!("{path}.{field}: must not be empty, or nothing is granted"));
    }
    for (at, method) in methods.iter().enumerate().filter(|(_, method)| super::is_never_sent(method)) {
        problems.push(format!("{path}.methods[{at}]: {method:?} is never granted"));
    }
    for (at, url) in urls.iter().enumerate() {
        if !pattern::is_url(url) {
            problems.push(format!("{path}.urls[{at}]: {url:?} is not a URL like https://api.example.com/v1/*"));
        }
        match pattern::literal(url).map(|address| (address, AddressScope::of(address))) {
            Some((address, AddressScope::Within(range))) if !addresses.contains(&range) => problems.push(format!(
                "{path}.urls[{at}]: {address} is a {range} address, which needs `addresses: [{range}]` beside it"
            )),
            Some((address, AddressScope::Nowhere)) => {
                problems.push(format!("{path}.urls[{at}]: no single machine has the address {address}"))
            }
            _ => {}
        }
    }
    for (name, source) in headers {
        if let HeaderSource::Secret(secret) = source
            && !is_secret_name(secret)
        {
            problems.push(format!(
                "{path}.headers.{name}.secret: {secret:?} is not a valid name of a secret, like api-token"
            ));
        }
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            problems.push(format!("{path}.headers: {name:?} is not a valid name of a header"));
        }
    }
    problems
}
