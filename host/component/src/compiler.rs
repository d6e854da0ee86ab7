//! Compilation: in separate, bounded processes if a compiler program is configured; two at once at most, and one
//! in the background.
//!
//! A component is untrusted input, and it determines the time and memory of its compilation. A separate
//! process enforces the bounds of a [`CompileTask`], and a compiler that crashes takes nothing else down. The
//! host runs the code that the process writes, so an attacker who takes over the compiler controls the host.
//! The returned bytes are therefore trusted exactly as far as a compiler in the host's own process. The
//! separate process buys bounds, not a second wall around code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::LimitName;
use crate::load_error::Reason;

mod child;
mod process;

pub use child::{CompileTask, CompilerExit};

/// Concurrent compilations: while one uses all of its time, the other slot stays available.
pub(crate) const AT_ONCE: usize = 2;

/// A program that compiles one component, in a process of its own for each.
///
/// The host starts it with `arguments`, a [`CompileTask`] as text, only the variables of `environment`, and a
/// process group of its own. The program reads the component from standard input until its end, and answers
/// as [`CompileTask::run`] does, which it calls before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compiler {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// The arguments before the task.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Its whole environment, for example settings of its allocator.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// The numbers of an engine's compilations, by result. Components read from the cache are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompilationCounts {
    /// Successful compilations.
    pub good: u64,
    /// Components that are malformed, or need unsupported features.
    pub malformed: u64,
    /// Compilations that hit the limit `compile-time`.
    pub time: u64,
    /// Compilations that hit the limit `compile-memory`.
    pub memory: u64,
    /// Compilations without a result.
    pub failed: u64,
}

/// Code as written by a compiler of this crate, and by nothing else.
pub(crate) struct CompiledCode(Vec<u8>);

impl CompiledCode {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The compilations of an engine: permits for running ones, and counts of finished ones.
pub(crate) struct Compilations {
    permits: Arc<Semaphore>,
    good: AtomicU64,
    malformed: AtomicU64,
    time: AtomicU64,
    memory: AtomicU64,
    failed: AtomicU64,
}

impl Default for Compilations {
    fn default() -> Self {
        let count = AtomicU64::default;
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { permits: places, good: count(), malformed: count(), time: count(), memory: count(), failed: count() }
    }
}

impl Compilations {
    /// Waits for a permit to compile. The compilation counts as running until the permit is dropped.
    pub(crate) async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.permits).acquire_owned().await.expect("nobody closes it")
    }

    pub(crate) fn counts(&self) -> CompilationCounts {
        let Self { permits: _, good, malformed, time, memory, failed } = self;
        let [good, malformed, time, memory, failed] =
            [good, malformed, time, memory, failed].map(|count| count.load(Ordering::Relaxed));
        CompilationCounts { good, malformed, time, memory, failed }
    }

    fn count(&self, result: &Result<CompiledCode, Reason>) {
        let count = match result {
            Ok(_) => &self.good,
            Err(Reason::Limit { limit: LimitName::CompileTime, .. }) => &self.time,
            Err(Reason::Limit { .. }) => &self.memory,
            Err(Reason::Malformed { .. } | Reason::Unsupported { .. }) => &self.malformed,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Compiles a component for `own`, an engine of the task's tier, and counts the result. Blocks: call it on a
    /// thread for blocking work, with a permit.
    ///
    /// # Errors
    /// `Malformed`, `Unsupported`, `Limit`, `Compiler`.
    pub(crate) fn compile(
        &self,
        compiler: Option<&Compiler>,
        task: &CompileTask,
        own: &wasmtime::Engine,
        bytes: &[u8],
    ) -> Result<CompiledCode, Reason> {
        let made = self.compile_while_used(compiler, task, own, bytes, std::future::pending());
        made.expect("only a compilation without users ends early")
    }

    /// As [`Compilations::compile`]. Returns `None` if `unused` ended before the compilation; a compilation in
    /// this process runs to its end nevertheless.
    pub(crate) fn compile_while_used(
        &self,
        compiler: Option<&Compiler>,
        task: &CompileTask,
        own: &wasmtime::Engine,
        bytes: &[u8],
        unused: impl Future<Output = ()>,
    ) -> Option<Result<CompiledCode, Reason>> {
        let made = match compiler {
            Some(compiler) => process::run(compiler, task, bytes, unused).transpose()?,
            None => child::precompile(own, bytes).map_err(|failed| match failed {
                child::PrecompileError::Refused(error) => Reason::Malformed { reason: format!("{error:#}") },
                child::PrecompileError::GaveUp(reason) => Reason::Unsupported { needs: reason },
            }),
        };
        let made = made.map(CompiledCode).map_err(|reason| match reason {
            Reason::Malformed { reason } => Reason::explain(bytes, reason),
            other => other,
        });
        self.count(&made);
        Some(made)
    }
}

#[cfg(test)]
mod tests;
