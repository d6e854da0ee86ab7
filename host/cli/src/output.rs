//! What commands print: data on stdout, talk on stderr.

use std::io::{self, Write};

use serde_json::Value;

pub(crate) mod age;
pub(crate) mod columns;
pub(crate) mod table;
pub(crate) mod units;

/// Prints data, whole and at once.
///
/// # Errors
/// The system's, broken pipes included: see [`crate::exit::report`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Says something to the person. Where nobody can hear it, nothing is lost.
pub(crate) fn talk(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// Returns a document as JSON for people and programs.
pub(crate) fn json(document: &Value) -> String {
    format!("{document:#}\n")
}

/// Returns a document as YAML.
///
/// # Errors
/// Of the library; a JSON value has no reason for one.
pub(crate) fn yaml(document: &Value) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(document)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Returns `text` without what would move a terminal's cursor or colour it: names and messages come from others.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
