//! `homeostat test`: runs the cases of a file against a component, over a store in memory and in virtual time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use homeostat_component::{Component, Grants, KindDeclaration, Limits};
use homeostat_simulator::{Case, ComponentReconciler, Simulator};
use homeostat_store::Kind;
use serde::Deserialize;

use crate::compile::CompileLimits;
use crate::exit;
use crate::global::{Format, Global};
use crate::inspect;
use crate::output;
use crate::registry;

/// The name under which the component of a test applies.
const CONTROLLER: &str = "test";

/// Test a component with the cases of a file
///
/// Each case starts with an empty store in memory. The component runs in the sandbox of a host, with the
/// grants of the case, or with all grants. Time stands still until a step moves it. There is no network.
#[derive(Args, Clone, Debug)]
pub(crate) struct TestArgs {
    /// The component: a file, or a reference to a registry
    #[arg(value_name = "FILE.wasm|REFERENCE")]
    component: String,
    /// The files with the cases, in YAML
    #[arg(value_name = "CASES.yaml", required = true)]
    files: Vec<PathBuf>,
    /// Run only the cases whose name has this text in it
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    compile: CompileLimits,
}

/// A file of cases.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseFile {
    /// Kinds that the component uses and that its description does not declare.
    #[serde(default)]
    kinds: Vec<UsedKind>,
    cases: Vec<Case>,
}

/// A kind as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UsedKind {
    api_version: String,
    kind: String,
    #[serde(default = "yes")]
    namespaced: bool,
}

fn yes() -> bool {
    true
}

impl UsedKind {
    fn declaration(&self) -> Result<KindDeclaration> {
        let kind = Kind::parse(&self.api_version, &self.kind)?;
        let plural = format!("{}s", self.kind.to_lowercase());
        Ok(KindDeclaration { kind, plural, namespaced: self.namespaced, keys_only: false, schema: None })
    }
}

/// Runs `homeostat test`.
///
/// # Errors
/// When a file cannot be read or the component is refused. A failed case is an exit code.
pub(crate) async fn run(args: &TestArgs, global: &Global) -> Result<ExitCode> {
    global.format(&[Format::Table])?;
    let files = args.files.iter().map(|file| Ok((file, read(file)?))).collect::<Result<Vec<_>>>()?;
    // A component without its settings may be unable to describe itself.
    let first = files.iter().flat_map(|(_, file)| &file.cases).map(|case| case.config.clone()).next();
    let component = inspect::load(&args.component, args.compile, &first.unwrap_or_default()).await?;
    let (mut passed, mut failed) = (0, 0);
    for (path, file) in &files {
        let kinds = file.kinds.iter().map(UsedKind::declaration).collect::<Result<Vec<_>>>()?;
        for case in &file.cases {
            if args.filter.as_ref().is_some_and(|text| !case.name.contains(text)) {
                continue;
            }
            let lines = run_case(case, &component, &kinds).await;
            let word = if lines.is_empty() { "ok    " } else { "FAILED" };
            output::print(&format!("{word} {}\n", output::plain(&case.name)))?;
            for line in &lines {
                output::print(&format!("       {}\n", output::plain(line)))?;
            }
            if lines.is_empty() { passed += 1 } else { failed += 1 }
        }
        if file.cases.is_empty() {
            return Err(exit::failed(format!("{}: the file has no cases", path.display())));
        }
    }
    output::print(&format!("{passed} passed, {failed} failed\n"))?;
    if passed + failed == 0 {
        return Err(exit::failed("no case has that text in its name"));
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { exit::ExitReason::Failed.into() })
}

/// Runs a case, and returns what is wrong: nothing if it passes.
async fn run_case(case: &Case, component: &Component, kinds: &[KindDeclaration]) -> Vec<String> {
    let limits = Limits { cpu: Duration::from_secs(10), ..inspect::ample() };
    let component = match component.described_with(&limits, &case.config).await {
        Ok(component) => component,
        Err(refused) => return vec![refused.to_string()],
    };
    let reconciler = ComponentReconciler::new(component, CONTROLLER, limits);
    let grants = case.grants.clone().unwrap_or_else(Grants::everything);
    let simulator = async {
        let mut simulator = Simulator::new(reconciler, grants, case.config.clone()).await?;
        kinds.iter().try_for_each(|kind| simulator.declare(kind))?;
        Ok::<_, homeostat_simulator::Error>(simulator)
    };
    match simulator.await {
        Ok(simulator) => {
            homeostat_simulator::run(case, simulator).await.unwrap_or_else(|error| vec![error.to_string()])
        }
        Err(error) => vec![error.to_string()],
    }
}

fn read(path: &Path) -> Result<CaseFile> {
    let bytes = registry::read_file(path)?;
    parse(&bytes).with_context(|| format!("{}: the cases cannot be read", path.display()))
}

fn parse(bytes: &[u8]) -> Result<CaseFile> {
    let text = std::str::from_utf8(bytes).context("the file is not UTF-8")?;
    serde_saphyr::from_str(text).map_err(|error| exit::failed(error.to_string()))
}

#[cfg(test)]
mod tests;
