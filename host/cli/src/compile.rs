//! `homeostat compile TASK`: what a host starts for each component that it compiles. Not for people.

use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use homeostat_component::{Compiler, EngineOptions, Task};

/// Compile one component from standard input to standard output
#[derive(Args, Clone, Debug)]
pub(crate) struct CompileArgs {
    /// What it may take, as JSON
    task: Task,
}

/// The folder of compiled components, below that of this user or of a host.
pub(crate) const COMPILED: &str = "compiled";
/// The word of the command line.
const VERB: &str = "compile";

/// The allocator of this binary takes memory in pieces of 64 MiB (in KiB), instead of a GiB: all of a piece counts.
const ARENA: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "65536");

/// Runs `homeostat compile`, on a process that has done nothing else.
///
/// # Errors
/// When the process cannot be bound, or who asked is gone.
pub(crate) fn run(args: &CompileArgs) -> Result<ExitCode> {
    let ended = args.task.run(&mut stdin().lock(), &mut stdout().lock()).context("the component is not compiled")?;
    Ok(ended.code().into())
}

/// Returns the options of an engine that compiles in processes of this binary.
///
/// # Errors
/// When nobody knows where this binary is.
pub(crate) fn engine_options(compiled: Option<PathBuf>) -> Result<EngineOptions> {
    // Leads to what runs here also when another release lies in its place by now.
    let own = PathBuf::from("/proc/self/exe");
    let program = if own.exists() { own } else { std::env::current_exe().context("this binary cannot be found")? };
    let environment = [(ARENA.0.to_owned(), ARENA.1.to_owned())].into();
    let compiler = Some(Compiler { program, arguments: vec![VERB.to_owned()], environment });
    Ok(EngineOptions { compiler, compiled, ..EngineOptions::default() })
}

/// Returns where commands without a host keep what they need not make or fetch again: `homeostat/NAME` in this user's folder for such things, if
/// there is one.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
pub(crate) fn user_cache(name: &str) -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("homeostat").join(name))
}
