//! The opening of one sandbox: every effect of one call passes here, is counted, and is handed to [`Effects`].
//!
//! Shared by the instance and by the HTTP requests that it has under way. Invariant: the first limit that is hit stays; a call that
//! hit one ends as that limit, whatever the guest answers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wasmtime::format_err;

use crate::effect::{Answer, Call, Effect, Effects, Level};
use crate::limits::{Limits, contract};
use crate::meter::Meter;
use crate::outcome::{Cost, LimitName};
use crate::output::Output;

/// What one call has used and may use, and where its effects go.
pub(crate) struct Port {
    pub(crate) call: Call,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    effects: Arc<dyn Effects>,
    effects_count: AtomicU32,
    writes: AtomicU32,
    events: AtomicU32,
    effect_bytes: AtomicU64,
    log_bytes: AtomicU64,
    log_lines: AtomicU32,
    memory_bytes_max: AtomicU64,
    follows: AtomicU32,
    hit: OnceLock<Hit>,
    output: Mutex<Output>,
}

/// A limit that stopped a call.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) limit: LimitName,
    pub(crate) message: String,
}

impl Port {
    pub(crate) fn new(call: Call, limits: &Limits, effects: Arc<dyn Effects>) -> Self {
        Self {
            call,
            limits: limits.clone(),
            meter: Meter::new(),
            effects,
            effects_count: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            events: AtomicU32::new(0),
            effect_bytes: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            log_lines: AtomicU32::new(0),
            memory_bytes_max: AtomicU64::new(0),
            follows: AtomicU32::new(0),
            hit: OnceLock::new(),
            output: Mutex::new(Output::default()),
        }
    }

    /// Performs one effect: what was written to standard output first, then this.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn perform(&self, effect: Effect) -> wasmtime::Result<Answer> {
        self.flush().await?;
        self.charge_effect(&effect)?;
        self.perform_free(effect).await
    }

    /// Writes one line into the log; counted as a line and by its bytes, not as an effect.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn log(&self, effect: Effect) -> wasmtime::Result<()> {
        self.flush().await?;
        self.charge_log(effect.size_bytes(), 1)?;
        self.perform_free(effect).await.map(drop)
    }

    /// Hands what was written to standard output and standard error so far to the log, line by line.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn flush(&self) -> wasmtime::Result<()> {
        loop {
            let line = self.output().next_line();
            let Some((level, message)) = line else { return Ok(()) };
            self.perform_free(Effect::Log { level, message, fields: Vec::new() }).await?;
        }
    }

    /// Ends the last line of standard output and standard error, and hands everything to the log.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn finish_output(&self) -> wasmtime::Result<()> {
        self.output().end();
        self.flush().await
    }

    /// Takes what the guest writes to standard output (`Info`) or standard error (`Warn`). A line counts when it is ended.
    ///
    /// # Errors
    /// The limit `log-bytes` or `log-lines` was hit. The error is a trap.
    pub(crate) fn write_output(&self, level: Level, bytes: &[u8]) -> wasmtime::Result<()> {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.charge_log(bytes.len() as u64, u32::try_from(lines).unwrap_or(u32::MAX))?;
        self.output().write(level, bytes, contract::LOG_MESSAGE_BYTES_MAX);
        Ok(())
    }

    /// Returns the last lines of standard error: what a guest said before it crashed.
    pub(crate) fn last_words(&self) -> String {
        self.output().last_words()
    }

    /// Counts one more follow; false when there are too many.
    pub(crate) fn may_follow(&self) -> bool {
        self.follows.fetch_add(1, Ordering::Relaxed) < contract::FOLLOWS_MAX
    }

    /// Remembers how much memory the guest has.
    pub(crate) fn note_memory(&self, bytes: u64) {
        self.memory_bytes_max.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Notes that a limit was hit, and returns the trap that ends the guest.
    pub(crate) fn hit(&self, limit: LimitName, message: String) -> wasmtime::Error {
        let error = format_err!("limit {limit}: {message}");
        // The first hit is the cause; later ones follow from it.
        drop(self.hit.set(Hit { limit, message }));
        error
    }

    /// Returns the limit that was hit first.
    pub(crate) fn first_hit(&self) -> Option<Hit> {
        self.hit.get().cloned()
    }

    /// Returns what the call has used so far.
    pub(crate) fn cost(&self) -> Cost {
        Cost {
            cpu: self.meter.spent(),
            wall: self.meter.wall(),
            memory_bytes_max: self.memory_bytes_max.load(Ordering::Relaxed),
            effects: self.effects_count.load(Ordering::Relaxed).min(self.limits.effects_max),
        }
    }

    /// Performs an effect without counting it as one; its bytes count.
    async fn perform_free(&self, effect: Effect) -> wasmtime::Result<Answer> {
        self.charge_bytes(effect.size_bytes())?;
        let answer = self.effects.perform(&self.call, effect).await;
        let (bytes, bytes_max) = (answer.size_bytes(), self.limits.transfer_bytes_max);
        if bytes > bytes_max {
            let message = format!("an answer to the guest has {bytes} bytes, {bytes_max} are allowed at once");
            return Err(self.hit(LimitName::Transfer, message));
        }
        self.charge_bytes(bytes)?;
        Ok(answer)
    }

    fn charge_effect(&self, effect: &Effect) -> wasmtime::Result<()> {
        let Limits { effects_max, writes_max, events_max, .. } = self.limits;
        self.charge(&self.effects_count, 1, LimitName::Effects, effects_max, "effects")?;
        match effect {
            Effect::Write(_) => self.charge(&self.writes, 1, LimitName::Writes, writes_max, "writes to the store"),
            Effect::Emit { .. } => self.charge(&self.events, 1, LimitName::Events, events_max, "events"),
            _ => Ok(()),
        }
    }

    /// Counts `more` things of which a call may have `most`.
    fn charge(&self, count: &AtomicU32, more: u32, limit: LimitName, most: u32, what: &str) -> wasmtime::Result<()> {
        if count.fetch_add(more, Ordering::Relaxed).saturating_add(more) > most {
            return Err(self.hit(limit, format!("more than {most} {what} in one call")));
        }
        Ok(())
    }

    fn charge_bytes(&self, bytes: u64) -> wasmtime::Result<()> {
        let bytes_max = self.limits.effect_bytes_max;
        if self.effect_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > bytes_max {
            let message = format!("the effects of one call and their answers carry more than {bytes_max} bytes");
            return Err(self.hit(LimitName::EffectBytes, message));
        }
        Ok(())
    }

    fn charge_log(&self, bytes: u64, lines: u32) -> wasmtime::Result<()> {
        self.charge(&self.log_lines, lines, LimitName::LogLines, self.limits.log_lines_max, "lines of log")?;
        let bytes_max = self.limits.log_bytes_max;
        if self.log_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > bytes_max {
            return Err(self.hit(LimitName::LogBytes, format!("more than {bytes_max} bytes of log in one call")));
        }
        Ok(())
    }

    fn output(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
