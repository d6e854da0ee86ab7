//! The compiler process: it limits its own resources, then reads one component and writes its code.

use std::any::Any;
use std::fmt;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::OutOfMemory;

use crate::limits::cut;
use crate::millis;
use crate::options::{EngineOptions, config};
use crate::tier::Tier;

/// The nice value of compiler processes: guests and their host come first.
const NICENESS: i32 = 10;
/// The nice value of those for which nobody waits.
const BACKGROUND_NICENESS: i32 = 19;
/// The OOM score: when memory runs out, the kernel kills this process first.
#[cfg(target_os = "linux")]
const FIRST_TO_GO: &str = "1000";
/// Bytes of an error message. Cut above.
const REASON_BYTES_MAX: usize = 4096;

/// One compilation and its bounds. Passed as JSON on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompileTask {
    /// Processor time, summed over all processors. Enforced in whole seconds, rounded up.
    #[serde(rename = "timeMs", with = "millis")]
    pub time: Duration,
    /// Bytes of memory.
    pub memory_bytes_max: u64,
    /// Whether to use all processors.
    pub parallel: bool,
    /// The quality of the code.
    #[serde(default)]
    pub tier: Tier,
    /// Whether every other process comes first.
    #[serde(default)]
    pub background: bool,
}

/// The result of a task. The process exits with [`CompilerExit::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompilerExit {
    /// The code was written.
    Compiled,
    /// The component is malformed; the output is the reason, as text.
    Malformed,
    /// The compiler panicked on this component; the output is the panic's message.
    GaveUp,
    /// Out of memory. Most often the process is aborted instead.
    NoMemory,
}

impl CompilerExit {
    /// Returns the exit code of the result: 0, 65, 70 or 71.
    pub fn code(self) -> u8 {
        match self {
            Self::Compiled => 0,
            Self::Malformed => 65,
            Self::GaveUp => 70,
            Self::NoMemory => 71,
        }
    }

    pub(super) fn of(code: i32) -> Option<Self> {
        [Self::Compiled, Self::Malformed, Self::GaveUp, Self::NoMemory]
            .into_iter()
            .find(|ended| i32::from(ended.code()) == code)
    }
}

impl CompileTask {
    /// Returns the task for a compilation with these engine options, for which a caller waits.
    pub(crate) fn of(options: &EngineOptions, tier: Tier) -> Self {
        let EngineOptions { compile_time, compile_memory_bytes_max, parallel_compilation, .. } = options;
        let (time, memory_bytes_max, parallel) = (*compile_time, *compile_memory_bytes_max, *parallel_compilation);
        Self { time, memory_bytes_max, parallel, tier, background: false }
    }

    /// Returns the task for optimised code for which nobody waits. It uses one processor.
    pub(crate) fn in_background(options: &EngineOptions) -> Self {
        Self { parallel: false, background: true, ..Self::of(options, Tier::Optimised) }
    }

    /// Limits the resources of this process, and compiles all of `input` into `output`.
    ///
    /// The limits last as long as the process, which must do nothing else. On Linux it also ends with the
    /// thread that started it.
    ///
    /// # Errors
    /// The limits cannot be set, or a stream breaks.
    pub fn run(&self, input: &mut dyn Read, output: &mut dyn Write) -> io::Result<CompilerExit> {
        self.set_limits()?;
        let engine = wasmtime::Engine::new(&config(self.tier, self.parallel)).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        // The panic message is part of the answer, and must not reach the log of the parent process.
        std::panic::set_hook(Box::new(|_| ()));
        let (ended, answer) = match precompile(&engine, &bytes) {
            Ok(code) => (CompilerExit::Compiled, code),
            Err(PrecompileError::Refused(error)) if error.is::<OutOfMemory>() => return Ok(CompilerExit::NoMemory),
            Err(PrecompileError::Refused(error)) => {
                (CompilerExit::Malformed, cut(format!("{error:#}"), REASON_BYTES_MAX).into_bytes())
            }
            Err(PrecompileError::GaveUp(reason)) => (CompilerExit::GaveUp, reason.into_bytes()),
        };
        output.write_all(&answer)?;
        output.flush()?;
        Ok(ended)
    }

    /// Sets every limit that safe code can set.
    fn set_limits(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // If the system refuses the score, the kernel chooses its victim as usual.
            drop(std::fs::write("/proc/self/oom_score_adj", FIRST_TO_GO));
        }
        rustix::process::nice(if self.background { BACKGROUND_NICENESS } else { NICENESS })?;
        let seconds = self.time.as_secs() + u64::from(self.time.subsec_nanos() > 0);
        let bounds = [
            (Resource::Data, self.memory_bytes_max, self.memory_bytes_max),
            // SIGXCPU at the soft limit reports the cause; SIGKILL at the hard limit cannot be survived.
            (Resource::Cpu, seconds, seconds + 1),
            (Resource::Core, 0, 0),
            (Resource::Fsize, 0, 0),
        ];
        for (resource, current, maximum) in bounds {
            setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?;
        }
        Ok(())
    }
}

/// The reason why there is no code.
pub(super) enum PrecompileError {
    /// The component is invalid.
    Refused(wasmtime::Error),
    /// The compiler panicked with this message.
    GaveUp(String),
}

/// Compiles a component, and catches panics of the compiler: these concern one component, and would happen
/// again with each attempt.
pub(super) fn precompile(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, PrecompileError> {
    // A compilation leaves no state except for its result.
    let result = catch_unwind(AssertUnwindSafe(|| engine.precompile_component(bytes)));
    match result {
        Ok(compiled) => compiled.map_err(PrecompileError::Refused),
        Err(panic) => Err(PrecompileError::GaveUp(panic_message(panic.as_ref()))),
    }
}

/// Returns the first line of a panic's message.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let line = text.and_then(|text| text.lines().next()).unwrap_or("the compiler panicked without a message");
    cut(line.to_owned(), REASON_BYTES_MAX)
}

impl fmt::Display for CompileTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for CompileTask {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}
