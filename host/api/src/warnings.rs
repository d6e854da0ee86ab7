//! Warnings of a response, which clients print.

use axum::http::{HeaderMap, HeaderValue, header};

/// Maximum size of all warnings of one response, in bytes. Source: Kubernetes.
const BYTES_MAX: usize = 4096;

/// Adds warnings to the headers of a response, up to [`BYTES_MAX`].
pub(crate) fn add(headers: &mut HeaderMap, warnings: impl IntoIterator<Item = String>) {
    let mut room = BYTES_MAX;
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // 299 is a miscellaneous persistent warning, and `-` is an unnamed agent. Source: RFC 7234, 5.5.
        let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) else { continue };
        let Some(left) = room.checked_sub(value.len()) else { return };
        room = left;
        headers.append(header::WARNING, value);
    }
}
