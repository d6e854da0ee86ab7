//! Bytes that are usually text.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use homeostat_digest::to_hex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes; in JSON a string if they are UTF-8, otherwise `{"hex": "…"}`. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Blob(Bytes);

impl Blob {
    /// Returns the bytes without copying them.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) => text.fmt(f),
            Err(_) => write!(f, "{} bytes", self.0.len()),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Blob {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EncodedBlob {
    Text(String),
    Binary(Hex),
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Hex { hex: to_hex(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match EncodedBlob::deserialize(deserializer)? {
            EncodedBlob::Text(text) => Ok(Self(text.into())),
            EncodedBlob::Binary(Hex { hex }) => match from_hex(&hex) {
                Some(bytes) => Ok(Self(bytes.into())),
                None => Err(D::Error::custom("`hex` must be an even number of hexadecimal digits")),
            },
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}
