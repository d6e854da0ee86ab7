//! `homeostat testenv`: a host for the tests of an operator. It forgets everything at its end.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::json;

use crate::args;
use crate::exit;
use crate::output;
use crate::serve::{FolderHost, HostArgs};
use crate::signals::Signals;
use crate::terminal::Screen;

/// Run a host for the tests of an operator
///
/// It serves an empty Kubernetes API with the built-in kinds on a port of 127.0.0.1 that the system chooses, with its data
/// in memory. When it is ready, it prints a kubeconfig in one line of JSON. It ends by SIGINT or SIGTERM, or
/// with --stdin when its standard input ends, which it does with the process that started it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TestenvArgs {
    /// Folders of manifests that are there from the start, such as CustomResourceDefinitions [default: none]
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// End when standard input ends
    #[arg(long)]
    stdin: bool,
}

/// Runs `homeostat testenv`.
///
/// # Errors
/// When the host cannot start, or a manifest is refused.
pub(crate) async fn run(args: &TestenvArgs, screen: Screen) -> Result<ExitCode> {
    let mut signals = Signals::new().context("cannot install the signal handlers")?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let data = scratch.path().join("data");
    let mut folders = args.folders.clone();
    if folders.is_empty() {
        let empty = scratch.path().join("manifests");
        std::fs::create_dir(&empty).context("cannot make a temporary folder")?;
        folders.push(empty);
    }
    let mut host_args = host_args(folders.remove(0), data)?;
    host_args.other_folders = folders;
    let mut host = tokio::select! {
        host = FolderHost::start(&host_args, &screen) => host?,
        ending = signals.next() => return Ok(ExitCode::from(ending.code())),
    };
    let problems = host.settled().await;
    if problems > 0 {
        host.stop().await;
        return Err(exit::failed(format!("{problems} manifests were refused")));
    }
    let (name, server) = ("testenv", host.address());
    // Without `insecure-skip-tls-verify` the client for JavaScript refuses plain HTTP, also on loopback.
    let cluster = json!({ "server": server, "insecure-skip-tls-verify": true });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{ "name": name, "cluster": cluster }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "users": [{ "name": name, "user": {} }],
    });
    output::print(&format!("{kubeconfig}\n"))?;
    tokio::select! {
        _ = signals.next() => {}
        () = standard_input_end(), if args.stdin => {}
    }
    signals.end_at_next(screen);
    host.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Returns the options of `homeostat run` with its defaults, for a host in memory.
fn host_args(folder: PathBuf, data: PathBuf) -> Result<HostArgs> {
    let fixed = ["homeostat", "run", "--store", "memory", "--listen", "http://127.0.0.1:0", "--data"];
    let words = fixed.iter().map(std::ffi::OsString::from).chain([data.into_os_string(), folder.into_os_string()]);
    match args::Args::try_parse_from(words)?.command {
        args::Command::Run(run) => Ok(run.host),
        _ => unreachable!("the words are those of `run`"),
    }
}

/// Waits until standard input ends.
async fn standard_input_end() {
    let read = tokio::task::spawn_blocking(|| {
        let mut buffer = [0; 256];
        while std::io::stdin().read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    drop(read.await);
}
