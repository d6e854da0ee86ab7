//! The trace of an execution.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

/// The line before the code of a function that is run, up to its symbol.
const FUNCTION: &str = "IN: ";
/// The function of a program that the runtime of C calls. Its first instruction is run before the others.
pub(crate) const MAIN: &str = "main";

/// Returns the addresses of pieces of code that were run, from the log that `qemu-x86_64 -d in_asm` writes: each piece once,
/// under the line `IN: SYMBOL`. The system loads a program at some address; the returned ones are those of a program whose
/// function `main` is at `main`. `None` if the program did not come to it.
pub fn parse_trace(text: &str, main: u64) -> Option<BTreeSet<u64>> {
    let mut lines = text.lines();
    let mut pieces = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(symbol) = line.strip_prefix(FUNCTION) {
            let address = lines.next().and_then(|line| line.split_once(':')?.0.strip_prefix("0x"));
            pieces.extend(address.and_then(|address| Some((symbol.trim(), u64::from_str_radix(address, 16).ok()?))));
        }
    }
    let (_, loaded) = pieces.iter().find(|(symbol, _)| *symbol == MAIN)?;
    let to = loaded.checked_sub(main)?;
    // The code of the loader and of libraries may be before the program.
    Some(pieces.iter().filter_map(|(_, address)| address.checked_sub(to)).collect())
}
