//! The controller's settings from `spec.config` of its manifest. They need no grant: a controller sees only
//! its own.
//!
//! ```no_run
//! use homeostat_sdk::{Span, config};
//! use std::time::Duration;
//!
//! # fn f() -> Result<(), config::Error> {
//! let startup: Span = config::get_or("startup", Span(Duration::from_millis(300)))?;
//! # Ok(()) }
//! ```

use std::fmt;
use std::str::FromStr;

use crate::host::config as wit;

/// A setting that cannot be read or parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host could not read it.
    #[error("reading the setting {key:?} failed: {reason}")]
    Unreadable {
        /// The setting.
        key: String,
        /// The host's error.
        reason: String,
    },
    /// Its value cannot be parsed.
    #[error("the setting {key:?} is invalid: {reason}")]
    Wrong {
        /// The setting.
        key: String,
        /// The error of the parser.
        reason: String,
    },
    /// A required setting is missing.
    #[error("the setting {key:?} is missing: add it to spec.config of the controller")]
    Missing {
        /// The setting.
        key: String,
    },
}

/// Returns the value of a setting, or `None` if the manifest does not have it.
///
/// # Errors
///
/// [`Error::Unreadable`].
pub fn get(key: &str) -> Result<Option<String>, Error> {
    wit::get(key).map_err(|error| {
        let (wit::Error::Upstream(reason) | wit::Error::Io(reason)) = error;
        Error::Unreadable { key: key.to_owned(), reason }
    })
}

/// Returns the value of a setting, parsed by [`FromStr`] (a number, a [`Span`](crate::Span), …), or `default`
/// if the manifest does not have it.
///
/// # Errors
///
/// [`Error::Unreadable`] and [`Error::Wrong`].
pub fn get_or<T>(key: &str, default: T) -> Result<T, Error>
where
    T: FromStr<Err: fmt::Display>,
{
    match get(key)? {
        Some(text) => {
            text.trim().parse().map_err(|error: T::Err| Error::Wrong { key: key.to_owned(), reason: error.to_string() })
        }
        None => Ok(default),
    }
}

/// Returns the value of a required setting.
///
/// # Errors
///
/// [`Error::Missing`] and [`Error::Unreadable`].
pub fn require(key: &str) -> Result<String, Error> {
    get(key)?.ok_or_else(|| Error::Missing { key: key.to_owned() })
}
