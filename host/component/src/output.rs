//! Lines out of what a guest writes to standard output and standard error.

use std::collections::VecDeque;

use crate::effect::Level;

/// How many of the last lines of standard error are kept for the message of a trap.
const LAST_LINES_MAX: usize = 6;

/// Whole lines that wait to be logged, and the begin of the next ones. Bounded by the limit `log-bytes` of whoever writes.
#[derive(Debug, Default)]
pub(crate) struct Output {
    lines: VecDeque<(Level, String)>,
    out: Vec<u8>,
    err: Vec<u8>,
    last: VecDeque<String>,
}

impl Output {
    /// Takes bytes; a line ends at a line feed or after `line_bytes_max` bytes.
    pub(crate) fn write(&mut self, level: Level, bytes: &[u8], line_bytes_max: usize) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            for piece in piece.chunks(line_bytes_max) {
                let partial = self.partial(level);
                partial.extend_from_slice(piece);
                if partial.ends_with(b"\n") || partial.len() >= line_bytes_max {
                    self.end_line(level);
                }
            }
        }
    }

    /// Ends the lines that no line feed has ended.
    pub(crate) fn end(&mut self) {
        self.end_line(Level::Info);
        self.end_line(Level::Warn);
    }

    /// Takes the oldest whole line.
    pub(crate) fn next_line(&mut self) -> Option<(Level, String)> {
        self.lines.pop_front()
    }

    /// Returns the last lines of standard error, also those that were taken already.
    pub(crate) fn last_words(&mut self) -> String {
        self.end_line(Level::Warn);
        Vec::from(self.last.clone()).join("\n")
    }

    fn partial(&mut self, level: Level) -> &mut Vec<u8> {
        if level == Level::Info { &mut self.out } else { &mut self.err }
    }

    fn end_line(&mut self, level: Level) {
        let bytes = std::mem::take(self.partial(level));
        let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        if text.is_empty() {
            return;
        }
        if level == Level::Warn {
            if self.last.len() == LAST_LINES_MAX {
                self.last.pop_front();
            }
            self.last.push_back(text.clone());
        }
        self.lines.push_back((level, text));
    }
}

#[cfg(test)]
mod tests;
