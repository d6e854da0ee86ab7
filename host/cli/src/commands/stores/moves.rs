//! `homeostat stores copy` and `homeostat stores prune`: move a kind from one store to another.

use std::process::ExitCode;

use reqwest::Method;
use serde_json::{Value, json};

use super::PATH;
use crate::client::{ApiResource, Client, Kinds};
use crate::global::{Format, Global};
use crate::output;

/// Copy the resources of a kind to another store, as the first step of moving the kind
///
/// The host copies each resource as it is, with its uid, its times and its status, and compares both stores at the
/// end. The server of a cluster gives each copy a new uid and new times. The writes of the kind wait from the beginning, and after a copy that succeeded until the host ends. Then
/// change the route of the kind in the file of stores, and start the host again. A host that starts with the former
/// route goes on without the copy. The command can be repeated. It removes nothing.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct CopyArgs {
    /// The kind, as `widgets.demo.dev` or `demo.dev/Widget`
    #[arg(value_name = "KIND")]
    kind: String,
    /// The store that gets the resources
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Print what would be copied, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Remove the resources of a kind from a store in which it does not live, as the last step of moving the kind
///
/// After a move these are the former copies. Dependents of the kind are made to name the store in which it lives now.
/// No finalizer and no dependent is waited for. No other host may use the kind in that store. In a cluster only copies,
/// and originals of resources of this host, are removed.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct PruneArgs {
    /// The kind, as `widgets.demo.dev` or `demo.dev/Widget`
    #[arg(value_name = "KIND")]
    kind: String,
    /// The store whose resources are removed
    #[arg(long, value_name = "STORE")]
    from: String,
    /// Print what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// How far a step was at its end.
struct StepReport {
    /// The kind, as routes write it.
    kind: String,
    resources: u64,
    written: u64,
    dependents: u64,
    /// Resources of others in a cluster, which stay.
    others: u64,
}

/// Runs `homeostat stores copy`.
///
/// # Errors
/// When the host cannot copy the kind.
pub(super) async fn copy(args: CopyArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let CopyArgs { kind, to, dry_run } = args;
    let StepReport { kind, resources, written, .. } = run_step(global, &kind, &to, "copy", dry_run).await?;
    output::print(&if dry_run {
        format!("{kind}: {written} of {resources} resources would be copied to store {to} (dry run)\n")
    } else {
        format!(
            "{kind}: store {to} has all {resources} resources, of which {written} were copied now\n\
             Writes of {kind} wait until the host starts again. In the file of stores, change the route of {kind} to\n  \
             - {{kinds: [\"{kind}\"], store: {to}}}\n\
             and start the host again. Then run `homeostat stores prune {kind} --from` with the former store.\n"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `homeostat stores prune`.
///
/// # Errors
/// When the host cannot remove the resources.
pub(super) async fn prune(args: PruneArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let PruneArgs { kind, from, dry_run } = args;
    let StepReport { kind, written, dependents, others, .. } = run_step(global, &kind, &from, "prune", dry_run).await?;
    let (would, note) = if dry_run { ("would be", " (dry run)") } else { ("were", "") };
    output::print(&format!(
        "{kind}: {written} resources {would} removed from store {from}, and {dependents} dependents {would} changed{note}\n"
    ))?;
    if others > 0 {
        output::print(&format!(
            "{others} resources stay in store {from}: they are neither copies nor originals of resources of this host\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a step of a move to its end.
async fn run_step(
    global: &Global,
    kind: &str,
    store: &str,
    step: &str,
    is_dry_run: bool,
) -> anyhow::Result<StepReport> {
    global.format(&[Format::Table])?;
    let client = Client::new(global)?;
    let kinds = Kinds::fetch(&client).await?;
    let kind = match kind.split_once('/') {
        Some((group, name)) => kinds.find(&format!("{name}.{}", if group == "v1" { "" } else { group }))?,
        None => kinds.find(kind)?,
    };
    let path = format!("{PATH}/{store}/{step}");
    let body = json!({ "apiVersion": kind.api_version(), "kind": kind.name(), "dryRun": is_dry_run }).to_string();
    loop {
        let answer = client.send(Method::POST, &path, "application/json", body.clone()).await?.document;
        let number = |field: &str| answer[field].as_u64().unwrap_or_default();
        let (resources, written) = (number("resources"), number("written"));
        if answer["done"] == Value::Bool(true) {
            let (dependents, others) = (number("dependents"), number("others"));
            return Ok(StepReport { kind: pattern(kind), resources, written, dependents, others });
        }
        output::eprint(&format!("{written} resources so far"));
    }
}

fn pattern(kind: &ApiResource) -> String {
    let group = if kind.group().is_empty() { "v1" } else { kind.group() };
    format!("{group}/{}", kind.name())
}
