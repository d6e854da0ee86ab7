//! `homeostat:reconciler/stderr`: standard error of guests without WASI.

use crate::bindings::stderr as wit;
use crate::call_context::State;
use crate::effect::Level;

impl wit::Host for State {
    async fn write(&mut self, bytes: u64) -> wasmtime::Result<()> {
        let (bytes, length) = unpack(bytes);
        self.context.write_output(Level::Warn, &bytes[..length])
    }
}

/// Returns the bytes of a number that are not zero, the lowest first, and their count.
fn unpack(number: u64) -> ([u8; 8], usize) {
    let (mut bytes, mut length) = ([0; 8], 0);
    for byte in number.to_le_bytes().into_iter().filter(|byte| *byte != 0) {
        bytes[length] = byte;
        length += 1;
    }
    (bytes, length)
}

#[cfg(test)]
mod tests;
