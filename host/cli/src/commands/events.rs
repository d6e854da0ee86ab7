//! `homeostat events`: shows events, oldest first.

use std::process::ExitCode;

use homeostat_api::age;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource_args;
use super::unanswered::UnansweredHosts;
use crate::client::{Client, Kinds, with_query};
use crate::document::{capitalised, text};
use crate::global::{Format, Global};
use crate::output::{self, table::Table};

/// Show events
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Only events about this resource: KIND/NAME
    #[arg(long = "for", value_name = "RESOURCE")]
    about: Option<String>,
    /// Only events of this controller
    #[arg(long, value_name = "NAME", value_parser = resource_args::controller)]
    controller: Option<String>,
    /// Keep running and show new events
    #[arg(short = 'w', long)]
    watch: bool,
}

/// Runs `homeostat events`.
///
/// # Errors
/// When the kind of `--for` is unknown, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Wide, Format::Json, Format::Yaml])?;
    let Args { about, controller, watch } = args;
    let client = Client::new(global)?;
    let key = match about {
        None => None,
        Some(word) => {
            let (kind, name) = resource_args::parse_one(&[word])?;
            let kinds = Kinds::fetch(&client).await?;
            Some(kinds.find(&kind)?.key(global.namespace(), &name))
        }
    };
    let pairs = [("key", key.as_deref()), ("controller", controller.as_deref()), ("follow", watch.then_some("1"))];
    let mut lines = client.lines(&with_query("/homeostat/v1/events", &pairs)).await?;
    // An event without a resource belongs to every namespace.
    let is_meant = |event: &Value| match (global.namespace.as_deref(), event.pointer("/key/namespace")) {
        (Some(wanted), Some(found)) => found == wanted,
        _ => true,
    };
    let (mut table, mut found) = (table(), Vec::new());
    let mut unanswered = UnansweredHosts::default();
    while let Some(event) = lines.next().await? {
        if unanswered.note(&event) || !is_meant(&event) {
            continue;
        }
        match format {
            Format::Table | Format::Wide => table.row(row(&event, Timestamp::now())),
            _ if watch => output::print(&document(&event, format)?)?,
            _ => found.push(event),
        }
        if watch {
            output::print(&table.take())?;
        }
    }
    match format {
        Format::Json | Format::Yaml if watch => {}
        Format::Json | Format::Yaml => {
            output::print(&document(&json!({ "kind": "EventList", "items": found }), format)?)?
        }
        _ if table.is_empty() => {
            if !watch {
                output::eprint("No events found.");
            }
        }
        _ => output::print(&table.take())?,
    }
    Ok(unanswered.exit_code())
}

fn document(event: &Value, format: Format) -> anyhow::Result<String> {
    if format == Format::Yaml { Ok(format!("---\n{}", output::yaml(event)?)) } else { Ok(output::json(event)) }
}

/// Returns a table for events.
pub(super) fn table() -> Table {
    Table::new(["LAST SEEN", "COUNT", "TYPE", "REASON", "OBJECT", "CONTROLLER", "FROM", "MESSAGE"])
}

/// Returns the cells of one event.
pub(super) fn row(event: &Value, now: Timestamp) -> Vec<String> {
    vec![
        age::since(text(event, "/lastSeen"), now),
        event["count"].to_string(),
        capitalised(text(event, "/severity")),
        text(event, "/reason").to_owned(),
        object(event),
        text(event, "/controller").to_owned(),
        text(event, "/source").to_owned(),
        text(event, "/message").to_owned(),
    ]
}

/// Returns the subject of an event, for example `deployment/web`. Without a resource it is the controller.
fn object(event: &Value) -> String {
    if event["key"].is_null() {
        return format!("controller/{}", text(event, "/controller"));
    }
    format!("{}/{}", text(event, "/key/kind/name").to_lowercase(), text(event, "/key/name"))
}

#[cfg(test)]
mod tests;
