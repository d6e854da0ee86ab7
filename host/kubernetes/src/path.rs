//! The URLs of collections, items and subresources, and their parameters.

use homeostat_store::{Error, Result};

use crate::catalog::ServedKind;

/// Returns the path of all resources of a kind, or of those in one namespace.
///
/// # Errors
/// `Invalid` for a namespace that cannot be part of a path, and for the namespace of a cluster-scoped kind.
pub(crate) fn collection(served: &ServedKind, version: &str, namespace: Option<&str>) -> Result<String> {
    let mut path = if served.kind.group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", served.kind.group)
    };
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(_) if !served.namespaced => {
            return Err(Error::invalid("metadata.namespace", "must be empty for a cluster-scoped kind"));
        }
        Some(namespace) => {
            path.push_str("/namespaces/");
            segment(&mut path, "metadata.namespace", namespace)?;
        }
        None => {}
    }
    path.push('/');
    path.push_str(&served.plural);
    Ok(path)
}

/// Returns the path of one resource.
///
/// # Errors
/// `Invalid` for a name or namespace that cannot be part of a path, and for a namespace that does not fit the
/// scope of the kind.
pub(crate) fn item(served: &ServedKind, version: &str, namespace: &str, name: &str) -> Result<String> {
    if served.namespaced && namespace.is_empty() {
        return Err(Error::invalid("metadata.namespace", "must not be empty for a namespaced kind"));
    }
    let mut path = collection(served, version, Some(namespace))?;
    path.push('/');
    segment(&mut path, "metadata.name", name)?;
    Ok(path)
}

/// Appends one segment. The server accepts more names than this host: those of roles have colons.
fn segment(path: &mut String, field: &str, text: &str) -> Result<()> {
    let is_segment = !matches!(text, "" | "." | "..") && !text.contains(['/', '%']);
    if !is_segment {
        return Err(Error::invalid(field, "must not be empty, `.` or `..`, and has no `/` and no `%`"));
    }
    encode(path, text);
    Ok(())
}

/// The parameters of a request, in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters(String);

impl Parameters {
    /// Adds a parameter.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        encode(&mut self.0, value);
        self
    }

    /// Adds a parameter, if it has a value.
    #[must_use]
    pub(crate) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Returns the path with the parameters.
    pub(crate) fn after(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

/// Appends a text with each byte encoded that has a meaning of its own in a path or in a parameter.
fn encode(to: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => to.push(char::from(byte)),
            other => to.push_str(&format!("%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests;
