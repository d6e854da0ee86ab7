//! Checks on the raw bytes.

use wasmparser::{Parser, Payload};

use crate::load_error::Reason;

const MAGIC: &[u8; 4] = b"\0asm";
/// The version and the layer of a core module.
const CORE: [u8; 4] = [1, 0, 0, 0];
const HEADER_BYTES: usize = 8;

/// Refuses bytes that are obviously no component.
///
/// # Errors
/// `Empty`, `TooLarge`, `NotWasm`, `Truncated`, `CoreModule`.
pub(super) fn check(bytes: &[u8], bytes_max: u64) -> Result<(), Reason> {
    if bytes.is_empty() {
        return Err(Reason::Empty);
    }
    let length = bytes.len() as u64;
    if length > bytes_max {
        return Err(Reason::TooLarge { bytes: length, bytes_max });
    }
    let magic = bytes.len().min(MAGIC.len());
    if bytes[..magic] != MAGIC[..magic] {
        return Err(Reason::NotWasm);
    }
    if bytes.len() < HEADER_BYTES {
        return Err(Reason::Truncated);
    }
    if bytes[MAGIC.len()..HEADER_BYTES] == CORE {
        return Err(Reason::CoreModule);
    }
    if is_cut_off(&bytes[HEADER_BYTES..]) {
        return Err(Reason::Truncated);
    }
    Ok(())
}

/// Returns the bytes of all functions in the core modules of a valid component, which determine how long it compiles.
/// Data, of which the components of some languages have as much, takes no time.
pub(super) fn function_bytes(bytes: &[u8]) -> u64 {
    let payloads = Parser::new(0).parse_all(bytes).map_while(Result::ok);
    payloads.map(|payload| if let Payload::CodeSectionStart { size, .. } = payload { u64::from(size) } else { 0 }).sum()
}

/// Returns whether the last section extends beyond the end. Each section has a number, its length, and that
/// many bytes.
fn is_cut_off(mut sections: &[u8]) -> bool {
    while let Some((_, rest)) = sections.split_first() {
        let Some((length, rest)) = leb128(rest) else { return true };
        match rest.get(length..) {
            Some(rest) => sections = rest,
            None => return true,
        }
    }
    false
}

/// Reads a LEB128 number; `None` if it has no end, or is too large for any file.
fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    const BYTES_MAX: usize = 5;
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(BYTES_MAX) {
        number |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}
