//! The controller's log. The host adds the controller and the key to each line. `homeostat logs` shows them.
//!
//! ```no_run
//! use homeostat_sdk::info;
//!
//! let (url, code) = ("https://example.com", 200);
//! info!("checked {url}", code = code);
//! ```
//!
//! The text is a `format!` string: braces take variables, or values that follow the text. After the values
//! come the fields, as `name = value`, where the value implements `Display`:
//!
//! ```no_run
//! use homeostat_sdk::info;
//!
//! let (ready, wanted, url) = (2, 3, "https://example.com");
//! info!("{} of {} are ready", ready, wanted);
//! info!("{ready:>3} of {} at {url}", wanted + 1, step = "scale up", code = 200);
//! ```
//!
//! Fields may also stand before the text, as in `tracing`: `info!(code = 200, "checked {url}")`. `name = value` is
//! always a field, never a named argument of the text. At most 16 fields. The text is cut
//! at 4096 bytes, field names at 128 and field values at 1024.

use std::fmt;

use crate::host::log as wit;

/// The importance of a line.
pub use crate::bindings::imports::homeostat::reconciler::log::Level;

/// Writes one line. The macros are shorter.
pub fn write(level: Level, message: &str, fields: &[(&str, &dyn fmt::Display)]) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    wit::write(level, message, &fields);
}

/// Splits a line into the text, values for its braces, and fields, and passes them to `$write`.
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
    (@first $write:path, $level:ident, ($($before:tt)*) $field:ident = $of:expr, $($rest:tt)+) => {
        $crate::__log!(@first $write, $level, ($($before)*, $field = $of) $($rest)+)
    };
    (@first $write:path, $level:ident, ($(, $field:ident = $of:expr)*) $message:literal $(, $value:expr)* $(,)?) => {
        $crate::__log!(@write $write, $level, $message, ($($value),*) $(, $field = $of)*)
    };
    ($write:path, $level:ident; $message:literal $($rest:tt)*) => {
        $crate::__log!(@values $write, $level, $message, () $($rest)*)
    };
    ($write:path, $level:ident; $($fields_first:tt)+) => {
        $crate::__log!(@first $write, $level, () $($fields_first)+)
    };
}

/// Logs a detail for tracing one fault: `trace!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! trace {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Trace; $($line)+) };
}

/// Logs a detail that explains a decision: `debug!("text {}", value, field = value)`. See
/// [`log`](crate::log).
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Debug; $($line)+) };
}

/// Logs information for operators: `info!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Info; $($line)+) };
}

/// Logs a problem that may need attention: `warn!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Warn; $($line)+) };
}

/// Logs a problem that needs attention: `error!("text {}", value, field = value)`. See [`log`](crate::log).
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::__log!($crate::log::write, Error; $($line)+) };
}

#[cfg(test)]
mod tests;
