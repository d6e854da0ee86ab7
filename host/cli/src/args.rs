//! The command line: grammar and help only. Each command's behaviour is in a file of its own.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::build::BuildArgs;
use crate::case_files::TestArgs;
use crate::commands::{
    apply, backup, control, delete, describe, events, get, grants, graph, hosts, keys, kubeconfig, logs, queue,
    rollout, stores, top,
};
use crate::compile::CompileArgs;
use crate::crd::CrdArgs;
use crate::dev::DevArgs;
use crate::doctor::DoctorArgs;
use crate::global::Global;
use crate::inspect::InspectArgs;
use crate::new::NewArgs;
use crate::offline_store::{FsckArgs, RestoreArgs};
use crate::registry::{PullArgs, PushArgs};
use crate::serve::RunArgs;
use crate::signatures::{KeygenArgs, SignArgs, VerifyArgs};
use crate::testenv::TestenvArgs;

/// Run controllers that are WebAssembly components
///
/// A controller watches resources and brings the world closer to what they ask for, one key at a time.
/// Homeostat runs each controller in a sandbox of its own, over a store of Kubernetes-shaped resources, and
/// swaps it without a restart.
#[derive(Debug, Parser)]
#[command(name = "homeostat", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(
    after_help = "Start with `homeostat new NAME --lang LANGUAGE`, then `homeostat dev NAME`: it builds the guest in NAME, runs it, and swaps it on every save."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Dev(DevArgs),
    Build(BuildArgs),
    New(NewArgs),
    Doctor(DoctorArgs),
    Inspect(InspectArgs),
    Crd(CrdArgs),
    Test(TestArgs),
    Testenv(TestenvArgs),
    Bench(BenchArgs),
    Push(PushArgs),
    Pull(PullArgs),
    Keygen(KeygenArgs),
    Sign(SignArgs),
    VerifySignature(VerifyArgs),
    #[command(hide = true)]
    Compile(CompileArgs),
    Get(get::Args),
    Describe(describe::Args),
    Apply(apply::Args),
    Delete(delete::Args),
    Events(events::Args),
    Logs(logs::Args),
    Queue(queue::Args),
    Top(top::Args),
    Stores(stores::Args),
    Graph(graph::Args),
    Hosts(hosts::HostsArgs),
    Drain(hosts::DrainArgs),
    Uncordon(hosts::UncordonArgs),
    Grants(grants::Args),
    Kubeconfig(kubeconfig::Args),
    Backup(backup::Args),
    Restore(RestoreArgs),
    Fsck(FsckArgs),
    Rollout(rollout::Args),
    Enqueue(keys::EnqueueArgs),
    Retry(keys::RetryArgs),
    /// Stop running a controller's keys
    Suspend(control::ControllerArgs),
    /// Run a suspended controller's keys again
    Resume(control::ControllerArgs),
}

#[cfg(test)]
mod tests;
