//! The name of what a registry keeps, by its content. A manifest has one, and each blob; that of a component's blob is the component's own.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", to_hex(&Sha256::digest(bytes))))
    }

    /// Reads the text; `None` when it is none, or one of another algorithm.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        (digits.len() == 64 && digits.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the text: `sha256:…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes bytes as hexadecimal digits in lower case.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
