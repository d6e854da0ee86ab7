//! References to artifacts in registries: `registry/repository:tag`, or with `@sha256:…` for one exact
//! manifest.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use homeostat_digest::Digest;

use crate::error::Error;

/// Maximum length of a reference, in characters. The OCI distribution specification only bounds its parts.
const CHARS_MAX: usize = 512;
/// Maximum length of registry and repository together, in characters. Source: the OCI distribution
/// specification.
const NAME_CHARS_MAX: usize = 255;
/// Maximum length of a tag, in characters. Source: the OCI distribution specification.
const TAG_CHARS_MAX: usize = 128;

/// A reference to an artifact: a registry with its port, a repository, and a tag, a digest, or both.
///
/// The digest is that of the *manifest*, not of the component. If both are given, the digest selects the
/// manifest, and the tag is only for people. There are no defaults for the registry and the tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Returns the registry as written: `host` or `host:port`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path of the repository.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the same reference with this digest of a manifest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Returns the base URL of the registry: `http` on this machine, `https` everywhere else.
    pub(crate) fn base(&self) -> String {
        let scheme = if is_loopback(host_of(&self.registry)) { "http" } else { "https" };
        // The one registry whose host differs from its name.
        let address = if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry };
        format!("{scheme}://{address}")
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |reason| Error::Reference { text: text.chars().take(200).collect(), reason };
        if text.len() > CHARS_MAX {
            return Err(wrong("it is too long"));
        }
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) => {
                let parsed = Digest::parse(digest);
                (name, Some(parsed.ok_or_else(|| wrong("a digest is `sha256:` and 64 hexadecimal digits"))?))
            }
        };
        let (registry, rest) = name.split_once('/').ok_or_else(|| wrong("it must be REGISTRY/NAME:TAG"))?;
        let (repository, tag) = match rest.split_once(':') {
            None => (rest, None),
            Some((repository, tag)) => (repository, Some(tag)),
        };
        if !is_registry(registry) {
            return Err(wrong("it must begin with a registry, as `ghcr.io` or `localhost:5000`"));
        }
        if registry.len() + repository.len() > NAME_CHARS_MAX || !repository.split('/').all(is_part) {
            return Err(wrong("a name has parts of `a` to `z` and `0` to `9`, with `.`, `_` or `-` between them"));
        }
        if !tag.is_none_or(is_tag) {
            return Err(wrong("a tag has at most 128 letters, digits, `_`, `.` and `-`"));
        }
        if tag.is_none() && digest.is_none() {
            return Err(wrong("it must have a tag or a digest"));
        }
        let (registry, repository) = (registry.to_owned(), repository.to_owned());
        Ok(Self { registry, repository, tag: tag.map(str::to_owned), digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

/// Returns whether a host is this machine. Only `localhost` and loopback addresses count, because names are
/// not resolved.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || bare.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the host of `host:port`, with the brackets of an IPv6 address.
fn host_of(registry: &str) -> &str {
    match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => registry,
    }
}

fn is_registry(registry: &str) -> bool {
    let host = host_of(registry);
    let port = registry[host.len()..].strip_prefix(':');
    let is_port =
        |port: &str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|n| n > 0);
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_label = |label: &str| {
        let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(of_name) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_host = address.map_or_else(|| host.split('.').all(is_label), |address| address.parse::<Ipv6Addr>().is_ok());
    // Anything else is a folder, or a name without a registry, which other tools complete.
    let stands_out = host.contains('.') || address.is_some() || port.is_some() || host == "localhost";
    is_host && port.is_none_or(is_port) && stands_out
}

/// Source: `path-component` of the OCI distribution specification.
fn is_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (bytes, mut at) = (part.as_bytes(), 0);
    loop {
        let word = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
        at += word;
        if word == 0 || at == bytes.len() {
            return word > 0;
        }
        let between = bytes[at..].iter().take_while(|byte| !is_word(**byte)).count();
        let separator = &bytes[at..at + between];
        if !(matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')) {
            return false;
        }
        at += between;
    }
}

fn is_tag(tag: &str) -> bool {
    let of_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' || byte == b'-';
    let begins = tag.bytes().next().is_some_and(|first| first != b'.' && first != b'-');
    begins && tag.len() <= TAG_CHARS_MAX && tag.bytes().all(of_tag)
}

#[cfg(test)]
mod tests;
