//! A panic writes its message to standard error of the contract before it traps. It allocates nothing.

use std::fmt::{self, Write};
use std::panic::PanicHookInfo;

use crate::host::stderr;

/// Makes every later panic of this instance write its message. Each export calls it first.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("a value that is no text");
    // `Stderr` returns no error.
    let _ = match panic.location() {
        Some(place) => writeln!(Stderr, "panicked at {place}: {message}"),
        None => writeln!(Stderr, "panicked: {message}"),
    };
}

struct Stderr;

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            stderr::write(u64::from_le_bytes(bytes));
        }
        Ok(())
    }
}
