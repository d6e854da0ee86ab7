//! What the host says about a grant that is missing: which one, and the lines of a manifest that would grant it.
//!
//! A person copies these lines, and most of what stands in them comes from the guest that was denied. So it stands there as a scalar that is
//! nothing but itself, and only where it is a name: what has a star or a letter that no name has gets no lines, because a pattern that covers
//! it would cover more than was asked for.

use std::net::IpAddr;

use homeostat_store::Kind;
use homeostat_text::{line, quoted, scalar};

use super::{AccessRequest, AddressRange, AddressScope, Verb, pattern};

/// What stands before the lines.
const WITH: &str = "the manifest would grant it with";
/// Bytes of a name that can be granted by an exact pattern: as many as a resource's name may have.
const NAME_BYTES_MAX: usize = 253;

impl AccessRequest<'_> {
    /// Says what is missing, ending with the lines of the manifest that would grant it; where nothing that is asked for can be a name, that
    /// there are none.
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
            return format!("{what}; no manifest can grant it: what it asks for is no name");
        }
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("*");
        format!("{what}; {WITH}\n{}", resource_lines(kind, verb.as_str(), namespace))
    }

    /// Says whether the kind and the namespace are names, and no patterns or other texts.
    pub(super) fn has_names(&self) -> bool {
        is_kind(self.kind) && self.namespace.is_none_or(|namespace| namespace.is_empty() || is_name(namespace))
    }
}

/// Returns the lines that grant these verbs for every resource of a kind.
pub(super) fn resources(kind: &Kind, verbs: &[Verb]) -> String {
    if !is_kind(kind) {
        return "(no line can: what has a `*` or a `/` in it, or no letter of a name, is no name of a kind there)"
            .to_owned();
    }
    let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    resource_lines(kind, &verbs.join(", "), "*")
}

/// Returns the lines that grant `verbs`, which are separated by commas, of one kind.
pub(crate) fn resource_lines(kind: &Kind, verbs: &str, namespace: &str) -> String {
    let (kind, namespace) = (of_kind(kind), quoted(namespace));
    format!("grants:\n  resources:\n    - {{kinds: [{}], verbs: [{verbs}], namespaces: [{namespace}]}}", scalar(&kind))
}

/// Says which grant an HTTP request is missing, ending with the lines of the manifest that would grant it.
pub(crate) fn missing_http(method: &str, url: &str) -> String {
    let range = pattern::literal(url).and_then(|address| AddressScope::of(address).range());
    format!("no grant for {} {}; {}", line(method), line(url), http_lines(method, url, range))
}

/// Says why a request that is granted may not go to where its name leads, ending with the lines of the manifest that would let it.
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
        return "no manifest is proposed that would grant it: with a star, or without a proper method and address, it would grant more"
            .to_owned();
    }
    let addresses = range.map(|range| format!(", addresses: [{range}]")).unwrap_or_default();
    let (url, method) = (quoted(&address), scalar(method));
    format!("{WITH}\ngrants:\n  http:\n    - {{urls: [{url}], methods: [{method}]{addresses}}}")
}

/// Returns a kind as grants name it.
fn of_kind(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.name.clone() } else { format!("{}/{}", kind.group, kind.name) }
}

/// Says whether a method is a word: a star would be every method.
pub(super) fn is_method(method: &str) -> bool {
    !method.is_empty()
        && method.len() <= NAME_BYTES_MAX
        && method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn is_kind(kind: &Kind) -> bool {
    is_name(&kind.name) && (kind.group.is_empty() || is_name(&kind.group))
}

/// Says whether a text can be a name of a kind, a group, a namespace: letters, digits, `-`, `_` and `.`.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests;
