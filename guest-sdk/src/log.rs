//! The controller's log. Lines carry the controller and the key by themselves. `homeostat logs` shows them.
//!
//! ```no_run
//! use homeostat_sdk::info;
//!
//! let (url, code) = ("https://example.com", 200);
//! info!("checked {url}", code = code);
//! ```
//!
//! The text takes variables in braces, as `format!` does; fields follow it as `name = value`, where the value has `Display`. At most 16
//! fields; the text is cut at 4096 bytes, names of fields at 128 and values at 1024.

use std::fmt;

use crate::bindings::imports::homeostat::reconciler::log as wit;

/// How much a line matters.
pub use crate::bindings::imports::homeostat::reconciler::log::Level;

/// Writes one line. The macros are the shorter way.
pub fn write(level: Level, message: &str, fields: &[(&str, &dyn fmt::Display)]) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    wit::write(level, message, &fields);
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {
        $crate::log::write(
            $crate::log::Level::$level,
            &::std::format!($message),
            &[$((::core::stringify!($field), &$value as &dyn ::core::fmt::Display)),*],
        )
    };
}

/// Logs what only helps while looking for one fault: `trace!("text", field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! trace {
    ($($line:tt)+) => { $crate::__log!(Trace, $($line)+) };
}

/// Logs what helps to understand a decision: `debug!("text", field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::__log!(Debug, $($line)+) };
}

/// Logs what a person who runs the controller wants to know: `info!("text", field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::__log!(Info, $($line)+) };
}

/// Logs what may need attention: `warn!("text", field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::__log!(Warn, $($line)+) };
}

/// Logs what needs attention: `error!("text", field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::__log!(Error, $($line)+) };
}
