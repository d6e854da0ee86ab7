//! `homeostat compile TASK`: the process that a host starts to compile one component. Hidden from the help.

use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use homeostat_component::{COMPILE_MEMORY_BYTES_BOUNDS, COMPILE_TIME_BOUNDS, CompileTask, Compiler, EngineOptions};
use homeostat_runtime::manifest::{Bytes, Span};

/// Compile one component from standard input to standard output
#[derive(Args, Clone, Debug)]
pub(crate) struct CompileArgs {
    /// The compile task with its limits, as JSON
    task: CompileTask,
}

/// Limits on compiling one component
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct CompileLimits {
    /// CPU time for compiling a component, summed over all processors, in whole seconds: 1s to 1h
    ///
    /// The limit on elapsed time is four times as long. A component that takes longer is refused: limit
    /// compile-time.
    #[arg(long, value_name = "SPAN", default_value_t = Span(EngineOptions::default().compile_time), value_parser = compile_time)]
    compile_time: Span,
    /// Memory for compiling a component: 64Mi to 64Gi
    ///
    /// At most two components are compiled at once. A component that needs more memory is refused: limit
    /// compile-memory.
    #[arg(long, value_name = "BYTES", default_value_t = Bytes(EngineOptions::default().compile_memory_bytes_max), value_parser = compile_memory)]
    compile_memory: Bytes,
}

fn compile_time(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    let (least, most) = (Span(*COMPILE_TIME_BOUNDS.start()), Span(*COMPILE_TIME_BOUNDS.end()));
    if COMPILE_TIME_BOUNDS.contains(&span.0) { Ok(span) } else { Err(format!("it must be {least} to {most}")) }
}

fn compile_memory(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse()?;
    let (least, most) = (Bytes(*COMPILE_MEMORY_BYTES_BOUNDS.start()), Bytes(*COMPILE_MEMORY_BYTES_BOUNDS.end()));
    if COMPILE_MEMORY_BYTES_BOUNDS.contains(&bytes.0) {
        Ok(bytes)
    } else {
        Err(format!("it must be {least} to {most}"))
    }
}

/// The name of this command.
const VERB: &str = "compile";

/// Makes the allocator of this binary reserve 64 MiB (given in KiB) at a time, instead of 1 GiB: the whole
/// reservation counts against the memory limit.
const ARENA: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "65536");

/// Runs `homeostat compile`, in a process that has done nothing else.
///
/// # Errors
/// When the limits cannot be set, or the process that asked has closed the pipe.
pub(crate) fn run(args: &CompileArgs) -> Result<ExitCode> {
    let ended = args.task.run(&mut stdin().lock(), &mut stdout().lock()).context("the component is not compiled")?;
    Ok(ended.code().into())
}

/// Returns the options of an engine that compiles in child processes of this binary.
///
/// # Errors
/// When the path of this binary cannot be determined.
pub(crate) fn engine_options(compiled: Option<PathBuf>, limits: CompileLimits) -> Result<EngineOptions> {
    let CompileLimits { compile_time: Span(compile_time), compile_memory: Bytes(compile_memory_bytes_max) } = limits;
    // This path still names the running binary after an upgrade has replaced the file.
    let own = PathBuf::from("/proc/self/exe");
    let program = if own.exists() { own } else { std::env::current_exe().context("this binary cannot be found")? };
    let environment = [(ARENA.0.to_owned(), ARENA.1.to_owned())].into();
    let compiler = Some(Compiler { program, arguments: vec![VERB.to_owned()], environment });
    Ok(EngineOptions { compiler, compiled, compile_time, compile_memory_bytes_max, ..EngineOptions::default() })
}

/// Returns the cache folder for commands without a host: `homeostat/NAME` in this user's cache folder, if
/// there is one.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
pub(crate) fn user_cache(name: &str) -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("homeostat").join(name))
}
