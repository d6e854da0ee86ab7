//! `homeostat grants learn`: proposes minimal grants from observed use.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use homeostat_component::{Grants, LearnedGrants, NeedsSnapshot, ResourceNeed};
use homeostat_runtime::manifest::Span;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::from_host;
use crate::client::Client;
use crate::commands::unanswered::UnansweredHosts;
use crate::commands::{control, resource_args};
use crate::exit;
use crate::global::{Format, Global};
use crate::output::{self, plain};

/// Propose minimal grants for a controller, from what it was observed to use
///
/// The proposal stays within the manifest's grants and changes nothing. It lists the namespaces and names
/// that were used; above eight of either, it keeps the manifest's patterns. Watches keep the manifest's
/// grants, because new resources appear later. Comments list denied requests and unused grants.
///
/// A short observation grants too little: observe a day with failures, deletions and new resources, or leave
/// out `names`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct LearnArgs {
    /// A controller of the running host
    #[arg(value_parser = resource_args::controller)]
    controller: String,
    /// Observe for this long, and use only what is requested meanwhile [default: everything since the
    /// controller was added]
    #[arg(long = "for", value_name = "SPAN")]
    span: Option<Span>,
    /// Also allow what was denied: review it, it may ask for more than you want to grant
    #[arg(long)]
    include_denied: bool,
    /// Clear the observations afterwards
    #[arg(long)]
    reset: bool,
}

/// Runs `homeostat grants learn`.
///
/// # Errors
/// When the controller does not exist, or the host cannot answer.
pub(super) async fn run(args: LearnArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Yaml, Format::Json])?;
    let client = Client::new(global)?;
    let LearnArgs { controller, span, include_denied, reset } = args;
    let mut unanswered = UnansweredHosts::default();
    let ObservedNeeds { mut seen, mut watched } = fetch_needs(&client, &controller, &mut unanswered).await?;
    if let Some(Span(span)) = span {
        tokio::time::sleep(span).await;
        let before = seen;
        ObservedNeeds { seen, watched } = fetch_needs(&client, &controller, &mut unanswered).await?;
        seen = seen.since(&before);
    }
    let granted = from_host(&client, &controller).await?;
    let mut used = seen.clone();
    used.resources.append(&mut watched);
    let mut learned = granted.learn(&used);
    if include_denied {
        let Grants { resources, http, .. } = std::mem::take(&mut learned.denied);
        learned.grants.resources.extend(resources);
        learned.grants.http.extend(http);
    }
    if seen.is_empty() {
        output::eprint(&format!("{controller} was not observed to need any grant."));
    }
    if seen.more {
        output::eprint(&format!(
            "{controller} uses more kinds, hosts or settings than the host records: some are missing here."
        ));
    }
    output::print(&match format {
        Format::Json => output::json(&json!({ "learned": learned, "seen": seen })),
        _ => page(&controller, &learned, &seen)?,
    })?;
    if reset {
        let path = format!("{}/needs/forget", control::path(&controller));
        let response = client.send(Method::POST, &path, "application/json", "").await?;
        unanswered.note(&response.document);
    }
    Ok(unanswered.exit_code())
}

/// The needs of a controller, as the hosts that hold its leases have observed them.
#[derive(Deserialize)]
struct ObservedNeeds {
    /// The requests of the guest.
    seen: NeedsSnapshot,
    /// The needs of its watches.
    watched: Vec<ResourceNeed>,
}

async fn fetch_needs(
    client: &Client,
    controller: &str,
    unanswered: &mut UnansweredHosts,
) -> anyhow::Result<ObservedNeeds> {
    let document: Value = client.get(&format!("{}/needs", control::path(controller))).await?;
    unanswered.note(&document);
    serde_json::from_value(document).context("the host's answer cannot be parsed")
}

/// Returns the grants as lines of a manifest, with notes in comments.
fn page(controller: &str, learned: &LearnedGrants, seen: &NeedsSnapshot) -> anyhow::Result<String> {
    let LearnedGrants { grants, denied, unused } = learned;
    let mut page = format!("# What controller {controller} was observed to use of its grants.\n");
    page.push_str(&yaml(&json!({ "grants": brief(grants)? }))?);
    if grants.http.iter().any(|grant| !grant.headers.is_empty()) {
        page.push_str("# Values of headers are hidden (***): keep those of the manifest.\n");
    }
    if *denied != Grants::default() {
        page.push_str("# Denied, and not included above. Review each line before you grant it: the component asked for it, and may not need it.\n");
        comment(&mut page, &yaml(&json!({ "grants": brief(denied)? }))?);
    }
    if !unused.is_empty() {
        page.push_str("# Granted, but not used:\n");
        comment(&mut page, &unused.join("\n"));
    }
    let free = free(seen);
    if !free.is_empty() {
        writeln!(page, "# Needs no grant: it reads {}.", plain(&free.join(", ")))?;
    }
    if !seen.absent.is_empty() {
        page.push_str("# Requested, but not available to any controller:\n");
        comment(&mut page, &seen.absent.join("\n"));
    }
    Ok(page)
}

fn comment(page: &mut String, text: &str) {
    for line in text.lines() {
        page.push_str(&format!("#   {}\n", plain(line)));
    }
}

/// Returns the observed uses that need no grant.
fn free(seen: &NeedsSnapshot) -> Vec<String> {
    let NeedsSnapshot { settings, clock, random, .. } = seen;
    let mut free = Vec::new();
    if settings.iter().any(|name| name == "*") {
        free.push("all settings".to_owned());
    } else if !settings.is_empty() {
        free.push(format!("the settings {}", settings.join(", ")));
    }
    free.extend((*clock > 0).then(|| "clocks".to_owned()));
    free.extend((*random > 0).then(|| "randomness".to_owned()));
    free
}

/// Returns grants without empty lists and defaults.
fn brief(grants: &impl Serialize) -> anyhow::Result<Value> {
    let mut document = serde_json::to_value(grants)?;
    let lists = document.as_object_mut().into_iter().flat_map(|lists| lists.values_mut());
    for line in lists.filter_map(Value::as_array_mut).flatten().filter_map(Value::as_object_mut) {
        line.retain(|name, value| !(matches!(name.as_str(), "names" | "namespaces") && *value == json!(["*"])));
    }
    if let Some(lists) = document.as_object_mut() {
        lists.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
    }
    Ok(document)
}

fn yaml(document: &Value) -> anyhow::Result<String> {
    output::yaml(document).map_err(|error| exit::internal(error.to_string()))
}

#[cfg(test)]
mod tests;
