//! The log lines of guests: kept in memory, bounded for each controller, in the order of writing. The host also
//! copies them to its own log, where each controller has a budget of lines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Level;
use homeostat_store::Key;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::line_budget::LineBudget;

/// Maximum number of lines of each controller. The oldest are dropped first.
pub const LINES_MAX: usize = 2000;
/// Maximum bytes of the lines of each controller. The oldest are dropped first.
pub const BYTES_MAX: u64 = 4 << 20;
/// Maximum bytes of the lines of all controllers. At the bound, the controller with the most bytes loses its
/// oldest lines.
pub const BYTES_OF_ALL_MAX: u64 = 64 << 20;
/// The target of copies in the host's log.
pub const TARGET: &str = "homeostat_guest";
/// Lines of one controller that the host copies to its own log at once.
pub const COPIED_BURST: u32 = 100;
/// The time after which one more line of that controller is copied.
pub const COPIED_EVERY: Duration = Duration::from_millis(100);
/// Bytes that a line takes in addition to its texts.
const LINE_BYTES: u64 = 256;

/// One line of a guest's log.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Increases with every line of the host.
    pub sequence: u64,
    /// Time of writing, RFC 3339.
    pub time: String,
    /// The controller.
    pub controller: Arc<str>,
    /// The key being reconciled; `None` outside of a reconcile.
    pub key: Option<Key>,
    /// The level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// Structured fields: names and values.
    pub fields: Vec<(String, String)>,
}

/// The logs of all controllers.
pub struct LogBook {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    sequence: u64,
    lines: BTreeMap<Arc<str>, ControllerLog>,
    bytes: u64,
}

/// The lines of one controller.
struct ControllerLog {
    lines: VecDeque<LogLine>,
    bytes: u64,
    /// The lines that are copied to the log of the host.
    copied: LineBudget,
}

impl Default for ControllerLog {
    fn default() -> Self {
        Self { lines: VecDeque::new(), bytes: 0, copied: LineBudget::new(COPIED_BURST, COPIED_EVERY) }
    }
}

impl ControllerLog {
    /// Drops the oldest line and returns its bytes.
    fn forget_one(&mut self) -> u64 {
        let bytes = self.lines.pop_front().map_or(0, |line| line.bytes());
        self.bytes -= bytes;
        bytes
    }
}

impl LogLine {
    fn bytes(&self) -> u64 {
        let fields: usize = self.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        let key = self.key.as_ref().map_or(0, |key| key.namespace().len() + key.name().len());
        LINE_BYTES + (self.message.len() + fields + key) as u64
    }
}

impl Inner {
    fn write(&mut self, line: LogLine) {
        let (controller, bytes) = (line.controller.clone(), line.bytes());
        let own = self.lines.entry(controller).or_default();
        own.lines.push_back(line);
        own.bytes += bytes;
        self.bytes += bytes;
        while own.lines.len() > LINES_MAX || own.bytes > BYTES_MAX {
            self.bytes -= own.forget_one();
        }
        while self.bytes > BYTES_OF_ALL_MAX {
            let Some(loudest) = self.lines.values_mut().max_by_key(|lines| lines.bytes) else { return };
            self.bytes -= loudest.forget_one();
        }
    }
}

impl Default for LogBook {
    fn default() -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl LogBook {
    /// Writes one line and assigns its sequence. If the host's own log has the line's level, it also gets a copy, at
    /// most [`COPIED_BURST`] lines of one controller at once and one more after each [`COPIED_EVERY`].
    pub fn write(&self, mut line: LogLine) {
        let now = is_copied(line.level).then(Instant::now);
        let mut inner = self.inner.lock();
        inner.sequence += 1;
        line.sequence = inner.sequence;
        let sequence = inner.sequence;
        let copy = now.and_then(|now| {
            let own = inner.lines.entry(line.controller.clone()).or_default();
            own.copied.take(now).map(|left_out| (line.clone(), left_out))
        });
        inner.write(line);
        drop(inner);
        if let Some((line, left_out)) = copy {
            copy_to_host_log(&line, left_out);
        }
        // Concurrent calls may arrive here in another order.
        self.changed.send_modify(|latest| *latest = sequence.max(*latest));
    }

    /// Returns the last `lines_max` lines after `sequence`, of one controller or of all, oldest first.
    pub fn tail(&self, controller: Option<&str>, sequence: u64, lines_max: usize) -> Vec<LogLine> {
        let inner = self.inner.lock();
        let mut lines: Vec<LogLine> = inner
            .lines
            .iter()
            .filter(|(name, _)| controller.is_none_or(|wanted| wanted == &***name))
            .flat_map(|(_, lines)| {
                lines.lines.iter().rev().take(lines_max).filter(|line| line.sequence > sequence).cloned()
            })
            .collect();
        drop(inner);
        lines.sort_by_key(|line| line.sequence);
        let surplus = lines.len().saturating_sub(lines_max);
        lines.drain(..surplus);
        lines
    }

    /// Waits until a line has a sequence greater than `sequence`.
    ///
    /// *Cancel safety*: nothing is lost.
    pub async fn changed(&self, sequence: u64) {
        let mut receiver = self.changed.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(receiver.wait_for(|latest| *latest > sequence).await);
    }

    /// Drops the lines of a removed controller.
    pub fn forget(&self, controller: &str) {
        let mut inner = self.inner.lock();
        let forgotten = inner.lines.remove(controller).map_or(0, |lines| lines.bytes);
        inner.bytes -= forgotten;
    }
}

/// Returns whether the host's own log has lines of this level.
fn is_copied(level: Level) -> bool {
    match level {
        Level::Trace => tracing::enabled!(target: TARGET, tracing::Level::TRACE),
        Level::Debug => tracing::enabled!(target: TARGET, tracing::Level::DEBUG),
        Level::Info => tracing::enabled!(target: TARGET, tracing::Level::INFO),
        Level::Warn => tracing::enabled!(target: TARGET, tracing::Level::WARN),
        Level::Error => tracing::enabled!(target: TARGET, tracing::Level::ERROR),
    }
}

/// Writes a record to the host's own log. The text of the guest is in fields, which are quoted, so it cannot look like
/// a record or a field of the host.
fn copy_to_host_log(line: &LogLine, left_out: u64) {
    let (controller, text) = (&*line.controller, line.message.as_str());
    let key = line.key.as_ref().map(ToString::to_string);
    let key = key.as_deref();
    let pairs = (!line.fields.is_empty()).then(|| tracing::field::debug(&line.fields));
    let left_out = (left_out > 0).then_some(left_out);
    macro_rules! record {
        ($level:ident) => {
            tracing::event!(
                target: TARGET, tracing::Level::$level, controller, key, text, fields = pairs, left_out, "guest log"
            )
        };
    }
    match line.level {
        Level::Trace => record!(TRACE),
        Level::Debug => record!(DEBUG),
        Level::Info => record!(INFO),
        Level::Warn => record!(WARN),
        Level::Error => record!(ERROR),
    }
}

#[cfg(test)]
mod tests;
