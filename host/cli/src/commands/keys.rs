//! `homeostat enqueue`, `retry` and `queue cancel|postpone|expedite`: change the queue entry of one key.

use std::process::ExitCode;

use homeostat_api::age;
use homeostat_runtime::manifest::Span;
use reqwest::Method;
use serde_json::{Value, json};

use super::{control, queue, resource_args};
use crate::client::{ApiResource, Client, Kinds};
use crate::document;
use crate::exit;
use crate::global::{Format, Global};
use crate::output;

/// The output formats of these commands.
const FORMATS: [Format; 4] = [Format::Table, Format::Json, Format::Yaml, Format::Name];

/// Run a waiting or parked key now
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    queued: QueuedKey,
}

/// Put a key on a queue, as a change of its resource would
///
/// The key goes to every controller that manages the kind, and merges with an entry that is already queued.
/// If a delay holds that entry back, `homeostat queue expedite` runs it now.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct EnqueueArgs {
    /// The key: KIND NAME or KIND/NAME
    #[arg(required = true, value_name = "KEY")]
    key: Vec<String>,
    /// Only for this controller
    #[arg(long, value_name = "NAME", value_parser = resource_args::controller)]
    controller: Option<String>,
    /// Delay until the key is due: 250ms, 5s, 10m, 1h [default: due now]
    #[arg(long, value_name = "DURATION")]
    after: Option<Span>,
    /// The priority band
    #[arg(long, value_enum, default_value_t)]
    priority: Priority,
    /// The delay is a minimum: no event makes the key due earlier
    #[arg(long, requires = "after")]
    hold: bool,
}

/// The subcommands of `homeostat queue`, each for one key.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum KeyCommand {
    /// Remove a key from the queue and forget its failures; for a running key, remove its next run
    Cancel(QueuedKey),
    /// Move a key's due time, earlier or later; for a running key, move its next run
    Postpone {
        #[command(flatten)]
        queued: QueuedKey,
        /// Delay from now until the key is due: 250ms, 5s, 10m, 1h
        #[arg(long, value_name = "DURATION")]
        after: Span,
    },
    /// Make a key ready ahead of all others, whatever its delay
    Expedite(QueuedKey),
}

/// A key in the queue of a controller.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct QueuedKey {
    /// The controller: NAME or controller/NAME
    #[arg(value_parser = resource_args::controller)]
    controller: String,
    /// The key: KIND NAME or KIND/NAME
    #[arg(required = true, value_name = "KEY")]
    key: Vec<String>,
}

/// The bands of a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
enum Priority {
    /// After everything else
    Lowest,
    /// The band of initial lists and resyncs
    Low,
    /// The band of changes
    #[default]
    Normal,
    /// Before changes
    High,
    /// Before everything else
    Highest,
}

/// Runs a key now.
///
/// # Errors
/// When the controller or the key does not exist.
pub(crate) async fn retry(RetryArgs { queued }: RetryArgs, global: &Global) -> anyhow::Result<ExitCode> {
    move_queued(&queued, "retry", "retried", json!({}), global).await
}

/// Changes the queue entry of a key.
///
/// # Errors
/// When the controller or the key does not exist, or the entry cannot be changed this way.
pub(crate) async fn run(verb: KeyCommand, global: &Global) -> anyhow::Result<ExitCode> {
    match verb {
        KeyCommand::Cancel(queued) => move_queued(&queued, "cancel", "cancelled", json!({}), global).await,
        KeyCommand::Expedite(queued) => move_queued(&queued, "expedite", "expedited", json!({}), global).await,
        KeyCommand::Postpone { queued, after } => {
            let more = json!({ "afterMs": millis(after) });
            move_queued(&queued, "postpone", "postponed", more, global).await
        }
    }
}

/// Adds a key to the queues of the controllers that manage its kind.
///
/// # Errors
/// When no running controller manages the kind, and errors of the host.
pub(crate) async fn enqueue(args: EnqueueArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let EnqueueArgs { key, controller, after, priority, hold } = args;
    let (client, format) = (Client::new(global)?, global.format(&FORMATS)?);
    let (known, name) = resolve(&client, &key).await?;
    let names = match controller {
        Some(name) => vec![name],
        None => queue::controllers(&client, Some(&manages(&known))).await?,
    };
    if names.is_empty() {
        return Err(exit::failed(format!("no running controller manages {}", known.qualified_kind())));
    }
    let mut more = json!({ "priority": word(priority) });
    if let Some(after) = after {
        more["afterMs"] = millis(after);
    }
    if hold {
        more["hold"] = true.into();
    }
    let key = TargetKey { known: &known, name: &name, namespace: global.namespace() };
    let mut queues = Vec::new();
    for controller in &names {
        queues.push(key.post(&client, controller, "enqueue", more.clone()).await?);
    }
    key.print(&queues, "enqueued", format)
}

async fn move_queued(
    QueuedKey { controller, key }: &QueuedKey,
    verb: &str,
    done: &str,
    more: Value,
    global: &Global,
) -> anyhow::Result<ExitCode> {
    let (client, format) = (Client::new(global)?, global.format(&FORMATS)?);
    let (known, name) = resolve(&client, key).await?;
    let key = TargetKey { known: &known, name: &name, namespace: global.namespace() };
    let queue = key.post(&client, controller, verb, more).await?;
    key.print(&[queue], done, format)
}

/// Returns the kind and the name in the arguments.
async fn resolve(client: &Client, words: &[String]) -> anyhow::Result<(ApiResource, String)> {
    let (kind, name) = resource_args::parse_one(words)?;
    Ok((Kinds::fetch(client).await?.find(&kind)?.clone(), name))
}

/// Returns a kind in the format of a controller's `status.manages` column.
fn manages(known: &ApiResource) -> String {
    let kind = json!({ "name": known.name(), "group": known.group() });
    document::kind(Some(&kind))
}

fn millis(span: Span) -> Value {
    u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX).into()
}

fn word(priority: Priority) -> String {
    clap::ValueEnum::to_possible_value(&priority).map(|word| word.get_name().to_owned()).unwrap_or_default()
}

/// The key in the arguments.
struct TargetKey<'a> {
    known: &'a ApiResource,
    name: &'a str,
    namespace: &'a str,
}

impl TargetKey<'_> {
    /// Posts a verb. Returns the controller's queue, reduced to this key.
    async fn post(&self, client: &Client, controller: &str, verb: &str, more: Value) -> anyhow::Result<Value> {
        let namespace = if self.known.namespaced { self.namespace } else { "" };
        let mut body = more;
        body["apiVersion"] = self.known.api_version().into();
        body["kind"] = self.known.name().into();
        body["namespace"] = namespace.into();
        body["name"] = self.name.into();
        let path = format!("{}/queue/{verb}", control::path(controller));
        Ok(client.send(Method::POST, &path, "application/json", body.to_string()).await?.document)
    }

    fn print(&self, queues: &[Value], done: &str, format: Format) -> anyhow::Result<ExitCode> {
        let word = self.known.qualified_name(self.name);
        let text = match (format, queues) {
            (Format::Json, [queue]) => output::json(queue),
            (Format::Yaml, [queue]) => output::yaml(queue)?,
            (Format::Json, queues) => output::json(&queue::list(queues)),
            (Format::Yaml, queues) => output::yaml(&queue::list(queues))?,
            (Format::Name, _) => format!("{word}\n"),
            (Format::Table | Format::Wide, queues) => {
                queues.iter().map(|queue| result_line(&word, done, queue)).collect()
            }
        };
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Describes the result for a key, with the due time if it is later.
fn result_line(word: &str, done: &str, queue: &Value) -> String {
    let controller = document::text(queue, "/metadata/name");
    let due = queue::entries(queue).next().and_then(|entry| entry["dueInMs"].as_u64());
    let due = due.map(|due| format!(", due in {}", age::short_ms(due))).unwrap_or_default();
    let held = queue::entries(queue).next().is_some_and(|entry| entry["held"] == true);
    let held = if held { ", no event makes it earlier" } else { "" };
    format!("{word} {done} by {controller}{due}{held}\n")
}

#[cfg(test)]
mod tests;
