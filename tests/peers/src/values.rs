//! The figures of one run, and their output format. Every Rust program with contenders includes this file.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};

/// The figures of one run, by the names that the work defines.
pub(crate) type Values = BTreeMap<String, f64>;

/// Returns figures with these names.
pub(crate) fn named<const COUNT: usize>(values: [(&str, f64); COUNT]) -> Values {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Prints the figures as one line of JSON.
///
/// # Errors
/// A figure is not a finite number, or standard output is closed.
pub(crate) fn print(values: &Values) -> Result<()> {
    let line = serde_json::to_string(values).context("the figures cannot be written as JSON")?;
    writeln!(std::io::stdout(), "{line}").context("the figures cannot be printed")
}
