//! Warnings of a response, which clients print.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderValue, header};

/// Maximum length of all warnings of one response, in characters. Source: Kubernetes.
const CHARS_MAX: usize = 4096;
/// Maximum length of each warning of a response that has more than that.
const ITEM_CHARS_MAX: usize = 256;
/// Maximum number of warnings that are recorded. Fewer find room.
const WARNINGS_MAX: usize = 512;

/// Collects the warnings of one response, whether it is a success or a refusal.
#[derive(Default)]
pub(crate) struct WarningRecorder(Mutex<Vec<String>>);

impl WarningRecorder {
    /// Adds warnings, if there are not too many.
    pub(crate) fn add(&self, warnings: impl IntoIterator<Item = String>) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = WARNINGS_MAX.saturating_sub(recorded.len());
        recorded.extend(warnings.into_iter().take(room));
    }

    /// Removes the warnings, and returns them in their order.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes the warnings of a response to its headers, each once. When there are too many, each is cut, and the last ones are left
/// out.
pub(crate) fn write(headers: &mut HeaderMap, warnings: impl IntoIterator<Item = String>) {
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
