//! Compilation: in a process of its own where there is a program for it, within bounds, and two at once at most.
//!
//! A component is foreign, and a compiler takes as much time and memory as its input makes it take. In a process of its own it takes so
//! much and no more ([`CompileTask`]), and one that crashes takes nothing along. What it writes is code, which the host runs: whoever takes that
//! process over can make the host run whatever they like. So the bytes that come back are trusted as far as the compiler itself, and no
//! further than in the host's own process; what is gained is bounds, not a second wall around code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::LimitName;
use crate::options::EngineOptions;
use crate::refused::Reason;

mod child;
mod process;

pub use child::{CompileTask, CompilerExit};

/// Compilations at once: one that takes all the time that it may leaves room for the others.
pub(crate) const AT_ONCE: usize = 2;

/// A program that compiles what it reads, in a process of its own for each component.
///
/// It is started with `arguments` and a [`CompileTask`] in its form as text, with `environment` and no other, and in a process group of its own. It reads the
/// component from standard input to its end, and answers as [`CompileTask::run`] does, which such a program calls first of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compiler {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// What stands before the task on its command line.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// All of its environment, as a setting of its allocator may need.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// What has come of all compilations of an engine. What was taken from the cache is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompilationCounts {
    /// Those that made code.
    pub good: u64,
    /// Components that are malformed, or need what is not offered.
    pub malformed: u64,
    /// Those that hit the limit `compile-time`.
    pub time: u64,
    /// Those that hit the limit `compile-memory`.
    pub memory: u64,
    /// Those that came to no answer.
    pub failed: u64,
}

/// Code as a compiler of this room wrote it, and nothing else.
pub(crate) struct CompiledCode(Vec<u8>);

impl CompiledCode {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The compilations of an engine: how many run, and what came of those before.
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
    /// Waits until one more may run. It runs until the permit is dropped.
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

    /// Compiles a component, and counts what came of it. Takes its time: for threads that may block, with a permit.
    ///
    /// # Errors
    /// `Malformed`, `Unsupported`, `Limit`, `Compiler`.
    pub(crate) fn compile(
        &self,
        options: &EngineOptions,
        own: &wasmtime::Engine,
        bytes: &[u8],
    ) -> Result<CompiledCode, Reason> {
        let made = match &options.compiler {
            Some(compiler) => process::run(compiler, &CompileTask::of(options), bytes),
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
        made
    }
}

#[cfg(test)]
mod tests;
