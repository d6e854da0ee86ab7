//! Warnings of a response, which clients print.

use std::collections::BTreeSet;

use axum::http::header::Entry;
use axum::http::{HeaderMap, HeaderValue, header};

/// Maximum length of all warnings of one response, in characters. Source: Kubernetes.
const CHARS_MAX: usize = 4096;
/// Maximum length of each warning of a response that has more than that.
const ITEM_CHARS_MAX: usize = 256;
/// Maximum number of warnings that are looked at. Fewer find room.
const WARNINGS_MAX: usize = 512;

/// Adds warnings before and after those that a response has.
pub(crate) fn add_around(
    headers: &mut HeaderMap,
    before: impl IntoIterator<Item = String>,
    after: impl IntoIterator<Item = String>,
) {
    let between: Vec<HeaderValue> = match headers.entry(header::WARNING) {
        Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
        Entry::Vacant(_) => Vec::new(),
    };
    add(headers, before);
    for warning in between {
        headers.append(header::WARNING, warning);
    }
    add(headers, after);
}

/// Adds warnings to the headers of a response, each once. When there are too many, each is cut, and the last ones are left out.
pub(crate) fn add(headers: &mut HeaderMap, warnings: impl IntoIterator<Item = String>) {
    let mut known = BTreeSet::new();
    let distinct = warnings.into_iter().filter(|warning| known.insert(warning.clone()));
    let mut distinct: Vec<String> = distinct.take(WARNINGS_MAX).collect();
    let length = |warning: &String| warning.chars().count();
    if distinct.iter().map(length).sum::<usize>() > CHARS_MAX {
        distinct.iter_mut().for_each(|warning| *warning = warning.chars().take(ITEM_CHARS_MAX).collect());
    }
    let mut room = CHARS_MAX;
    for warning in distinct {
        let Some(left) = room.checked_sub(length(&warning)) else { return };
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // 299 is a miscellaneous persistent warning, and `-` is an unnamed agent. Source: RFC 7234, 5.5.
        let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) else { continue };
        room = left;
        headers.append(header::WARNING, value);
    }
}
