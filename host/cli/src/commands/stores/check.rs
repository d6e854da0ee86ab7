//! `homeostat stores check`: contacts the stores of a file without a host.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::exit::{self, ExitReason};
use crate::far_stores::check::{self, StoreReport};
use crate::global::{Format, Global};
use crate::output;
use crate::stores_config::{self, StoresConfig};

/// Contact the stores of a file and report what is wrong with them, without a host
///
/// Each server is asked for its version and its settings, and nothing is written. A finding is `refused` if the
/// store would not be used, and `warned` if it would be. The exit code is 0 if all stores can be used, else 1.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct CheckArgs {
    /// The folder of manifests, whose stores.yaml is checked
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// The file of stores [default: DIR/stores.yaml]
    #[arg(long, value_name = "FILE", env = "HOMEOSTAT_STORES", hide_env_values = true)]
    stores: Option<PathBuf>,
    /// Folder of the secrets that the file names
    #[arg(long, value_name = "FOLDER", env = "HOMEOSTAT_SECRETS", hide_env_values = true)]
    secrets: Option<PathBuf>,
}

/// Runs `homeostat stores check`.
///
/// # Errors
/// When there is no file of stores, or the file has mistakes.
pub(super) async fn run(args: CheckArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let CheckArgs { folder, stores, secrets } = args;
    let format = global.format(&[Format::Table, Format::Json, Format::Yaml])?;
    let Some(file) = StoresConfig::find(stores.as_deref(), &folder, secrets.as_deref())? else {
        let path = folder.join(stores_config::FILE);
        return Err(exit::failed(format!("there is no {}: name the file with --stores", path.display())));
    };
    let reports = check::check(file).await;
    let items: Vec<Value> = reports.iter().map(item).collect();
    let list = json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "StoreCheckList", "items": items });
    match format {
        Format::Json => output::print(&output::json(&list))?,
        Format::Yaml => output::print(&output::yaml(&list)?)?,
        _ => output::print(&reports.iter().map(lines).collect::<String>())?,
    }
    let all = reports.iter().all(|report| report.refusal.is_none());
    Ok(if all { ExitCode::SUCCESS } else { ExitReason::Failed.into() })
}

/// Returns the report of a store for a person.
fn lines(report: &StoreReport) -> String {
    let StoreReport { name, storage, refusal, findings } = report;
    let state = match refusal {
        None => "it can be used".to_owned(),
        Some(reason) => format!("it cannot be used: {reason}"),
    };
    let findings = findings.iter().map(|(severity, text)| output::plain(&format!("  {severity}: {text}")) + "\n");
    output::plain(&format!("store/{name} ({storage}): {state}")) + "\n" + &findings.collect::<String>()
}

fn item(report: &StoreReport) -> Value {
    let StoreReport { name, storage, refusal, findings } = report;
    let finding = |(severity, text): &(&str, String)| json!({ "severity": severity, "text": text });
    json!({
        "name": name, "storage": storage, "usable": refusal.is_none(), "reason": refusal,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
