//! The output for people while the host runs: permanent lines, and below them, on a terminal, a table that is
//! redrawn in place.
//!
//! All of it goes to standard error; standard output is for data. Without a terminal there are only lines.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use tracing_subscriber::fmt::MakeWriter;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The minimum time between two redraws.
const REDRAW: Duration = Duration::from_millis(200);
/// Bytes of one permanent line. Longer lines are truncated.
const LINE_BYTES_MAX: usize = 16 << 10;

const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const CLEAR_BELOW: &str = "\u{1b}[0J";

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Size {
    const DEFAULT: Self = Self { rows: 24, columns: 80 };

    /// Queries the size of a terminal. Returns `None` if `terminal` is none, or does not know its size.
    fn query(terminal: impl AsFd) -> Option<Self> {
        let size = tcgetwinsize(terminal).ok()?;
        let (rows, columns) = (size.ws_row.into(), size.ws_col.into());
        (rows > 0 && columns > 0).then_some(Self { rows, columns })
    }
}

/// The style of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Lines, and a table if standard error is a capable terminal.
    Live,
    /// Lines.
    Lines,
    /// Records of the log.
    Log,
}

/// The terminal of this process. Clones share it.
#[derive(Clone)]
pub(crate) struct Screen {
    live: bool,
    logged: bool,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    size: Size,
    table: Vec<String>,
    status: String,
    /// The rows on the terminal now, of the table and the status line.
    drawn: usize,
    /// The content has changed since the last redraw.
    dirty: bool,
    last_draw: Option<Instant>,
    closed: bool,
}

impl Screen {
    /// Returns the screen of this process.
    pub(crate) fn new(style: Style) -> Self {
        let able = environment("TERM").is_none_or(|term| term != "dumb") && io::stderr().is_terminal();
        let inner = Inner {
            size: Size::DEFAULT,
            table: Vec::new(),
            status: String::new(),
            drawn: 0,
            dirty: false,
            last_draw: None,
            closed: false,
        };
        Self { live: style == Style::Live && able, logged: style == Style::Log, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Returns whether there is a table.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Prints a message.
    pub(crate) fn info(&self, text: &str) {
        if self.logged { tracing::info!(target: "homeostat", "{text}") } else { self.line(text) }
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, text: &str) {
        if self.logged { tracing::warn!(target: "homeostat", "{text}") } else { self.line(&format!("warning: {text}")) }
    }

    /// Prints a permanent line. Control characters are escaped, and further lines of the same text are
    /// indented: the text may come from guests, and none of it may look like a line of the host.
    pub(crate) fn line(&self, text: &str) {
        self.write(&homeostat_text::block(text.trim_end()));
    }

    /// Prints permanent lines with their colours. Only for cargo's output during a build that the user
    /// started.
    pub(crate) fn cargo_output(&self, text: &str) {
        self.write(text);
    }

    fn write(&self, text: &str) {
        let mut text = text.trim_end();
        if text.len() > LINE_BYTES_MAX {
            text = &text[..text.floor_char_boundary(LINE_BYTES_MAX)];
        }
        let mut inner = self.lock();
        let mut out = inner.erase();
        let _infallible = writeln!(out, "{text}");
        if self.live && !inner.closed {
            inner.draw_into(&mut out);
        }
        emit(&out);
    }

    /// Sets the status line at the bottom; empty text removes it. Does nothing without a table.
    pub(crate) fn status(&self, text: &str) {
        let mut inner = self.lock();
        let text = homeostat_text::line(text).into_owned();
        inner.dirty |= inner.status != text;
        inner.status = text;
        self.redraw(&mut inner);
    }

    /// Replaces the table. Does nothing without a table. If the last redraw was too recent, the next call
    /// redraws it.
    pub(crate) fn table(&self, rows: Vec<String>) {
        let mut inner = self.lock();
        let rows: Vec<String> = rows.iter().map(|row| homeostat_text::line(row).into_owned()).collect();
        inner.dirty |= inner.table != rows;
        inner.table = rows;
        self.redraw(&mut inner);
    }

    /// Draws changes that came too soon after the last redraw.
    pub(crate) fn refresh(&self) {
        self.redraw(&mut self.lock());
    }

    /// Removes the table and restores the terminal. Lines can still be printed.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        if self.live && !inner.closed {
            let mut out = inner.erase();
            out.push_str(SHOW_CURSOR);
            emit(&out);
        }
        inner.closed = true;
    }

    fn redraw(&self, inner: &mut Inner) {
        let soon = inner.last_draw.is_some_and(|last| last.elapsed() < REDRAW);
        if !self.live || inner.closed || soon || !inner.dirty {
            return;
        }
        inner.size = Size::query(io::stderr()).unwrap_or(inner.size);
        let mut out = inner.erase();
        inner.draw_into(&mut out);
        emit(&out);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no code panics while it holds the screen")
    }
}

impl Inner {
    /// Returns the escape sequence that removes the table.
    fn erase(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn == 0 { String::new() } else { format!("\u{1b}[{drawn}A\r{CLEAR_BELOW}") }
    }

    fn draw_into(&mut self, out: &mut String) {
        let rows = fit(&self.table, &self.status, self.size);
        out.push_str(HIDE_CURSOR);
        for row in &rows {
            let _infallible = writeln!(out, "{row}");
        }
        self.drawn = rows.len();
        self.last_draw = Some(Instant::now());
        self.dirty = false;
    }
}

/// Truncates a table and the status line so that they fit on the terminal without scrolling.
fn fit(table: &[String], status: &str, size: Size) -> Vec<String> {
    // One row is left for the cursor and one for a line above.
    let rows_max = size.rows.saturating_sub(2 + usize::from(!status.is_empty())).max(1);
    let mut rows: Vec<String> = table.iter().take(rows_max).cloned().collect();
    if table.len() > rows_max {
        let hidden = table.len() - rows_max + 1;
        if let Some(last) = rows.last_mut() {
            *last = format!("… and {hidden} more rows");
        }
    }
    if !status.is_empty() {
        rows.push(status.to_owned());
    }
    for row in &mut rows {
        // A row that wraps would take two lines.
        if row.width() >= size.columns {
            let mut width = 0;
            let fits = row.chars().take_while(|c| {
                width += c.width().unwrap_or(0);
                width <= size.columns.saturating_sub(2)
            });
            *row = fits.chain(['…']).collect();
        }
    }
    rows
}

#[allow(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
fn environment(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

/// Writes to standard error. A closed pipe is ignored.
fn emit(text: &str) {
    let mut stderr = io::stderr().lock();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// Sends log records to the terminal, each in one piece.
pub(crate) struct Log {
    pub(crate) screen: Screen,
    /// Each record is a JSON document and is printed as such.
    pub(crate) is_json: bool,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LogRecord;

    fn make_writer(&'a self) -> LogRecord {
        LogRecord { screen: self.screen.clone(), is_json: self.is_json, text: Vec::new() }
    }
}

/// One record of the log.
pub(crate) struct LogRecord {
    screen: Screen,
    is_json: bool,
    text: Vec<u8>,
}

impl Write for LogRecord {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogRecord {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        match text.trim_end() {
            "" => {}
            text if self.is_json => self.screen.write(&homeostat_text::json(text)),
            text => self.screen.line(text),
        }
    }
}

#[cfg(test)]
mod tests;
