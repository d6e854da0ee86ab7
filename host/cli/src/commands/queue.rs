//! `homeostat queue`: shows the keys of controllers and their states. Changes of one key are in
//! [`super::keys`].

use std::process::ExitCode;

use homeostat_api::age;
use serde_json::{Value, json};

use super::unanswered::UnansweredHosts;
use super::{control, keys, resource_args};
use crate::client::{Client, with_query};
use crate::document::{kind, text};
use crate::exit;
use crate::global::{Format, Global};
use crate::output::{self, table::Table};

/// Show the keys in the queues of controllers, or change the entry of one key
#[derive(clap::Args, Clone, Debug)]
#[command(subcommand_precedence_over_arg = true)]
#[command(override_usage = "homeostat queue [OPTIONS] [CONTROLLER]\n       homeostat queue [OPTIONS] <COMMAND>")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<keys::KeyCommand>,
    /// Only this controller; write `controller/NAME` if its name is also a subcommand
    #[arg(value_parser = resource_args::controller)]
    controller: Option<String>,
    /// Only keys in these states
    #[arg(long, value_name = "STATE", value_enum, value_delimiter = ',')]
    state: Vec<State>,
    /// Keys to show for each controller
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

/// The states of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum State {
    /// Due later
    Waiting,
    /// Due now
    Ready,
    /// With a worker, dirty or not
    Running,
    /// With a worker, and will run again
    Dirty,
    /// Out of retries, until its resource changes
    Parked,
}

/// Runs `homeostat queue`.
///
/// # Errors
/// When the controller does not exist, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    check(&args)?;
    let Args { verb, controller, state, limit } = args;
    if let Some(verb) = verb {
        return keys::run(verb, global).await;
    }
    let format = global.format(&[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name])?;
    let (states, limit) = (words(&state), limit.to_string());
    let client = Client::new(global)?;
    let names = match controller {
        Some(name) => vec![name],
        None => controllers(&client, None).await?,
    };
    let (mut queues, mut unanswered) = (Vec::new(), UnansweredHosts::default());
    for name in names {
        let queue = queue(&client, &name, &[("limit", Some(&limit)), ("state", states.as_deref())]).await?;
        unanswered.note(&queue);
        queues.push(queue);
    }
    queues.iter().filter_map(truncation_note).for_each(|cut| output::eprint(&cut));
    match format {
        Format::Table | Format::Wide => print_table(&queues, format == Format::Wide, states.is_some())?,
        Format::Json => output::print(&output::json(&list(&queues)))?,
        Format::Yaml => output::print(&output::yaml(&list(&queues))?)?,
        Format::Name => {
            let entries = queues.iter().flat_map(entries);
            output::print(&entries.map(|entry| format!("{}\n", key(entry))).collect::<String>())?;
        }
    }
    Ok(unanswered.exit_code())
}

/// Rejects display options together with a subcommand. Clap accepts them, because global options may stand
/// before it.
fn check(Args { verb, controller, state, limit: _ }: &Args) -> anyhow::Result<()> {
    if verb.is_some() && (controller.is_some() || !state.is_empty()) {
        return Err(exit::usage("the controller goes after the subcommand: homeostat queue COMMAND CONTROLLER KEY"));
    }
    Ok(())
}

/// Returns queues as one document.
pub(super) fn list(queues: &[Value]) -> Value {
    json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "QueueList", "items": queues })
}

/// Returns states in the format of a request; `None` for all.
fn words(states: &[State]) -> Option<String> {
    let words = states.iter().filter_map(clap::ValueEnum::to_possible_value).map(|word| word.get_name().to_owned());
    (!states.is_empty()).then(|| words.collect::<Vec<String>>().join(","))
}

/// Describes what the response omits; `None` if it is complete.
fn truncation_note(queue: &Value) -> Option<String> {
    let count = |name: &str| queue["cut"][name].as_u64().unwrap_or(0);
    let (name, shown) = (text(queue, "/metadata/name"), entries(queue).count() as u64);
    let (wanted, unseen) = (count("wanted"), count("notLookedAt"));
    let more = format!("{shown} of {} keys are shown; --limit shows more", shown + wanted);
    let rest = format!("{unseen} keys were not examined: the queue is too large");
    match (wanted, unseen) {
        (0, 0) => None,
        (_, 0) => Some(format!("{name}: {more}")),
        (0, _) => Some(format!("{name}: {rest}")),
        (_, _) => Some(format!("{name}: {more}; {rest}")),
    }
}

fn print_table(queues: &[Value], is_wide: bool, is_part: bool) -> anyhow::Result<()> {
    let mut table = table(is_wide);
    for queue in queues {
        let name = text(queue, "/metadata/name");
        entries(queue).for_each(|entry| table.row(row(name, entry, is_wide)));
    }
    if table.is_empty() {
        output::eprint(if is_part { "No keys are in these states." } else { "No keys are queued." });
        return Ok(());
    }
    output::print(&table.take())
}

/// Returns the names of running controllers: all, or those that manage a kind (`deployment.apps`).
pub(super) async fn controllers(client: &Client, manages: Option<&str>) -> anyhow::Result<Vec<String>> {
    let list = client.get("/apis/homeostat.dev/v1alpha1/controllers").await?;
    let items = list["items"].as_array().into_iter().flatten();
    // A controller whose first component is being compiled has a state, but no queue.
    let items = items.filter(|item| item.pointer("/status/counts").is_some());
    let items = items.filter(|item| manages.is_none_or(|wanted| kind(item.pointer("/status/manages")) == wanted));
    Ok(items.map(|item| text(item, "/metadata/name").to_owned()).collect())
}

/// Returns the queue of a controller.
pub(super) async fn queue(client: &Client, name: &str, pairs: &[(&str, Option<&str>)]) -> anyhow::Result<Value> {
    client.get(&with_query(&format!("{}/queue", control::path(name)), pairs)).await
}

/// Returns the keys of a queue.
pub(super) fn entries(queue: &Value) -> impl Iterator<Item = &Value> {
    queue["items"].as_array().into_iter().flatten()
}

/// Returns an empty table for keys.
pub(super) fn table(is_wide: bool) -> Table {
    let header = ["CONTROLLER", "KEY", "STATE", "FAILURES", "DUE", "LAST ERROR"];
    let more = if is_wide { &["PRIORITY", "SINCE"][..] } else { &[] };
    Table::new([&header[..5], more, &header[5..]].concat())
}

/// Returns the cells of one key. `SINCE` is how long the key has been ready or running.
pub(super) fn row(controller: &str, entry: &Value, is_wide: bool) -> Vec<String> {
    let span = |name: &str| entry[name].as_u64().map_or_else(|| "-".to_owned(), age::short_ms);
    let mut cells = vec![
        controller.to_owned(),
        key(entry),
        text(entry, "/state").to_owned(),
        entry["failures"].as_u64().unwrap_or(0).to_string(),
        span("dueInMs"),
    ];
    if is_wide {
        let since = if entry["runningForMs"].is_u64() { "runningForMs" } else { "readyForMs" };
        cells.extend([text(entry, "/priority").to_owned(), span(since)]);
    }
    cells.push(text(entry, "/lastError").to_owned());
    cells
}

/// Returns a key in the format of the command line.
pub(super) fn key(entry: &Value) -> String {
    let (namespace, name) = (text(entry, "/key/namespace"), text(entry, "/key/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests;
