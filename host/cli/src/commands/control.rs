//! `homeostat retry`, `suspend` and `resume`: what a person does to a running controller.

use std::process::ExitCode;

use hyper::Method;
use hyper::body::Bytes;
use serde_json::json;

use super::words;
use crate::client::{Client, Kinds};
use crate::global::{Format, Global};
use crate::output;

/// Run a key now that waits or was given up
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RetryArgs {
    /// The controller: NAME or controller/NAME
    #[arg(value_parser = words::controller)]
    controller: String,
    /// The key: KIND NAME or KIND/NAME
    #[arg(required = true, value_name = "KEY")]
    key: Vec<String>,
}

/// Hold a controller's keys back, or let them run again
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ControllerArgs {
    /// The controller: NAME or controller/NAME
    #[arg(value_parser = words::controller)]
    controller: String,
}

/// Runs a key now.
///
/// # Errors
/// When the controller or the key is not there.
pub(crate) async fn retry(args: RetryArgs, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let RetryArgs { controller, key } = args;
    let (kind, name) = words::one(&key)?;
    let client = Client::new(global)?;
    let kinds = Kinds::fetch(&client).await?;
    let known = kinds.find(&kind)?;
    let namespace = if known.namespaced { global.namespace() } else { "" };
    let body = json!({ "apiVersion": known.api_version(), "kind": known.name(), "namespace": namespace, "name": name });
    let path = format!("{}/queue/retry", path(&controller));
    client.send(Method::POST, &path, "application/json", body.to_string().into()).await?;
    output::print(&format!("{} retried by {controller}\n", known.word(&name)))?;
    Ok(ExitCode::SUCCESS)
}

/// Holds a controller's keys back.
///
/// # Errors
/// When the controller is not there.
pub(crate) async fn suspend(args: ControllerArgs, global: &Global) -> anyhow::Result<ExitCode> {
    say(&args.controller, "suspend", "suspended", global).await
}

/// Lets a controller's keys run again.
///
/// # Errors
/// When the controller is not there.
pub(crate) async fn resume(args: ControllerArgs, global: &Global) -> anyhow::Result<ExitCode> {
    say(&args.controller, "resume", "resumed", global).await
}

async fn say(controller: &str, verb: &str, done: &str, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let path = format!("{}/{verb}", path(controller));
    Client::new(global)?.send(Method::POST, &path, "application/json", Bytes::new()).await?;
    output::print(&format!("controller.homeostat.dev/{controller} {done}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of a controller.
pub(super) fn path(controller: &str) -> String {
    format!("/apis/homeostat.dev/v1alpha1/controllers/{controller}")
}
