//! Messages about missing grants: the missing grant, and the manifest lines that would grant it.
//!
//! People copy these lines, and most of their content comes from the guest that was denied. So every value is
//! quoted as a YAML scalar, and only valid names appear. A text with a star or another character that no name
//! has gets no lines: a pattern that covers it would grant more than the request.

use std::net::IpAddr;

use homeostat_store::Kind;
use homeostat_text::{line, quoted, scalar};

use super::{AccessRequest, AddressRange, AddressScope, Verb, pattern};

/// The words before the lines.
const WITH: &str = "the manifest would grant it with";
/// The maximum length of a name that an exact pattern can grant: the same as of a resource's name.
const NAME_BYTES_MAX: usize = 253;

impl AccessRequest<'_> {
    /// Describes the missing grant, with the manifest lines that would grant it. If the request has no valid
    /// names, the message says instead that no manifest can grant it.
    pub fn missing(&self) -> String {
        let Self { verb, kind, namespace, name } = self;
        let place = match namespace {
            Some("") => " outside of namespaces".to_owned(),
            Some(namespace) => format!(" in namespace {}", quoted(namespace)),
            None => " in all namespaces".to_owned(),
        };
        let subject = name.map(|name| format!(" {}", quoted(name))).unwrap_or_default();
        let what = format!("no grant for {verb} of {}{subject}{place}", scalar(&of_kind(kind)));
        if !self.has_names() {
            return format!("{what}; no manifest can grant it: the request contains an invalid name");
        }
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("*");
        format!("{what}; {WITH}\n{}", resource_lines(kind, verb.as_str(), namespace))
    }

    /// Returns whether the kind and the namespace are valid names, not patterns or other texts.
    pub(super) fn has_names(&self) -> bool {
        is_kind(self.kind) && self.namespace.is_none_or(|namespace| namespace.is_empty() || is_name(namespace))
    }
}

/// Returns the lines that grant these verbs for every resource of a kind.
pub(super) fn resources(kind: &Kind, verbs: &[Verb]) -> String {
    if !is_kind(kind) {
        return "(none: the name of the kind contains `*`, `/` or another character that no name has)".to_owned();
    }
    let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    resource_lines(kind, &verbs.join(", "), "*")
}

/// Returns the lines that grant the comma-separated `verbs` on one kind.
pub(crate) fn resource_lines(kind: &Kind, verbs: &str, namespace: &str) -> String {
    let (kind, namespace) = (of_kind(kind), quoted(namespace));
    format!("grants:\n  resources:\n    - {{kinds: [{}], verbs: [{verbs}], namespaces: [{namespace}]}}", scalar(&kind))
}

/// Describes the grant that an HTTP request is missing, with the manifest lines that would grant it.
pub(crate) fn missing_http(method: &str, url: &str) -> String {
    let range = pattern::literal(url).and_then(|address| AddressScope::of(address).range());
    format!("no grant for {} {}; {}", line(method), line(url), http_lines(method, url, range))
}

/// Explains why a granted request may not go to the address that its name resolves to, with the manifest
/// lines that would allow it.
pub(crate) fn missing_address(method: &str, url: &str, address: IpAddr) -> String {
    let (request, range) = (format!("{} {}", line(method), line(url)), AddressScope::of(address).range());
    let Some(range) = range else {
        return format!("{request} leads to {address}, where no request may go: no single machine has that address");
    };
    let lines = http_lines(method, url, Some(range));
    format!("no grant for {request} to go to {address}, a {range} address; {lines}")
}

fn http_lines(method: &str, url: &str, range: Option<AddressRange>) -> String {
    let address = pattern::for_url(url);
    if !is_method(method) || !pattern::is_url(url) || address.strip_suffix("/*").unwrap_or(&address).contains('*') {
        return "no manifest lines are proposed: with a star, or without a valid method and URL, they would grant more than this request"
            .to_owned();
    }
    let addresses = range.map(|range| format!(", addresses: [{range}]")).unwrap_or_default();
    let (url, method) = (quoted(&address), scalar(method));
    format!("{WITH}\ngrants:\n  http:\n    - {{urls: [{url}], methods: [{method}]{addresses}}}")
}

/// Returns a kind in the form of grants.
fn of_kind(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.name.clone() } else { format!("{}/{}", kind.group, kind.name) }
}

/// Returns whether a method is a plain word: a star would mean every method.
pub(super) fn is_method(method: &str) -> bool {
    !method.is_empty()
        && method.len() <= NAME_BYTES_MAX
        && method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn is_kind(kind: &Kind) -> bool {
    is_name(&kind.name) && (kind.group.is_empty() || is_name(&kind.group))
}

/// Returns whether a text can be the name of a kind, a group or a namespace: letters, digits, `-`, `_` and
/// `.`.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests;
