//! The side of the process that compiles: it binds itself first, and then reads one component and writes its code.

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

/// How much later than others such a process is given a processor: guests and their host come first.
const NICENESS: i32 = 10;
/// Whom the system ends first when it has no memory left: this process.
#[cfg(target_os = "linux")]
const FIRST_TO_GO: &str = "1000";
/// Bytes of what is said about a malformed component. Cut above.
const REASON_BYTES_MAX: usize = 4096;

/// One compilation, and what it may take. Written as JSON on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompileTask {
    /// Time on processors, all of them together. Bound in whole seconds, rounded up.
    #[serde(rename = "timeMs", with = "millis")]
    pub time: Duration,
    /// Bytes of memory.
    pub memory_bytes_max: u64,
    /// Whether to use all processors.
    pub parallel: bool,
}

/// What came of a task. The process ends with [`CompilerExit::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompilerExit {
    /// The code was written.
    Compiled,
    /// The component is malformed; why was written instead, as text.
    Malformed,
    /// The compiler cannot go on with this component; where it stopped was written instead, as text.
    GaveUp,
    /// There was not enough memory. Most often the process is aborted instead.
    NoMemory,
}

impl CompilerExit {
    /// Returns the exit code that says so: 0, 65, 70 or 71.
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
    /// Returns what an engine with these options wants of its compiler.
    pub(super) fn of(options: &EngineOptions) -> Self {
        let EngineOptions { compile_time, compile_memory_bytes_max, parallel_compilation, .. } = options;
        Self { time: *compile_time, memory_bytes_max: *compile_memory_bytes_max, parallel: *parallel_compilation }
    }

    /// Binds this process, and compiles what `input` has to its end into `output`.
    ///
    /// The bounds stay with the process: nothing else is done in it before or after. On Linux it also ends with the thread that started it.
    ///
    /// # Errors
    /// The bounds cannot be set, or a stream breaks.
    pub fn run(&self, input: &mut dyn Read, output: &mut dyn Write) -> io::Result<CompilerExit> {
        self.set_limits()?;
        let engine = wasmtime::Engine::new(&config(self.parallel)).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        // What a panic says is an answer, and not for the log of whoever started this process.
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

    /// Sets every bound there is without leaving safe code.
    fn set_limits(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // Where the system does not take it, another process is chosen, as before.
            drop(std::fs::write("/proc/self/oom_score_adj", FIRST_TO_GO));
        }
        rustix::process::nice(NICENESS)?;
        let seconds = self.time.as_secs() + u64::from(self.time.subsec_nanos() > 0);
        let bounds = [
            (Resource::Data, self.memory_bytes_max, self.memory_bytes_max),
            // The signal of the first says why; nothing outlives the second.
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

/// Why there is no code.
pub(super) enum PrecompileError {
    /// The component is not as it should be.
    Refused(wasmtime::Error),
    /// The compiler panicked, and said this.
    GaveUp(String),
}

/// Compiles, and catches a compiler that panics: it does so for a component that it cannot compile, not for one try of it.
pub(super) fn precompile(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, PrecompileError> {
    // Nothing of a compilation outlives it but its result.
    let result = catch_unwind(AssertUnwindSafe(|| engine.precompile_component(bytes)));
    match result {
        Ok(compiled) => compiled.map_err(PrecompileError::Refused),
        Err(panic) => Err(PrecompileError::GaveUp(panic_message(panic.as_ref()))),
    }
}

/// Returns the first line of what a panic said.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let line = text.and_then(|text| text.lines().next()).unwrap_or("the compiler does not say what");
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
