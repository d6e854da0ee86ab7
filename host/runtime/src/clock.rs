//! The wall clock.

/// Returns the current time as RFC 3339 in UTC, to the millisecond.
pub(crate) fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
