//! `homeostat describe`: shows one resource in detail.

use std::process::ExitCode;

use homeostat_api::age;
use homeostat_runtime::manifest;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::unanswered::UnansweredHosts;
use super::{events, hosts, queue, resource_args};
use crate::client::{ApiResource, Client, Kinds, with_query};
use crate::document::{capitalised, condition, text};
use crate::failure::ApiError;
use crate::global::{Format, Global};
use crate::output;
use crate::output::table::Table;

/// Show one resource in detail, with its dependents, queue entries and events
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// KIND NAME or KIND/NAME
    #[arg(required = true, value_name = "RESOURCE")]
    resource: Vec<String>,
}

/// Runs `homeostat describe`.
///
/// # Errors
/// When the resource does not exist, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let (kind, name) = resource_args::parse_one(&args.resource)?;
    let client = Client::new(global)?;
    let kinds = Kinds::fetch(&client).await?;
    let known = kinds.find(&kind)?;
    let now = Timestamp::now();
    let mut document = client.get(&known.path_of(global.namespace(), &name)).await?;
    add_held_leases(&client, &mut document).await;
    let mut page = page(&document, now)?;
    match dependents(&client, &document, now).await {
        Ok(table) => section(&mut page, "Dependents", &table),
        Err(error) => page.push_str(&unknown_dependents(error)?),
    }
    section(&mut page, "Queue", &queue_table(&client, known, global.namespace(), &name).await?);
    section(&mut page, "Events", &events_table(&client, known, global.namespace(), &name, now).await?);
    output::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the part of the page that comes from the document itself.
fn page(document: &Value, now: Timestamp) -> anyhow::Result<String> {
    let mut page = head(document, now);
    for (name, value) in document.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            block(&mut page, name, value)?;
        }
    }
    let status: Map<String, Value> = document["status"].as_object().cloned().unwrap_or_default();
    block(&mut page, "status", &status.into_iter().filter(|(name, _)| !has_table(document, name)).collect())?;
    section(&mut page, "Leases", &leases(document, now));
    section(&mut page, "Feeders", &feeders(document, now));
    section(&mut page, "Conditions", &conditions(document, now));
    Ok(page)
}

/// Returns the lines about a resource's metadata. Empty fields have no line.
fn head(document: &Value, now: Timestamp) -> String {
    let at = |pointer| output::plain(text(document, pointer));
    let created = at("/metadata/creationTimestamp");
    let age = if created.is_empty() { String::new() } else { format!("{created} ({} ago)", age::since(&created, now)) };
    let deleting = at("/metadata/deletionTimestamp");
    let finalizers = document.pointer("/metadata/finalizers").and_then(Value::as_array);
    let finalizers: Vec<&str> = finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
    let has_time = document.pointer("/metadata/deletionGracePeriodSeconds").is_some_and(|seconds| *seconds != 0);
    let waits = match deleting.as_str() {
        "" => String::new(),
        due if has_time => format!("ends at {due}, by its node"),
        since => format!("since {since}, waits for its finalizers"),
    };
    let generation = document.pointer("/metadata/generation").map(Value::to_string).unwrap_or_default();
    let lines = [
        ("Name", at("/metadata/name")),
        ("Namespace", at("/metadata/namespace")),
        ("Kind", format!("{} ({})", at("/kind"), at("/apiVersion"))),
        ("Labels", listed(document.pointer("/metadata/labels"))),
        ("Annotations", listed(document.pointer("/metadata/annotations"))),
        ("Created", age),
        ("Deleting", waits),
        ("UID", at("/metadata/uid")),
        ("Generation", generation),
        ("Revision", at("/metadata/resourceVersion")),
        ("Owners", owners(document)),
        ("Finalizers", finalizers.join("\n")),
    ];
    let line = |(name, value): &(&str, String)| {
        let rest = value.replace('\n', &format!("\n{:14}", ""));
        format!("{:<14}{rest}\n", format!("{name}:"))
    };
    lines.iter().filter(|(_, value)| !value.is_empty()).map(line).collect()
}

/// Returns the entries of a map as `name=value`, one line each.
fn listed(map: Option<&Value>) -> String {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let line =
        |(name, value): (&String, &Value)| output::plain(&format!("{name}={}", value.as_str().unwrap_or_default()));
    entries.map(line).collect::<Vec<_>>().join("\n")
}

fn owners(document: &Value) -> String {
    let owners = document.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let owner = |owner: &Value| {
        let controls = if owner["controller"] == true { " (controls it)" } else { "" };
        output::plain(&format!("{}/{}{controls}", text(owner, "/kind").to_lowercase(), text(owner, "/name")))
    };
    owners.map(owner).collect::<Vec<_>>().join("\n")
}

/// Appends a field of the document as YAML, unless it is empty.
fn block(page: &mut String, name: &str, value: &Value) -> anyhow::Result<()> {
    let is_empty =
        value.is_null() || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if !is_empty {
        let yaml = output::yaml(value)?;
        let lines: String = yaml.lines().map(|line| format!("  {}\n", output::plain(line))).collect();
        page.push_str(&format!("{}:\n{lines}", capitalised(name)));
    }
    Ok(())
}

/// Appends a table, unless it is empty.
fn section(page: &mut String, title: &str, table: &Table) {
    if !table.is_empty() {
        let lines: String = table.to_string().lines().map(|line| format!("  {line}\n")).collect();
        page.push_str(&format!("{title}:\n{lines}"));
    }
}

fn conditions(document: &Value, now: Timestamp) -> Table {
    let mut table = Table::new(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in document.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten() {
        let cell = |pointer| text(condition, pointer).to_owned();
        let since = cell("/lastTransitionTime");
        let since = if since.is_empty() { "-".to_owned() } else { age::since(&since, now) };
        table.row(vec![cell("/type"), cell("/status"), cell("/reason"), since, cell("/message")]);
    }
    table
}

/// Returns whether a field of the status has a table of its own.
fn has_table(document: &Value, field: &str) -> bool {
    let of_controllers = matches!(field, "leases" | "feeders");
    field == "conditions" || (of_controllers && text(document, "/kind") == manifest::KIND)
}

/// Adds what other resources and hosts tell to the leases of a controller: the loads change too often to be stored, and
/// each host knows the terms of its own leases.
async fn add_held_leases(client: &Client, document: &mut Value) {
    if !has_table(document, "leases") {
        return;
    }
    let name = text(document, "/metadata/name").to_owned();
    let leases = document.pointer_mut("/status/leases").and_then(Value::as_array_mut);
    let Some(leases) = leases.filter(|leases| !leases.is_empty()) else { return };
    let held = hosts::held_leases(client, &name).await;
    for lease in leases.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(told) = lease.get("shard").and_then(Value::as_u64).and_then(|shard| held.get(&shard)) {
            add_held_lease(lease, told);
        }
    }
}

/// Adds the load and the term to a lease, without the term of another holder or an earlier one.
fn add_held_lease(lease: &mut Map<String, Value>, told: &Map<String, Value>) {
    let is_same_epoch = lease.get("epoch").is_none_or(|epoch| told.get("epoch") == Some(epoch));
    let is_same_term = is_same_epoch && lease.get("holder") == told.get("holder");
    let fields = told.iter().filter(|(field, _)| *field == "cpuMillicores" || is_same_term);
    lease.extend(fields.map(|(field, value)| (field.clone(), value.clone())));
}

/// Returns the leases of a controller, as the asked host sees them.
fn leases(document: &Value, now: Timestamp) -> Table {
    let mut table = Table::new(["SHARD", "STORE", "HOLDER", "HELD", "EPOCH", "SINCE", "LOAD", "ERROR"]);
    let leases = document.pointer("/status/leases").and_then(Value::as_array);
    for lease in leases.into_iter().flatten().filter(|_| has_table(document, "leases")) {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let number = |field: &str| lease[field].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
        let held = if lease["isHeld"] == true { "yes" } else { "-" };
        let (store, holder, error) = (text(lease, "/store"), text(lease, "/holder"), text(lease, "/error"));
        let since = Some(text(lease, "/since")).filter(|since| !since.is_empty());
        let since = since.map_or_else(|| "-".to_owned(), |since| age::since(since, now));
        let (held, load) = (held.to_owned(), hosts::cores(&lease["cpuMillicores"]));
        let (shard, epoch) = (number("shard"), number("epoch"));
        table.row(vec![shard, or_dash(store), or_dash(holder), held, epoch, since, load, or_dash(error)]);
    }
    table
}

/// Returns the feeders of a controller's manifest.
fn feeders(document: &Value, now: Timestamp) -> Table {
    let mut table = Table::new([
        "NAME", "SOURCE", "STATE", "KEYS", "FULL", "REJECTED", "DENIED", "MISSED", "LOST", "INBOX", "LAST", "NEXT",
        "ERROR",
    ]);
    let feeders = document.pointer("/status/feeders").and_then(Value::as_array);
    // A host that does not run the controller shows what the stored status has.
    for feeder in feeders.into_iter().flatten().filter(|_| has_table(document, "feeders")) {
        let cell = |pointer| Some(text(feeder, pointer)).filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
        let number = |field: &str| feeder[field].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
        let last = text(feeder, "/lastRun");
        let last = if last.is_empty() { "-".to_owned() } else { format!("{} ago", age::since(last, now)) };
        table.row(vec![
            cell("/name"),
            cell("/source"),
            cell("/state"),
            number("keys"),
            number("full"),
            number("rejected"),
            number("denied"),
            number("missed"),
            number("lost"),
            number("inbox"),
            last,
            cell("/nextRun"),
            cell("/error"),
        ]);
    }
    table
}

async fn dependents(client: &Client, document: &Value, now: Timestamp) -> anyhow::Result<Table> {
    let mut table = Table::new(["KIND", "NAME", "READY", "AGE"]);
    let uid = text(document, "/metadata/uid");
    if uid.is_empty() {
        return Ok(table);
    }
    let list = client.get(&with_query("/homeostat/v1/dependents", &[("uid", Some(uid))])).await?;
    for item in list["items"].as_array().into_iter().flatten() {
        let ready = condition(item, "Ready").unwrap_or_else(|| "-".to_owned());
        let age = age::since(text(item, "/metadata/creationTimestamp"), now);
        table.row(vec![text(item, "/kind").to_owned(), text(item, "/metadata/name").to_owned(), ready, age]);
    }
    Ok(table)
}

/// Returns a note in the place of the dependents while a store is away that may have some of them.
///
/// # Errors
/// The error itself, if it has another reason.
fn unknown_dependents(error: anyhow::Error) -> anyhow::Result<String> {
    match error.downcast_ref::<ApiError>() {
        Some(ApiError { code: 503, message, .. }) => {
            Ok(format!("Dependents:\n  unknown: {}\n", output::plain(message)))
        }
        _ => Err(error),
    }
}

/// Returns the queue entries of a resource's key, in every controller that manages its kind.
async fn queue_table(client: &Client, known: &ApiResource, namespace: &str, name: &str) -> anyhow::Result<Table> {
    let mut table = queue::table(true);
    let manages =
        format!("{}{}{}", known.name().to_lowercase(), if known.group().is_empty() { "" } else { "." }, known.group());
    let mut unanswered = UnansweredHosts::default();
    for controller in queue::controllers(client, Some(&manages)).await? {
        let namespace = if known.namespaced { namespace } else { "" };
        let found = queue::queue(client, &controller, &[("namespace", Some(namespace)), ("name", Some(name))]).await?;
        unanswered.note(&found);
        queue::entries(&found).for_each(|entry| table.row(queue::row(&controller, entry, true)));
    }
    Ok(table)
}

async fn events_table(
    client: &Client,
    known: &ApiResource,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> anyhow::Result<Table> {
    let mut table = events::table();
    let key = known.key(namespace, name);
    let wanted = if known.is_controller() { ("controller", Some(name)) } else { ("key", Some(key.as_str())) };
    let mut lines = client.lines(&with_query("/homeostat/v1/events", &[wanted])).await?;
    let (mut found, mut unanswered) = (Vec::new(), UnansweredHosts::default());
    while let Some(event) = lines.next().await? {
        if !unanswered.note(&event) {
            found.push(event);
        }
    }
    let found = if known.is_controller() { merge_key_events(found) } else { found };
    found.iter().for_each(|event| table.row(events::row(event, now)));
    Ok(table)
}

/// A controller's own events to show, at most: the latest.
const OWN_EVENTS_MAX: usize = 16;

/// Returns the events of a controller to show. Its own events stay. Events about keys are merged by reason:
/// the last one stands for all, with the total count, at the position of the last one.
fn merge_key_events(events: Vec<Value>) -> Vec<Value> {
    let mut shown: Vec<Value> = Vec::new();
    for event in events {
        let same = |known: &Value| !known["key"].is_null() && known["reason"] == event["reason"];
        let before = (!event["key"].is_null()).then(|| shown.iter().position(same)).flatten();
        let before = before.map(|at| shown.remove(at));
        let count = before.as_ref().and_then(|before| before["count"].as_u64()).unwrap_or_default();
        shown.push(event);
        if let Some(last) = shown.last_mut() {
            last["count"] = (count + last["count"].as_u64().unwrap_or(1)).into();
        }
    }
    let own = shown.iter().filter(|event| event["key"].is_null()).count();
    let mut surplus = own.saturating_sub(OWN_EVENTS_MAX);
    shown.retain(|event| {
        let goes = surplus > 0 && event["key"].is_null();
        surplus -= usize::from(goes);
        !goes
    });
    shown
}

#[cfg(test)]
mod tests;
