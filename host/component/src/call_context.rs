//! The context of one call: every effect of the call passes through it on its way to the layers.
//!
//! The instance and its HTTP requests in flight share it. Invariant: the first limit that is hit is final; a
//! call that hit one ends with that limit, regardless of the guest's answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wasmtime::format_err;

use crate::effect::{Answer, Call, Effect, Effects, Level};
use crate::layers::{EffectCounter, EffectTotals, LimitHit, Limited};
use crate::limits::LimitName;
use crate::limits::{Limits, contract};
use crate::meter::Meter;
use crate::outcome::Cost;
use crate::output::Output;

/// The usage and limits of one call, and the destination of its effects.
pub(crate) struct CallContext {
    pub(crate) call: Call,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    /// The layers of this call, around those of its controller.
    effects: Limited<EffectCounter<Arc<dyn Effects>>>,
    memory_bytes_max: AtomicU64,
    hit: OnceLock<LimitHit>,
    output: Mutex<Output>,
}

impl CallContext {
    pub(crate) fn new(call: Call, limits: &Limits, effects: Arc<dyn Effects>) -> Self {
        Self {
            call,
            limits: limits.clone(),
            meter: Meter::new(),
            effects: Limited::new(limits.clone(), EffectCounter::new(effects)),
            memory_bytes_max: AtomicU64::new(0),
            hit: OnceLock::new(),
            output: Mutex::new(Output::default()),
        }
    }

    /// Flushes standard output and standard error, then performs one effect.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn perform(&self, effect: Effect) -> wasmtime::Result<Answer> {
        self.flush().await?;
        self.forward(effect).await
    }

    /// Writes one log line. It counts as a line and by its bytes, not as an effect.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn log(&self, effect: Effect) -> wasmtime::Result<()> {
        self.flush().await?;
        self.charge_log(effect.size_bytes(), 1)?;
        self.forward(effect).await.map(drop)
    }

    /// Passes the complete lines of standard output and standard error to the log.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn flush(&self) -> wasmtime::Result<()> {
        loop {
            let line = self.output().next_line();
            let Some((level, message)) = line else { return Ok(()) };
            self.forward(Effect::Log { level, message, fields: Vec::new() }).await?;
        }
    }

    /// Completes the last lines of standard output and standard error, and passes everything to the log.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn finish_output(&self) -> wasmtime::Result<()> {
        self.output().end();
        self.flush().await
    }

    /// Receives the guest's writes to standard output (`Info`) or standard error (`Warn`). A line is charged
    /// when it ends.
    ///
    /// # Errors
    /// The limit `log-bytes` or `log-lines` was hit. The error is a trap.
    pub(crate) fn write_output(&self, level: Level, bytes: &[u8]) -> wasmtime::Result<()> {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.charge_log(bytes.len() as u64, u32::try_from(lines).unwrap_or(u32::MAX))?;
        self.output().write(level, bytes, contract::LOG_MESSAGE_BYTES_MAX);
        Ok(())
    }

    /// Returns the last lines of standard error, to explain a crash.
    pub(crate) fn last_words(&self) -> String {
        self.output().last_words()
    }

    /// Records the guest's current memory, for its peak.
    pub(crate) fn record_memory(&self, bytes: u64) {
        self.memory_bytes_max.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Records that a limit was hit, and returns the trap that ends the guest.
    pub(crate) fn hit(&self, limit: LimitName, message: String) -> wasmtime::Error {
        let error = format_err!("limit {limit}: {message}");
        // The first limit hit is the cause; later ones follow from it.
        drop(self.hit.set(LimitHit { limit, message }));
        error
    }

    /// Returns the limit that was hit first.
    pub(crate) fn first_hit(&self) -> Option<LimitHit> {
        self.hit.get().cloned()
    }

    /// Returns the cost of the call so far.
    pub(crate) fn cost(&self) -> Cost {
        let EffectTotals { effects, bytes_out, bytes_in } = self.effects.inner().totals();
        Cost {
            cpu: self.meter.spent(),
            wall: self.meter.wall(),
            memory_bytes_max: self.memory_bytes_max.load(Ordering::Relaxed),
            effects,
            bytes_out,
            bytes_in,
        }
    }

    /// Passes an effect to the layers.
    async fn forward(&self, effect: Effect) -> wasmtime::Result<Answer> {
        match self.effects.perform(&self.call, effect).await {
            Answer::Limit { limit, message } => Err(self.hit(limit, message)),
            answer => Ok(answer),
        }
    }

    fn charge_log(&self, bytes: u64, lines: u32) -> wasmtime::Result<()> {
        self.effects.charge_log(bytes, lines).map_err(|LimitHit { limit, message }| self.hit(limit, message))
    }

    fn output(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
