//! The output of commands: data on stdout, messages on stderr.

use std::io::{self, Write};

use serde_json::Value;

pub(crate) mod table;
pub(crate) mod units;
mod yaml;

/// Prints data in one write. Remaining control characters are escaped. The caller is responsible for line
/// breaks: text from other sources goes through [`plain`], a table, [`json`] or [`yaml()`].
///
/// # Errors
/// Errors of the system, broken pipes included: see [`crate::exit::report`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(homeostat_text::lines(text).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a message for people. Errors of stderr are ignored.
pub(crate) fn eprint(text: &str) {
    drop(writeln!(io::stderr(), "{}", homeostat_text::block(text)));
}

/// Formats a document as indented JSON.
pub(crate) fn json(document: &Value) -> String {
    format!("{}\n", homeostat_text::json(&format!("{document:#}")))
}

/// Formats a document as JSON on one line.
pub(crate) fn json_line(document: &Value) -> String {
    format!("{}\n", homeostat_text::json(&document.to_string()))
}

/// Formats a document as YAML.
///
/// # Errors
/// Errors of the library; a JSON value causes none.
pub(crate) fn yaml(document: &Value) -> anyhow::Result<String> {
    let mut text = yaml::write(document)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Returns `text` as one line without control characters, for names and messages from other sources.
pub(crate) fn plain(text: &str) -> String {
    homeostat_text::line(text).into_owned()
}
