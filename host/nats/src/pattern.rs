//! Keys of a foreign bucket as namespaces and names of resources, and back.
//!
//! A part of a key that is a valid name stands for itself. Any other part becomes `k-` and its lower-case
//! base32, so that each key has one name and each name one key.

#[cfg(test)]
mod tests;

use homeostat_store::{Error, Result};

/// Longest part of a key that still fits into a name of 253 bytes: base32 takes 8 bytes for 5.
const PART_BYTES_MAX: usize = 150;
/// The beginning of the name of a part that is no valid name itself.
const ENCODED: &str = "k-";
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The form of the keys of a foreign bucket, as `{namespace}/{name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Namespace,
    Name,
}

impl KeyPattern {
    /// Parses a pattern. Between two placeholders there is a text, so that a key can be taken apart in one
    /// way.
    ///
    /// # Errors
    /// `Invalid` with the path `key`.
    pub(crate) fn parse(text: &str, namespaced: bool) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, length) = if rest.starts_with("{namespace}") {
                (Piece::Namespace, "{namespace}".len())
            } else if rest.starts_with("{name}") {
                (Piece::Name, "{name}".len())
            } else {
                let end = rest.char_indices().skip(1).find(|(_, char)| *char == '{');
                let length = end.map_or(rest.len(), |(at, _)| at);
                (Piece::Literal(rest[..length].to_owned()), length)
            };
            pieces.push(piece);
            rest = &rest[length..];
        }
        let count = |wanted: &Piece| pieces.iter().filter(|piece| *piece == wanted).count();
        require(count(&Piece::Name) == 1, "must have `{name}` once")?;
        let namespaces = count(&Piece::Namespace);
        require(
            namespaces == usize::from(namespaced),
            "must have `{namespace}` once if the kind is namespaced, else not",
        )?;
        let literals_are_valid = pieces.iter().all(|piece| match piece {
            Piece::Literal(text) => text.bytes().all(is_of_key),
            Piece::Namespace | Piece::Name => true,
        });
        require(literals_are_valid, "must have letters, digits and `-/_=.` beside its placeholders")?;
        let touches = |pair: &[Piece]| !pair.iter().any(|piece| matches!(piece, Piece::Literal(_)));
        require(!pieces.windows(2).any(touches), "must have a text between its placeholders")?;
        Ok(Self(pieces))
    }

    /// Returns the namespace and the name of the resource of a key; `None` for a key of another form, and for
    /// one that is too long for a name.
    pub(crate) fn read(&self, key: &str) -> Option<(String, String)> {
        let (mut namespace, mut name) = (String::new(), String::new());
        let mut rest = key;
        for (at, piece) in self.0.iter().enumerate() {
            let part = match piece {
                Piece::Literal(text) => {
                    rest = rest.strip_prefix(text.as_str())?;
                    continue;
                }
                Piece::Namespace => &mut namespace,
                Piece::Name => &mut name,
            };
            // The first occurrence of the next text ends the part; so the part never has it.
            let end = match self.0.get(at + 1) {
                Some(Piece::Literal(text)) => rest.find(text.as_str())?,
                _ => rest.len(),
            };
            let is_label = matches!(piece, Piece::Namespace);
            *part = name_of(&rest[..end], is_label)?;
            rest = &rest[end..];
        }
        rest.is_empty().then_some((namespace, name))
    }

    /// Returns the key of a resource; `None` for a resource that [`KeyPattern::read`] does not name.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Option<String> {
        let mut key = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => key.push_str(text),
                Piece::Namespace => key.push_str(&part_of(namespace)?),
                Piece::Name => key.push_str(&part_of(name)?),
            }
        }
        let is_its_own = self.read(&key).is_some_and(|read| read == (namespace.to_owned(), name.to_owned()));
        is_its_own.then_some(key)
    }
}

fn require(holds: bool, rule: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid("key", rule)) }
}

/// Returns whether a byte can be in the key of a bucket. Source: ADR-8 of NATS.
fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-/_=.".contains(&byte)
}

/// Returns whether a part is a valid name of a resource, or the valid name of a namespace.
fn is_name(part: &str, is_label: bool) -> bool {
    let length_max = if is_label { 63 } else { 253 };
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_end(byte) || byte == b'-';
    part.len() <= length_max
        && (!is_label || !part.contains('.'))
        && part.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().copied().is_some_and(is_end)
                && bytes.last().copied().is_some_and(is_end)
                && bytes.iter().copied().all(is_inner)
        })
}

/// Returns the name that stands for a part of a key; `None` if none is long enough.
fn name_of(part: &str, is_label: bool) -> Option<String> {
    if is_name(part, is_label) && !part.starts_with(ENCODED) {
        return Some(part.to_owned());
    }
    let encoded = format!("{ENCODED}{}", encode(part.as_bytes()));
    let fits = !part.is_empty() && part.len() <= PART_BYTES_MAX && is_name(&encoded, is_label);
    fits.then_some(encoded)
}

/// Returns the part that a name stands for.
fn part_of(name: &str) -> Option<String> {
    match name.strip_prefix(ENCODED) {
        Some(encoded) => String::from_utf8(decode(encoded)?).ok(),
        None => Some(name.to_owned()),
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    for chunk in bytes.chunks(5) {
        let mut block = [0; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        for at in 0..(chunk.len() * 8).div_ceil(5) {
            let digit = (bits >> (35 - 5 * at)) & 31;
            text.push(char::from(ALPHABET[usize::try_from(digit).unwrap_or_default()]));
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    for chunk in text.as_bytes().chunks(8) {
        let mut bits = 0_u64;
        for (at, digit) in chunk.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == digit)? as u64;
            bits |= value << (35 - 5 * at);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[3..3 + chunk.len() * 5 / 8]);
    }
    Some(bytes)
}
