//! The trace of an execution.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

/// Returns the symbols of the functions that were run, from the log that `qemu-x86_64 -d in_asm` writes: each piece of code
/// once, under the line `IN: SYMBOL`. Code without a symbol is left out.
pub fn parse_trace(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("IN: "))
        .map(|symbol| symbol.trim().to_owned())
        .filter(|symbol| !symbol.is_empty())
        .collect()
}
