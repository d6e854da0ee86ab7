//! The host's side: starts a compiler process for one component, feeds it, and interprets the result.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::{CompileTask, Compiler, CompilerExit};
use crate::limits::LimitName;
use crate::load_error::Reason;

/// The wall-time bound as a multiple of the processor time: the machine may be busy.
const WALL_FACTOR: u32 = 4;
/// The same of a compilation in the background, which gets only idle processors.
const WALL_FACTOR_IN_BACKGROUND: u32 = 40;
/// Bytes of standard error that are kept.
const SAID_BYTES_MAX: u64 = 4096;
/// The message of a Rust program that runs out of memory, before it aborts.
const NO_MEMORY: &str = "memory allocation of";

/// The output and exit status of a process.
struct ProcessOutput {
    status: ExitStatus,
    output: Vec<u8>,
    said: String,
}

/// Compiles in a separate process, and blocks this thread until it ends: the process dies with the thread.
/// Returns `None` if `unused` ended before it.
///
/// # Errors
/// `Malformed`, `Limit`, `Compiler`.
pub(super) fn run(
    compiler: &Compiler,
    task: &CompileTask,
    bytes: &[u8],
    unused: impl Future<Output = ()>,
) -> Result<Option<Vec<u8>>, Reason> {
    let failed = |error: io::Error| Reason::Compiler { reason: format!("{}: {error}", compiler.program.display()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut child = start(compiler, task).map_err(failed)?;
        let wall = task.time.saturating_mul(if task.background { WALL_FACTOR_IN_BACKGROUND } else { WALL_FACTOR });
        let answered = tokio::select! {
            answered = tokio::time::timeout(wall, talk(&mut child, task, bytes)) => Some(answered),
            () = unused => None,
        };
        // Kills the process if it still runs. If waiting for it fails, it is reaped later, when `child` is
        // dropped.
        drop(child.kill().await);
        let Some(answered) = answered else { return Ok(None) };
        answered.map_err(|_| time(wall, "did not end within"))?.map_err(failed)?.into_result(task).map(Some)
    })
}

fn start(compiler: &Compiler, task: &CompileTask) -> io::Result<Child> {
    let Compiler { program, arguments, environment } = compiler;
    let mut command = Command::new(program);
    command.args(arguments).arg(task.to_string()).env_clear().envs(environment).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Writes the component and reads the answer concurrently, so that neither side blocks the other.
async fn talk(child: &mut Child, task: &CompileTask, bytes: &[u8]) -> io::Result<ProcessOutput> {
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(io::Error::other("it has no standard streams"));
    };
    let feed = async {
        // A process that stops reading reports its reason on another stream.
        drop(stdin.write_all(bytes).await);
        drop(stdin);
    };
    let ((), output, said) =
        tokio::join!(feed, read(stdout, task.memory_bytes_max.saturating_add(1)), read(stderr, SAID_BYTES_MAX));
    let said = String::from_utf8_lossy(&said?).trim().to_owned();
    Ok(ProcessOutput { output: output?, said, status: child.wait().await? })
}

/// Reads at most `bytes_max` bytes, then closes the stream, which ends a process that keeps writing.
async fn read(stream: impl AsyncRead + Unpin, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(bytes_max).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

impl ProcessOutput {
    /// Interprets the exit status and the output.
    fn into_result(self, task: &CompileTask) -> Result<Vec<u8>, Reason> {
        use std::os::unix::process::ExitStatusExt;
        let Self { status, output, said } = self;
        match status.code().map(CompilerExit::of) {
            _ if output.len() as u64 > task.memory_bytes_max => Err(memory(task)),
            Some(Some(CompilerExit::Compiled)) => Ok(output),
            Some(Some(CompilerExit::Malformed)) => {
                Err(Reason::Malformed { reason: String::from_utf8_lossy(&output).into_owned() })
            }
            Some(Some(CompilerExit::GaveUp)) => {
                Err(Reason::Unsupported { needs: String::from_utf8_lossy(&output).into_owned() })
            }
            Some(Some(CompilerExit::NoMemory)) => Err(memory(task)),
            None if status.signal() == Some(Signal::XCPU.as_raw()) => {
                Err(time(task.time, "used more processor time than"))
            }
            _ if said.contains(NO_MEMORY) => Err(memory(task)),
            _ => {
                let what = if said.is_empty() { String::new() } else { format!(": {said}") };
                Err(Reason::Compiler { reason: format!("its process ended with {status}{what}") })
            }
        }
    }
}

fn time(allowed: Duration, what: &str) -> Reason {
    Reason::Limit { limit: LimitName::CompileTime, message: format!("the compilation {what} {allowed:?}") }
}

fn memory(task: &CompileTask) -> Reason {
    let message = format!("the compilation needs more than {} bytes of memory", task.memory_bytes_max);
    Reason::Limit { limit: LimitName::CompileMemory, message }
}
