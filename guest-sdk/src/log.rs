//! The controller's log. Lines carry the controller and the key by themselves. `homeostat logs` shows them.
//!
//! ```no_run
//! use homeostat_sdk::info;
//!
//! let (url, code) = ("https://example.com", 200);
//! info!("checked {url}", code = code);
//! ```
//!
//! The text is one of `format!`: it takes variables in its braces, and values behind it for the braces that are empty. Behind those stand the
//! fields, as `name = value`, where the value has `Display`:
//!
//! ```no_run
//! use homeostat_sdk::info;
//!
//! let (ready, wanted, url) = (2, 3, "https://example.com");
//! info!("{} of {} are ready", ready, wanted);
//! info!("{ready:>3} of {} at {url}", wanted + 1, step = "scale up", code = 200);
//! ```
//!
//! `name = value` is always a field, and no named value of the text. At most 16 fields; the text is cut at 4096 bytes, names of fields at 128
//! and values at 1024.

use std::fmt;

use crate::bindings::imports::homeostat::reconciler::log as wit;

/// How much a line matters.
pub use crate::bindings::imports::homeostat::reconciler::log::Level;

/// Writes one line. The macros are the shorter way.
pub fn write(level: Level, message: &str, fields: &[(&str, &dyn fmt::Display)]) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    wit::write(level, message, &fields);
}

/// Takes a line apart: the text, then values for its braces, then fields; and hands it to `$write`.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    (@values $write:path, $level:ident, $message:literal, ($($value:expr),*) $(,)?) => {
        $crate::__log!(@write $write, $level, $message, ($($value),*))
    };
    (@values $write:path, $level:ident, $message:literal, ($($value:expr),*), $field:ident = $($rest:tt)+) => {
        $crate::__log!(@write $write, $level, $message, ($($value),*), $field = $($rest)+)
    };
    (@values $write:path, $level:ident, $message:literal, ($($value:expr),*), $next:expr $(, $($rest:tt)*)?) => {
        $crate::__log!(@values $write, $level, $message, ($($value,)* $next) $(, $($rest)*)?)
    };
    (@write $write:path, $level:ident, $message:literal, ($($value:expr),*) $(, $field:ident = $of:expr)* $(,)?) => {
        $write(
            $crate::log::Level::$level,
            &::std::format!($message, $($value),*),
            &[$((::core::stringify!($field), &$of as &dyn ::core::fmt::Display)),*],
        )
    };
    ($write:path, $level:ident; $message:literal $($rest:tt)*) => {
        $crate::__log!(@values $write, $level, $message, () $($rest)*)
    };
}

/// Logs what only helps while looking for one fault: `trace!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! trace {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Trace; $($line)+) };
}

/// Logs what helps to understand a decision: `debug!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Debug; $($line)+) };
}

/// Logs what a person who runs the controller wants to know: `info!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Info; $($line)+) };
}

/// Logs what may need attention: `warn!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Warn; $($line)+) };
}

/// Logs what needs attention: `error!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Error; $($line)+) };
}

#[cfg(test)]
mod tests;
