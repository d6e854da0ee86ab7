//! Decides which warnings are told, so that what fails for many keys, or again and again, is told once. Pure.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use homeostat_runtime::events::{Event, EventSource};
use homeostat_store::Key;

use super::place;

/// Texts that are remembered. When there are more, the oldest may be told twice.
const REPORTED_MAX: usize = 512;
/// What was told is told again when it has happened so many times as often.
const AGAIN: u64 = 10;
/// The reason of a denial. Below its first line stands what would grant it, as in the failure that it leads to.
const DENIED: &str = "Forbidden";

/// What was told of the controllers as they are.
#[derive(Default)]
pub(super) struct Warnings(VecDeque<ReportedWarning>);

/// A warning that was told, whichever key it was about.
struct ReportedWarning {
    controller: Arc<str>,
    source: EventSource,
    reason: String,
    /// Without the name of the key.
    text: String,
    /// How often it had happened then.
    count: u64,
}

/// A warning to tell.
struct WarningLine<'e> {
    /// The first one of those that say the same.
    event: &'e Event,
    text: String,
    keys: BTreeSet<&'e Key>,
    is_again: bool,
}

impl Warnings {
    /// Takes in the warnings that came since the last look, and returns what is told of them: a block for each text of a controller and
    /// reason that is new, a line for what happens again and again.
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

    /// Forgets what was told of a controller: what it does from now on is new.
    pub(super) fn forget(&mut self, controller: &str) {
        self.0.retain(|told| *told.controller != *controller);
    }

    /// Returns whether it was told before; `None` when it is not told now.
    fn record(&mut self, event: &Event, text: &str) -> Option<bool> {
        let of_controller = self.0.iter_mut().filter(|told| told.controller == event.controller);
        for told in of_controller {
            if told.source == event.source && told.reason == event.reason && told.text == text {
                let is_due = event.count >= told.count.saturating_mul(AGAIN);
                told.count = if is_due { event.count } else { told.count };
                return is_due.then_some(true);
            }
            // A guest can say the host's words, and so keep nothing quiet.
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

/// Returns a message without the name of the key that it is about, where that is a word of its own.
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
