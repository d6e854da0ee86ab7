//! `homeostat rollout`: shows the revisions of a controller and the state of its rollout, and changes them.

use std::process::ExitCode;
use std::time::Duration;

use homeostat_api::age;
use homeostat_runtime::manifest::Span;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::control::path;
use super::resource_args;
use crate::client::{Client, with_query};
use crate::document::text;
use crate::exit;
use crate::global::{Format, Global};
use crate::output;
use crate::output::table::Table;

mod difference;
mod progress;
mod shadow;

use progress::Progress;

/// The field manager of `homeostat rollout`.
const MANAGER: &str = "homeostat-rollout";

/// The pause before a closed watch is reopened.
const PAUSE: Duration = Duration::from_millis(200);

/// Show and change which revision of a controller runs
///
/// Every definition of a controller that was installed is a revision: component, grants, limits and settings
/// together. The last ten are kept beside the running one; `spec.revisionHistoryLimit` changes that.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    History(HistoryArgs),
    Undo(UndoArgs),
    Status(StatusArgs),
    Diff(DiffArgs),
    /// Restart a controller with the same definition: run its start hook and requeue every key
    Restart(NameArgs),
    /// Stop applying changes to a controller; freeze a running canary at its current step
    Pause(NameArgs),
    /// Apply changes again; continue a canary
    Resume(NameArgs),
}

/// The controller argument.
#[derive(clap::Args, Clone, Debug)]
struct NameArgs {
    /// The controller: NAME or controller/NAME
    #[arg(value_parser = resource_args::controller)]
    controller: String,
}

/// List the revisions of a controller, or show one
///
/// The running revision is marked with `*`, a canary with `?`, and a revision that was rolled back
/// automatically with `-`.
#[derive(clap::Args, Clone, Debug)]
struct HistoryArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Show this revision in full
    #[arg(long, value_name = "NUMBER")]
    revision: Option<u64>,
}

/// Roll back to an older revision
///
/// The target becomes the newest revision. A running canary is stopped. A controller that is managed by a
/// folder follows its file again when the file changes.
#[derive(clap::Args, Clone, Debug)]
struct UndoArgs {
    #[command(flatten)]
    of: NameArgs,
    /// The target revision [default: the previous one; during a canary and after its rollback, the stable
    /// one]
    #[arg(long, value_name = "NUMBER")]
    to_revision: Option<u64>,
}

/// Wait until a rollout has finished
///
/// A canary has finished when it has all keys. The exit code is 0 when the desired revision runs, 3 when it
/// is refused or was rolled back, and 1 after the timeout.
#[derive(clap::Args, Clone, Debug)]
struct StatusArgs {
    #[command(flatten)]
    of: NameArgs,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: Span,
}

/// Show the differences between two revisions
///
/// Compares the definitions, and the components' descriptions, imports and exports. With --shadow, shows
/// where the results of a shadow differ from those of the stable version; after the shadow has ended, shows
/// those of the last one.
#[derive(clap::Args, Clone, Debug)]
struct DiffArgs {
    #[command(flatten)]
    of: NameArgs,
    /// The older revision [default: the one before the newer one]
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// The newer revision [default: the newest]
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    /// Show the differences of a shadow, resource by resource
    #[arg(long, conflicts_with_all = ["from", "to"])]
    shadow: bool,
}

/// Runs `homeostat rollout`.
///
/// # Errors
/// When the controller or the revision does not exist, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let client = Client::new(global)?;
    match args.command {
        Command::History(HistoryArgs { of, revision: None }) => history(&client, &of.controller, global).await,
        Command::History(HistoryArgs { of, revision: Some(number) }) => {
            let format = global.format(&[Format::Yaml, Format::Json])?;
            let revisions = Revisions::of(&client, &of.controller).await?;
            let document = revisions.by_number(number)?;
            output::print(&if format == Format::Json { output::json(document) } else { output::yaml(document)? })?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Undo(UndoArgs { of, to_revision }) => undo(&client, &of.controller, to_revision, global).await,
        Command::Status(StatusArgs { of, timeout }) => status(&client, &of.controller, timeout.0, global).await,
        Command::Diff(DiffArgs { of, shadow: true, .. }) => shadow_diff(&client, &of.controller, global).await,
        Command::Diff(DiffArgs { of, from, to, shadow: false }) => {
            diff(&client, &of.controller, from, to, global).await
        }
        Command::Restart(NameArgs { controller }) => {
            let now = Timestamp::now().to_string();
            let change = json!({ "metadata": { "annotations": { "homeostat.dev/restartedAt": now } } });
            patch(&client, &controller, &change, "restarted", global).await
        }
        Command::Pause(NameArgs { controller }) => {
            patch(&client, &controller, &json!({ "spec": { "paused": true } }), "paused", global).await
        }
        Command::Resume(NameArgs { controller }) => {
            patch(&client, &controller, &json!({ "spec": { "paused": null } }), "resumed", global).await
        }
    }
}

/// The revisions of one controller, in order.
struct Revisions {
    controller: String,
    items: Vec<Value>,
    /// The running revision.
    current: Option<u64>,
    /// The revision of the canary or shadow.
    tried: Option<u64>,
}

impl Revisions {
    /// Fetches the revisions from the host.
    async fn of(client: &Client, controller: &str) -> anyhow::Result<Self> {
        let document = client.get(&path(controller)).await?;
        let uid = text(&document, "/metadata/uid");
        let fields = format!("spec.controller={controller}");
        let all = "/apis/homeostat.dev/v1alpha1/controllerrevisions";
        let mut list = client.get(&with_query(all, &[("fieldSelector", Some(&fields))])).await?;
        let mut items: Vec<Value> = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        // Revisions of a deleted controller with the same name are about to be collected.
        items.retain(|item| text(item, "/metadata/ownerReferences/0/uid") == uid);
        items.sort_by_key(number);
        let status = &document["status"];
        let is_tried = matches!(status["rollout"]["phase"].as_str(), Some("listing" | "shadow" | "canary"));
        let tried = status["rollout"]["to"].as_u64().filter(|_| is_tried);
        Ok(Self { controller: controller.to_owned(), items, current: status["revision"].as_u64(), tried })
    }

    fn by_number(&self, wanted: u64) -> anyhow::Result<&Value> {
        let found = self.items.iter().find(|item| number(item) == wanted);
        found.ok_or_else(|| exit::failed(format!("controller `{}` has no revision {wanted}", self.controller)))
    }

    /// Returns the newest revision before `wanted`.
    fn before(&self, wanted: u64) -> anyhow::Result<&Value> {
        let found = self.items.iter().rev().find(|item| number(item) < wanted);
        found.ok_or_else(|| exit::failed(format!("controller `{}` has no revision before {wanted}", self.controller)))
    }
}

fn number(revision: &Value) -> u64 {
    revision["spec"]["number"].as_u64().unwrap_or_default()
}

async fn history(client: &Client, controller: &str, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let revisions = Revisions::of(client, controller).await?;
    let (mut table, now) = (Table::new(["REVISION", "DIGEST", "AGE", "CAUSE"]), Timestamp::now());
    for item in &revisions.items {
        let went_back = item["metadata"]["annotations"]["homeostat.dev/wentBack"].as_str();
        let mark = match Some(number(item)) {
            current if current == revisions.current => " *",
            tried if tried == revisions.tried => " ?",
            _ if went_back.is_some() => " -",
            _ => "",
        };
        let digest: String = text(item, "/spec/digest").chars().take("sha256:".len() + 12).collect();
        let cause = item["metadata"]["annotations"]["kubernetes.io/change-cause"].as_str().unwrap_or("-");
        let cause = went_back.map_or_else(|| cause.to_owned(), |why| format!("rolled back: {why}"));
        let age = age::since(text(item, "/metadata/creationTimestamp"), now);
        table.row(vec![format!("{}{mark}", number(item)), digest, age, cause]);
    }
    output::print(&table.take())?;
    Ok(ExitCode::SUCCESS)
}

async fn undo(client: &Client, controller: &str, to: Option<u64>, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let body = json!({ "revision": to }).to_string();
    let answer = client.send(Method::POST, &format!("{}/undo", path(controller)), "application/json", body).await?;
    let number = &answer.document["details"]["revision"];
    output::print(&format!("controller.homeostat.dev/{controller} rolled back to revision {number}\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn patch(
    client: &Client,
    controller: &str,
    change: &Value,
    done: &str,
    global: &Global,
) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let path = with_query(&path(controller), &[("fieldManager", Some(MANAGER))]);
    client.send(Method::PATCH, &path, "application/merge-patch+json", change.to_string()).await?;
    output::print(&format!("controller.homeostat.dev/{controller} {done}\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn status(client: &Client, controller: &str, timeout: Duration, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let mut last = String::new();
    let Ok(ended) = tokio::time::timeout(timeout, wait_until_done(client, controller, &mut last)).await else {
        return Err(exit::failed(format!("controller `{controller}` did not finish its rollout in time: {last}")));
    };
    match ended? {
        Progress::Refused(why) => Err(exit::refused(format!("controller `{controller}` is refused: {why}"))),
        Progress::WentBack(why) => Err(exit::refused(format!("controller `{controller}`: {why}"))),
        Progress::Done(text) | Progress::Waits(text) => {
            output::print(&format!("controller \"{controller}\" {text}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Watches a controller until its rollout has finished, failed, or been rolled back. `last` is the last
/// progress message.
async fn wait_until_done(client: &Client, controller: &str, last: &mut String) -> anyhow::Result<Progress> {
    let fields = format!("metadata.name={controller}");
    loop {
        let mut document = client.get(&path(controller)).await?;
        let revision = text(&document, "/metadata/resourceVersion").to_owned();
        let pairs =
            [("watch", Some("1")), ("fieldSelector", Some(fields.as_str())), ("resourceVersion", Some(&*revision))];
        let mut lines = client.lines(&with_query("/apis/homeostat.dev/v1alpha1/controllers", &pairs)).await?;
        loop {
            match progress::of(&document) {
                Progress::Waits(text) => {
                    if text != *last {
                        output::eprint(&format!("Waiting: {text}"));
                        *last = text;
                    }
                }
                ended => return Ok(ended),
            }
            match lines.next().await? {
                Some(event) if event["type"] == "DELETED" => {
                    return Err(exit::failed(format!("controller `{controller}` was deleted")));
                }
                Some(event) if event["type"] != "ERROR" => document = event["object"].clone(),
                _ => break,
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Prints the differences of a shadow.
async fn shadow_diff(client: &Client, controller: &str, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Yaml, Format::Json])?;
    let document = client.get(&format!("{}/shadow", path(controller))).await?;
    let report = &document["report"];
    output::print(&match format {
        Format::Json => output::json(report),
        Format::Yaml => output::yaml(report)?,
        _ => shadow::lines(report).iter().map(|line| format!("{}\n", output::plain(line))).collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn diff(
    client: &Client,
    controller: &str,
    from: Option<u64>,
    to: Option<u64>,
    global: &Global,
) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let revisions = Revisions::of(client, controller).await?;
    let to = match (to, revisions.items.last()) {
        (Some(wanted), _) => revisions.by_number(wanted)?,
        (None, Some(newest)) => newest,
        (None, None) => return Err(exit::failed(format!("controller `{controller}` has no revisions"))),
    };
    let from = from.map_or_else(|| revisions.before(number(to)), |wanted| revisions.by_number(wanted))?;
    let mut lines = difference::lines("", &from["spec"]["spec"], &to["spec"]["spec"]);
    // Revisions that older hosts wrote lack this field.
    if let (Some(before), Some(after)) = (from["spec"].get("component"), to["spec"].get("component")) {
        lines.extend(difference::lines("code", before, after));
    }
    let head = format!("--- revision {}\n+++ revision {}\n", number(from), number(to));
    let lines: String = lines.iter().map(|line| format!("{}\n", output::plain(line))).collect();
    output::print(&format!("{head}{lines}"))?;
    Ok(ExitCode::SUCCESS)
}
