//! Replaces baseline code by optimised code, one component at a time, while calls run.

use std::convert::Infallible;
use std::time::Instant;

use tokio::sync::oneshot;

use super::compile::{self, blocking};
use crate::engine::Engine;
use crate::optimiser::Job;

impl Engine {
    /// Compiles optimised code for the components that run baseline code, and replaces it, as long as it is
    /// polled; it never returns. One component is compiled at a time, on one processor, and every other process comes
    /// first.
    ///
    /// Running calls end on the code that they began with. Digest, description and limits stay the same. A component
    /// whose optimised code exceeds a limit of compilation keeps its baseline code, and the log warns.
    ///
    /// *Cancel safety*: safe; the component that is being compiled keeps its baseline code.
    pub async fn optimise(&self) -> Infallible {
        loop {
            optimise(self, self.optimiser().next().await).await;
        }
    }
}

async fn optimise(engine: &Engine, job: Job) {
    let Job { digest, bytes, code, use_end, .. } = job;
    let start = Instant::now();
    // Dropped with this future, which ends the compilation.
    let (polled, stopped) = oneshot::channel::<()>();
    let (used, name) = (engine.clone(), digest.clone());
    let compiled = blocking(move || {
        let unneeded = async {
            tokio::select! {
                () = use_end.wait() => {}
                _ = stopped => {}
            }
        };
        compile::optimise(&used, &name, &bytes, unneeded)
    });
    let compiled = compiled.await.unwrap_or_else(|failed| Some(Err(failed)));
    drop(polled);
    let (Some(tiered), Some(compiled)) = (code.upgrade(), compiled) else { return };
    match compiled {
        Ok(code) => {
            tiered.replace(code);
            engine.codes().notify_loaded();
            compile::forget_baseline(engine, &digest);
            tracing::info!(%digest, took = ?start.elapsed(), "optimised code replaced the baseline code of a component");
        }
        Err(reason) => {
            tracing::warn!(%digest, %reason, "a component keeps its baseline code, which runs slower");
            tiered.set_failed(reason.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
