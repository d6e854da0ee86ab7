//! The binary: parses the command line, runs one command, and maps its result to an exit code.
//!
//! There are four kinds of commands. `new`, `build` and `doctor` help authors of guests. `run`, `dev`, `testenv`, `inspect`,
//! `crd`, `test` and `bench` run a host, or a part of one, in this process. `push`, `pull`, `keygen`, `sign` and
//! `verify-signature` work with components in registries and files. All others talk to a running host over its API.
//! This crate is the only one that reads the environment, manifest files and signals.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use homeostat_store::embedded::OpenError;
use tracing_subscriber::EnvFilter;

mod address;
mod args;
mod bench;
mod build;
mod case_files;
mod client;
mod commands;
mod compile;
mod components;
#[cfg(any(feature = "kubernetes", feature = "nats"))]
mod content_records;
mod crd;
mod dev;
mod dev_table;
mod doctor;
mod document;
mod exit;
mod failure;
mod far_stores;
mod feeder_folder;
mod file_debouncer;
mod folder;
mod global;
mod inspect;
mod language;
mod layout;
mod manifest;
mod memory;
#[cfg(feature = "nats")]
mod message_stores;
mod new;
mod offline_store;
mod open_files;
mod output;
mod permissions;
mod progress_reporter;
mod project_files;
mod registry;
mod secrets;
mod serve;
mod signals;
mod signatures;
mod sources;
mod store;
mod stores_config;
mod terminal;
mod testenv;
mod watcher;

use args::{Args, Command};
use commands::{
    apply, backup, control, delete, describe, events, get, grants, graph, hosts, keys, kubeconfig, logs, queue,
    rollout, stores, top,
};
use serve::LogFormat;
use terminal::{Log, Screen, Style};

/// Documents consist of many small allocations, which are often freed on another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The store exists, but its data is damaged or too new. `EX_DATAERR` of sysexits.h.
const CODE_DATA: u8 = 65;
/// How long blocking threads may run after the command has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an idle thread for blocking work stays. Its freed memory stays with it until it ends, and most of
/// that work loads components.
const BLOCKING_IDLE_MAX: Duration = Duration::from_millis(100);
/// A later attempt may succeed, for example when another process has ended. `EX_TEMPFAIL` of sysexits.h.
const CODE_TRY_LATER: u8 = 75;

fn main() -> ExitCode {
    let Args { global, command } = Args::parse();
    if !matches!(command, Command::Compile(_)) {
        // A process that compiles is short-lived and reuses its memory.
        memory::keep_little();
    }
    let ended = tokio_runtime(&command).and_then(|tokio| {
        let ended = tokio.block_on(Box::pin(run(command, global)));
        // Blocking threads that take longer are abandoned.
        tokio.shutdown_timeout(SHUTDOWN_TIMEOUT);
        ended
    });
    ended.unwrap_or_else(|error| {
        let code = exit::report(&error);
        start_code(&error).map_or(code, ExitCode::from)
    })
}

/// Builds the tokio runtime. Guests yield at every tick of their epoch. The scheduler polls timers and
/// sockets after each task, so that a guest that computes for long does not delay them.
fn tokio_runtime(command: &Command) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = match command {
        // This process limits its memory, and threads would use part of it.
        Command::Compile(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().event_interval(1).global_queue_interval(1).thread_keep_alive(BLOCKING_IDLE_MAX);
    builder.build().context("cannot start the runtime's threads")
}

async fn run(command: Command, global: global::Global) -> anyhow::Result<ExitCode> {
    let style = match &command {
        Command::Run(_) => Style::Log,
        Command::Dev(_) => Style::Live,
        _ => Style::Lines,
    };
    let screen = Screen::new(style);
    start_log(&command, &screen);
    signals::survive_file_size_limit().context("cannot install the signal handlers")?;
    match command {
        Command::Run(args) => serve::run(&args, screen).await,
        Command::Dev(args) => dev::run(&args, screen).await,
        Command::Build(args) => build::run(&args, &screen).await,
        Command::New(args) => new::run(&args),
        Command::Doctor(args) => doctor::run(&args, &global).await,
        Command::Inspect(args) => inspect::run(&args, &global).await,
        Command::Crd(args) => crd::run(&args, &global).await,
        Command::Testenv(args) => testenv::run(&args, screen).await,
        Command::Test(args) => Box::pin(case_files::run(&args, &global)).await,
        Command::Bench(args) => bench::run(&args, &global, &screen).await,
        Command::Push(args) => registry::push(args, &global).await,
        Command::Pull(args) => registry::pull(args, &global).await,
        Command::Keygen(args) => signatures::keygen(&args, &global),
        Command::Sign(args) => signatures::run_sign(&args, &global),
        Command::VerifySignature(args) => signatures::run_verify(args, &global).await,
        Command::Compile(args) => compile::run(&args),
        Command::Get(args) => get::run(args, &global).await,
        Command::Describe(args) => describe::run(args, &global).await,
        Command::Apply(args) => apply::run(args, &global).await,
        Command::Delete(args) => delete::run(args, &global).await,
        Command::Events(args) => events::run(args, &global).await,
        Command::Logs(args) => logs::run(args, &global).await,
        Command::Grants(args) => grants::run(args, &global).await,
        Command::Kubeconfig(args) => kubeconfig::run(args, &global),
        Command::Backup(args) => backup::run(args, &global).await,
        Command::Restore(args) => offline_store::run_restore(args, &global).await,
        Command::Fsck(args) => offline_store::run_fsck(args, &global).await,
        Command::Queue(args) => queue::run(args, &global).await,
        Command::Top(args) => top::run(args, &global).await,
        Command::Stores(args) => stores::run(args, &global).await,
        Command::Graph(args) => graph::run(args, &global).await,
        Command::Hosts(args) => hosts::list(args, &global).await,
        Command::Drain(args) => hosts::drain(args, &global).await,
        Command::Uncordon(args) => hosts::uncordon(args, &global).await,
        Command::Rollout(args) => rollout::run(args, &global).await,
        Command::Enqueue(args) => keys::enqueue(args, &global).await,
        Command::Retry(args) => keys::retry(args, &global).await,
        Command::Suspend(args) => control::suspend(args, &global).await,
        Command::Resume(args) => control::resume(args, &global).await,
    }
}

/// Starts the log on standard error. `RUST_LOG` sets the filter; the default is warnings, and for `run` also
/// the host's own records and the lines of guests. `dev` reports failed reconciles and lines of guests itself.
fn start_log(command: &Command, screen: &Screen) {
    // The client of Kubernetes logs each failed connection as an error; the store of the cluster says when it is away.
    let default = match command {
        Command::Run(_) => "warn,homeostat=info,kube_client=off",
        Command::Dev(_) => "warn,homeostat_runtime::worker=error,homeostat_guest=off,kube_client=off",
        _ => "warn,kube_client=off",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let is_json = matches!(command, Command::Run(args) if args.log_format == LogFormat::Json);
    // No colours: an escape sequence in a record can then only come from logged text, and is neutralised.
    let to = Log { screen: screen.clone(), is_json };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(to).with_ansi(false);
    if is_json { log.json().init() } else { log.init() }
}

/// Returns the exit code for a host that cannot start, if there is one more specific than "failed".
fn start_code(error: &anyhow::Error) -> Option<u8> {
    error.chain().find_map(|cause| {
        if let Some(homeostat_api::Error::InUse { .. }) = cause.downcast_ref() {
            return Some(CODE_TRY_LATER);
        }
        match cause.downcast_ref::<OpenError>()? {
            OpenError::Locked { .. } => Some(CODE_TRY_LATER),
            OpenError::Damaged { .. } | OpenError::NewerFormat { .. } => Some(CODE_DATA),
            _ => None,
        }
    })
}
