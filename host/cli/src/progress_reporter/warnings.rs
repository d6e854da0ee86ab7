//! Deduplicates warnings: a failure of many keys, or a repeated failure, is reported once. Pure.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use homeostat_runtime::events::{Event, EventSource};
use homeostat_store::Key;

use super::place;

/// Reported texts that are remembered, at most. Beyond that, the oldest may be repeated.
const REPORTED_MAX: usize = 512;
/// A reported warning is repeated when its count has grown by this factor.
const AGAIN: u64 = 10;
/// The reason of a denial. The lines after the first one of its message suggest a grant; the failure that
/// follows repeats them.
const DENIED: &str = "Forbidden";

/// The reported warnings of the running versions.
#[derive(Default)]
pub(super) struct Warnings(VecDeque<ReportedWarning>);

/// A reported warning, for all keys.
struct ReportedWarning {
    controller: Arc<str>,
    source: EventSource,
    reason: String,
    /// The message without the name of the key.
    text: String,
    /// The event's count at the last report.
    count: u64,
}

/// A warning to print.
struct WarningLine<'e> {
    /// The first of the events with this text.
    event: &'e Event,
    text: String,
    keys: BTreeSet<&'e Key>,
    is_again: bool,
}

impl Warnings {
    /// Records new warnings and returns the lines to print. A new text of a controller and reason gives a
    /// block; a repeated one gives a single line.
    pub(super) fn lines(&mut self, warnings: &[Event]) -> Vec<String> {
        let mut lines: Vec<WarningLine<'_>> = Vec::new();
        for event in warnings {
            let text = without_key_name(&event.message, event.key.as_ref());
            let is_same = |line: &&mut WarningLine<'_>| is_of(line.event, event) && line.text == text;
            if let Some(line) = lines.iter_mut().find(is_same) {
                line.keys.extend(&event.key);
            } else if let Some(is_again) = self.record(event, &text) {
                lines.push(WarningLine { event, text, keys: event.key.iter().collect(), is_again });
            }
        }
        lines.iter().map(ToString::to_string).collect()
    }

    /// Forgets the reported warnings of a controller, so that they are reported again.
    pub(super) fn forget(&mut self, controller: &str) {
        self.0.retain(|told| *told.controller != *controller);
    }

    /// Records a warning. Returns whether it is a repetition, or `None` if it is not printed now.
    fn record(&mut self, event: &Event, text: &str) -> Option<bool> {
        let of_controller = self.0.iter_mut().filter(|told| told.controller == event.controller);
        for told in of_controller {
            if told.source == event.source && told.reason == event.reason && told.text == text {
                let is_due = event.count >= told.count.saturating_mul(AGAIN);
                told.count = if is_due { event.count } else { told.count };
                return is_due.then_some(true);
            }
            // Only the host's own denials count: a guest could copy their text to hide later failures.
            let is_denial = told.reason == DENIED && told.source == EventSource::Host;
            let remedy = told.text.split_once('\n').filter(|_| is_denial);
            if remedy.is_some_and(|(_, remedy)| text.contains(remedy)) {
                return None;
            }
        }
        if self.0.len() >= REPORTED_MAX {
            self.0.pop_front();
        }
        let Event { controller, source, reason, count, .. } = event.clone();
        self.0.push_back(ReportedWarning { controller, source, reason, text: text.to_owned(), count });
        Some(false)
    }
}

impl fmt::Display for WarningLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { controller, source, reason, message, count, key, .. } = self.event;
        let key = key.as_ref().map(|key| format!(" {}", place(key))).unwrap_or_default();
        let more = match self.keys.len() {
            0 | 1 => String::new(),
            keys => format!(" and {} more", keys - 1),
        };
        let message = if self.is_again { message.lines().next().unwrap_or_default() } else { message };
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        let says = if *source == EventSource::Guest { " says" } else { "" };
        write!(f, "warning: {controller}{key}{more}{says}: {reason}{times}: {message}")
    }
}

fn is_of(one: &Event, other: &Event) -> bool {
    one.controller == other.controller && one.source == other.source && one.reason == other.reason
}

/// Returns a message without the name of its key, where that name is a separate word.
fn without_key_name(message: &str, key: Option<&Key>) -> String {
    let Some(name) = key.map(Key::name).filter(|name| !name.is_empty()) else { return message.to_owned() };
    let (mut text, mut rest) = (String::new(), message);
    while let Some(at) = rest.find(name) {
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        let is_word = !before.ends_with(char::is_alphanumeric) && !behind.starts_with(char::is_alphanumeric);
        text.push_str(before);
        text.push_str(if is_word { "…" } else { name });
        rest = behind;
    }
    text + rest
}

#[cfg(test)]
mod tests;
