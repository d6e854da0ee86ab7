//! The settings that the manifest gives to this controller under `spec.config`. They need no grant: a controller sees its own alone.
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

use crate::bindings::imports::wasi::config::store as wit;

/// A setting that is not to be had, or not to be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host could not read it.
    #[error("reading the setting {key:?} failed: {reason}")]
    Unreadable {
        /// The setting.
        key: String,
        /// What the host says.
        reason: String,
    },
    /// It has a value that is no value for it.
    #[error("the setting {key:?} is wrong: {reason}")]
    Wrong {
        /// The setting.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// It has to be there, and is not.
    #[error("the setting {key:?} is missing: add it to spec.config of the controller")]
    Missing {
        /// The setting.
        key: String,
    },
}

/// The value of a setting; `None` when the manifest does not have it.
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

/// The value of a setting as a number, a [`Span`](crate::Span) or whatever else has [`FromStr`]; `default` when the manifest does not
/// have it.
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

/// The value of a setting that has to be there.
///
/// # Errors
///
/// [`Error::Missing`] and [`Error::Unreadable`].
pub fn require(key: &str) -> Result<String, Error> {
    get(key)?.ok_or_else(|| Error::Missing { key: key.to_owned() })
}
