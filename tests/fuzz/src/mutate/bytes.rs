//! Mutations of bytes, independent of their meaning.

use homeostat_testing::Dice;

use crate::corpus::Corpus;

/// Maximum length of a mutated range, in bytes.
const PIECE_BYTES_MAX: usize = 64;
/// Maximum repetitions of a range.
const REPEATS_MAX: usize = 300;

/// Texts that parsers often mishandle.
const TOKENS: [&str; 28] = [
    "",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "\u{1F469}\u{200D}\u{1F4BB}",
    "e\u{301}",
    "\u{fffd}",
    "\u{661}",
    "ı",
    "\\u0000",
    "\\ud800",
    "{",
    "[",
    "\"",
    "\\",
    "(",
    ")",
    "*",
    "..",
    "/",
    "~1",
    "~2",
    "-1",
    "18446744073709551616",
    "1e309",
    "-0.0",
    "null",
    ",",
];

/// Replacements for numbers.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "7",
    "00",
    "-1",
    "99",
    "1000",
    "65536",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
];

/// Makes one mutation.
pub(super) fn change(bytes: &mut Vec<u8>, corpus: &Corpus, dice: &mut Dice) {
    let piece = piece(bytes.len(), dice);
    match dice.index(10) {
        0 => (0..=dice.index(4)).for_each(|_| flip(bytes, dice)),
        1 => bytes.truncate(dice.index(bytes.len())),
        2 => drop(bytes.drain(piece)),
        3 => {
            let copy = bytes[piece.clone()].to_vec();
            let repeated = copy.repeat(1 + dice.index(REPEATS_MAX));
            drop(bytes.splice(piece.end..piece.end, repeated));
        }
        4 => splice(bytes, corpus, dice),
        5 => {
            let byte = dice.number().to_le_bytes()[0];
            bytes[piece].fill(byte);
        }
        6 => {
            let word = dice.one(&corpus.words).map_or("", String::as_str).as_bytes();
            drop(bytes.splice(piece.start..piece.start, word.iter().copied()));
        }
        7 | 8 => renumber(bytes, dice),
        _ => drop(bytes.splice(piece.start..piece.start, token(dice).bytes())),
    }
}

/// Returns a text that parsers often mishandle.
pub(super) fn token(dice: &mut Dice) -> &'static str {
    dice.one(&TOKENS).copied().unwrap_or("")
}

/// Returns a range of bytes, which may be empty.
fn piece(length: usize, dice: &mut Dice) -> std::ops::Range<usize> {
    let from = dice.index(length);
    from..(from + dice.index(PIECE_BYTES_MAX)).min(length)
}

fn flip(bytes: &mut [u8], dice: &mut Dice) {
    let at = dice.index(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << dice.index(8);
    }
}

/// Replaces a number by another; without a number, does nothing.
fn renumber(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let begins = |at: usize| bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit());
    let starts: Vec<usize> = (0..bytes.len()).filter(|at| begins(*at)).collect();
    let Some(from) = dice.one(&starts).copied() else { return };
    let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = dice.one(&NUMBERS).copied().unwrap_or("");
    drop(bytes.splice(from..from + digits, number.bytes()));
}

/// Replaces the tail by the tail of another input.
fn splice(bytes: &mut Vec<u8>, corpus: &Corpus, dice: &mut Dice) {
    let Some(other) = dice.one(&corpus.inputs) else { return };
    bytes.truncate(dice.index(bytes.len() + 1));
    bytes.extend_from_slice(&other[dice.index(other.len() + 1)..]);
}
