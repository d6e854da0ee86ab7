//! `homeostat suspend` and `resume`, on all hosts of a fleet.

use std::process::ExitCode;

use reqwest::Method;

use super::resource_args;
use super::unanswered::UnansweredHosts;
use crate::client::Client;
use crate::global::{Format, Global};
use crate::output;

/// Suspend or resume a controller
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ControllerArgs {
    /// The controller: NAME or controller/NAME
    #[arg(value_parser = resource_args::controller)]
    controller: String,
}

/// Suspends a controller.
///
/// # Errors
/// When the controller does not exist.
pub(crate) async fn suspend(args: ControllerArgs, global: &Global) -> anyhow::Result<ExitCode> {
    post_verb(&args.controller, "suspend", "suspended", global).await
}

/// Resumes a controller.
///
/// # Errors
/// When the controller does not exist.
pub(crate) async fn resume(args: ControllerArgs, global: &Global) -> anyhow::Result<ExitCode> {
    post_verb(&args.controller, "resume", "resumed", global).await
}

async fn post_verb(controller: &str, verb: &str, done: &str, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let path = format!("{}/{verb}", path(controller));
    let response = Client::new(global)?.send(Method::POST, &path, "application/json", "").await?;
    output::print(&format!("controller.homeostat.dev/{controller} {done}\n"))?;
    let mut unanswered = UnansweredHosts::default();
    unanswered.note(&response.document);
    Ok(unanswered.exit_code())
}

/// Returns the API path of a controller.
pub(super) fn path(controller: &str) -> String {
    format!("/apis/homeostat.dev/v1alpha1/controllers/{controller}")
}
