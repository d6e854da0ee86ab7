//! Splits standard output and standard error of a guest into lines.

use std::collections::VecDeque;

use crate::effect::Level;

/// The number of last lines of standard error that are kept for the message of a trap.
const LAST_LINES_MAX: usize = 6;

/// Complete lines that wait to be logged, and the beginnings of the next ones. The limit `log-bytes` of the
/// call bounds them.
#[derive(Debug, Default)]
pub(crate) struct Output {
    lines: VecDeque<(Level, String)>,
    out: Vec<u8>,
    err: Vec<u8>,
    last: VecDeque<String>,
}

impl Output {
    /// Appends bytes; a line ends at a line feed or after `line_bytes_max` bytes.
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

    /// Completes lines without a final line feed.
    pub(crate) fn end(&mut self) {
        self.end_line(Level::Info);
        self.end_line(Level::Warn);
    }

    /// Takes the oldest complete line.
    pub(crate) fn next_line(&mut self) -> Option<(Level, String)> {
        self.lines.pop_front()
    }

    /// Returns the last lines of standard error, including those already taken.
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
