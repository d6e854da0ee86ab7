//! What commands print: data on stdout, talk on stderr.

use std::io::{self, Write};

use serde_json::Value;

pub(crate) mod age;
pub(crate) mod table;
pub(crate) mod units;
mod yaml;

/// Prints data, whole and at once. Whatever still is hidden in it is made visible; whose text the lines are is the caller's business:
/// what others say goes through [`plain`], a table, [`json`] or [`yaml()`].
///
/// # Errors
/// The system's, broken pipes included: see [`crate::exit::report`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(homeostat_text::lines(text).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Says something to the person. Where nobody can hear it, nothing is lost.
pub(crate) fn eprint(text: &str) {
    drop(writeln!(io::stderr(), "{}", homeostat_text::block(text)));
}

/// Returns a document as JSON for people and programs.
pub(crate) fn json(document: &Value) -> String {
    format!("{}\n", homeostat_text::json(&format!("{document:#}")))
}

/// Returns a document as JSON in one line.
pub(crate) fn json_line(document: &Value) -> String {
    format!("{}\n", homeostat_text::json(&document.to_string()))
}

/// Returns a document as YAML.
///
/// # Errors
/// Of the library; a JSON value has no reason for one.
pub(crate) fn yaml(document: &Value) -> anyhow::Result<String> {
    let mut text = yaml::write(document)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Returns `text` as one line for a person: names and messages come from others.
pub(crate) fn plain(text: &str) -> String {
    homeostat_text::line(text).into_owned()
}
