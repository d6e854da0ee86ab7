//! The figures of one run, and how a contender prints them. Every program in Rust that has contenders takes this file in.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};

/// What one run came to: a number under each of the names that the work has for them.
pub(crate) type Values = BTreeMap<String, f64>;

/// Returns the figures of a run that has them under these names.
pub(crate) fn named<const COUNT: usize>(values: [(&str, f64); COUNT]) -> Values {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Prints the figures as one line of JSON.
///
/// # Errors
/// One is no number, or nobody takes the line.
pub(crate) fn print(values: &Values) -> Result<()> {
    let line = serde_json::to_string(values).context("the figures are no JSON")?;
    writeln!(std::io::stdout(), "{line}").context("the figures cannot be printed")
}
