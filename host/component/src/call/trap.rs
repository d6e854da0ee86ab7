//! The message of a trap for people: the error, the guest's last words, and a backtrace.

use wasmtime::{Trap, WasmBacktrace};

use crate::limits::cut;

/// Bytes of the message of a trap. Cut above.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The frames shown.
const FRAMES_MAX: usize = 6;

/// Prefixes of frames that belong to the panic machinery, not to the guest.
const MACHINERY: [&str; 11] = [
    "std::",
    "std[",
    "core::",
    "core[",
    "alloc::",
    "alloc[",
    "abort",
    "__rust",
    "rust_panic",
    "rust_begin_unwind",
    "<unknown>",
];

/// Composes the message of a trap; `last_words` are the last lines of standard error.
pub(super) fn message(error: &wasmtime::Error, last_words: &str) -> String {
    let what = match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
        None => error.root_cause().to_string(),
    };
    let backtrace = error.downcast_ref::<WasmBacktrace>().map(ToString::to_string).unwrap_or_default();
    compose(&what, last_words, &backtrace)
}

fn compose(what: &str, last_words: &str, backtrace: &str) -> String {
    let frames: Vec<&str> = backtrace.lines().filter_map(frame).collect();
    let mut message = what.to_owned();
    if matches!(frames.as_slice(), [a, b, c, ..] if a == b && b == c) {
        message.push_str(" (endless recursion?)");
    }
    let words = last_words.lines().filter(|line| !line.starts_with("note: run with `RUST_BACKTRACE"));
    let words = words.collect::<Vec<_>>().join("\n");
    if words.contains("panicked at") {
        // A trap ends every panic; the panic's message says more.
        message = words;
    } else if !words.is_empty() {
        message = format!("{message}\n{words}");
    }
    let mut frames: Vec<&str> =
        frames.into_iter().filter(|name| !MACHINERY.iter().any(|machinery| name.starts_with(machinery))).collect();
    frames.dedup();
    for name in frames.iter().take(FRAMES_MAX) {
        message.push_str("\n  at ");
        message.push_str(name);
    }
    cut(message, MESSAGE_BYTES_MAX)
}

/// Returns the name of the function in a line like `  0:   0x2db51 - guest.wasm!guest::recurse`.
fn frame(line: &str) -> Option<&str> {
    let (_, frame) = line.split_once(": ")?;
    let frame = frame.split_once(" - ").map_or(frame, |(_, name)| name);
    Some(without_hash(frame.split_once('!').map_or(frame, |(_, name)| name).trim()))
}

/// Removes the hash from the name of a Rust function: `guest::recurse::h0123456789abcdef`.
fn without_hash(name: &str) -> &str {
    const DIGITS: usize = 16;
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

#[cfg(test)]
mod tests;
