//! `homeostat logs`: shows the log that a controller's guest wrote.

use std::process::ExitCode;

use serde_json::Value;

use super::unanswered::UnansweredHosts;
use super::{control, resource_args};
use crate::client::{Client, Kinds, with_query};
use crate::document::text;
use crate::exit;
use crate::global::{Format, Global};
use crate::output::{self, plain};

/// Show the log of a controller
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The controller: NAME or controller/NAME
    #[arg(value_parser = resource_args::controller)]
    controller: String,
    /// Keep running and show new lines
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only lines about this key: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Number of lines from the end [default: 1000]
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
}

/// Runs `homeostat logs`.
///
/// # Errors
/// When the controller does not exist, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let Args { controller, follow, key, tail } = args;
    let client = Client::new(global)?;
    // This also checks that the controller exists: its log may be empty.
    let document = client.get(&control::path(&controller)).await?;
    let key = match key {
        None => None,
        Some(key) => Some(full_key(&client, &document, &key, global).await?),
    };
    let tail = tail.map(|tail| tail.to_string());
    let pairs = [
        ("controller", Some(controller.as_str())),
        ("key", key.as_deref()),
        ("lines", tail.as_deref()),
        ("follow", follow.then_some("1")),
    ];
    let mut lines = client.lines(&with_query("/homeostat/v1/logs", &pairs)).await?;
    let mut unanswered = UnansweredHosts::default();
    while let Some(line) = lines.next().await? {
        if unanswered.note(&line) {
            continue;
        }
        output::print(&if format == Format::Json { output::json_line(&line) } else { readable(&line) })?;
    }
    Ok(unanswered.exit_code())
}

/// Returns a key of the kind that a controller manages.
async fn full_key(client: &Client, controller: &Value, key: &str, global: &Global) -> anyhow::Result<String> {
    let kinds = Kinds::fetch(client).await?;
    let manages = |part| text(controller, part).to_owned();
    let (group, name) = (manages("/status/manages/group"), manages("/status/manages/name"));
    let word = if group.is_empty() { name } else { format!("{name}.{group}") };
    let known = kinds.find(&word)?;
    match key.split('/').collect::<Vec<_>>()[..] {
        [name] => Ok(known.key(global.namespace(), name)),
        [namespace, name] => Ok(known.key(namespace, name)),
        _ => Err(exit::usage(format!("`{key}` is not a key: write NAME or NAMESPACE/NAME"))),
    }
}

/// Formats one line of a log for people: time, level, key, message, fields.
fn readable(line: &Value) -> String {
    let mut readable = format!("{} {:<5}", text(line, "/time"), text(line, "/level").to_uppercase());
    let (namespace, name) = (text(line, "/key/namespace"), text(line, "/key/name"));
    if !name.is_empty() {
        readable.push(' ');
        if !namespace.is_empty() {
            readable.push_str(&format!("{namespace}/"));
        }
        readable.push_str(name);
    }
    readable.push_str(&format!(" {}", text(line, "/message")));
    for field in line["fields"].as_array().into_iter().flatten() {
        readable.push_str(&format!(" {}={}", text(field, "/0"), text(field, "/1")));
    }
    format!("{}\n", plain(&readable))
}

#[cfg(test)]
mod tests;
