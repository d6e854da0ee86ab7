//! The store's counter of changes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The number of a change in a store. The first change has 1, and each change has one more than the one
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of an empty store, before the first change.
    pub const ZERO: Self = Self(0);

    /// Returns the revision of the next change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Revision {
    type Err = Error;

    /// Parses the decimal form that [`fmt::Display`] writes: digits alone, no sign, no leading zero.
    fn from_str(text: &str) -> Result<Self> {
        let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        match text.parse() {
            Ok(number) if canonical => Ok(Self(number)),
            _ => Err(Error::invalid("metadata.resourceVersion", "must be a decimal number that this store gave")),
        }
    }
}
