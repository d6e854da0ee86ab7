//! Ends a call at its limits of effects, writes, events, follows, and bytes, and counts what passes: effects
//! by class, and bytes in both directions.
//!
//! Each call has its own, which starts at zero. Memory, time, stack and handles are no effects, and are
//! checked where they grow. Log lines are charged when they are written ([`Limited::charge_log`]), because
//! standard output is buffered before it becomes an effect.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, EffectClass, Effects, StoreError};
use crate::limits::LimitName;
use crate::limits::{Limits, contract};
use crate::outcome::EffectCounts;

/// Passes on effects within the limits and counts them, and answers [`Answer::Limit`] to the rest, which it
/// does not count.
pub(crate) struct Limited<E> {
    limits: Limits,
    effects: AtomicU32,
    writes: AtomicU32,
    events: AtomicU32,
    follows: AtomicU32,
    effect_bytes: AtomicU64,
    log_bytes: AtomicU64,
    log_lines: AtomicU32,
    /// The effects that passed, in the order of [`EffectClass::ALL`].
    passed: [AtomicU32; EffectClass::ALL.len()],
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    inner: E,
}

/// The effects that passed so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EffectTotals {
    pub(crate) effects: EffectCounts,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
}

/// A limit that stopped a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LimitHit {
    pub(crate) limit: LimitName,
    pub(crate) message: String,
}

impl<E> Limited<E> {
    /// Applies the limits of one call before `inner`.
    pub(crate) fn new(limits: Limits, inner: E) -> Self {
        Self {
            limits,
            effects: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            events: AtomicU32::new(0),
            follows: AtomicU32::new(0),
            effect_bytes: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            log_lines: AtomicU32::new(0),
            passed: std::array::from_fn(|_| AtomicU32::new(0)),
            bytes_out: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            inner,
        }
    }

    /// Returns the counts so far.
    pub(crate) fn totals(&self) -> EffectTotals {
        let counts = self.passed.each_ref().map(|count| count.load(Ordering::Relaxed));
        EffectTotals {
            effects: EffectCounts::new(counts),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
        }
    }

    /// Charges bytes and lines of the log, from any source.
    pub(crate) fn charge_log(&self, bytes: u64, lines: u32) -> Result<(), LimitHit> {
        charge(&self.log_lines, lines, LimitName::LogLines, self.limits.log_lines_max, "lines of log")?;
        let bytes_max = self.limits.log_bytes_max;
        charge_bytes(&self.log_bytes, bytes, bytes_max)
            .map_err(|()| LimitHit::new(LimitName::LogBytes, format!("more than {bytes_max} bytes of log in one call")))
    }

    /// Counts one more effect. A log line is not counted.
    fn charge_effect(&self, effect: &Effect) -> Result<(), LimitHit> {
        let Limits { effects_max, writes_max, events_max, .. } = self.limits;
        if !matches!(effect, Effect::Log { .. }) {
            charge(&self.effects, 1, LimitName::Effects, effects_max, "effects")?;
        }
        match effect {
            Effect::Write(_) => charge(&self.writes, 1, LimitName::Writes, writes_max, "writes to the store"),
            Effect::Emit { .. } => charge(&self.events, 1, LimitName::Events, events_max, "events"),
            _ => Ok(()),
        }
    }

    /// Counts the bytes of an effect or of its answer.
    fn charge_effect_bytes(&self, bytes: u64) -> Result<(), LimitHit> {
        let bytes_max = self.limits.effect_bytes_max;
        charge_bytes(&self.effect_bytes, bytes, bytes_max).map_err(|()| {
            let message = format!("the effects of one call and their answers carry more than {bytes_max} bytes");
            LimitHit::new(LimitName::EffectBytes, message)
        })
    }

    /// Counts the bytes of an answer, which the guest receives at once.
    fn charge_answer(&self, bytes: u64) -> Result<(), LimitHit> {
        let bytes_max = self.limits.transfer_bytes_max;
        if bytes > bytes_max {
            let message = format!("an answer to the guest has {bytes} bytes, {bytes_max} are allowed at once");
            return Err(LimitHit::new(LimitName::Transfer, message));
        }
        self.charge_effect_bytes(bytes)
    }

    /// Counts one more follow. Exceeding this limit does not end the call: the guest gets an error.
    fn refuse_follow(&self, effect: &Effect) -> Option<Answer> {
        let follows = matches!(effect, Effect::Follow { .. } | Effect::FollowAll { .. });
        if !follows || self.follows.fetch_add(1, Ordering::Relaxed) < contract::FOLLOWS_MAX {
            return None;
        }
        let message = format!("more than {} follows in one reconcile", contract::FOLLOWS_MAX);
        Some(Answer::Done(Err(StoreError::TooLarge(message))))
    }
}

impl LimitHit {
    fn new(limit: LimitName, message: String) -> Self {
        Self { limit, message }
    }
}

impl From<LimitHit> for Answer {
    fn from(LimitHit { limit, message }: LimitHit) -> Self {
        Self::Limit { limit, message }
    }
}

#[async_trait]
impl<E: Effects> Effects for Limited<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        if let Some(refused) = self.refuse_follow(&effect) {
            return refused;
        }
        let bytes_out = effect.size_bytes();
        if let Err(hit) = self.charge_effect(&effect).and_then(|()| self.charge_effect_bytes(bytes_out)) {
            return hit.into();
        }
        self.passed[effect.class() as usize].fetch_add(1, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
        let answer = self.inner.perform(call, effect).await;
        let bytes_in = answer.size_bytes();
        self.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.charge_answer(bytes_in).err().map_or(answer, Answer::from)
    }
}

/// Adds `more` to a count with the maximum `most`.
fn charge(count: &AtomicU32, more: u32, limit: LimitName, most: u32, what: &str) -> Result<(), LimitHit> {
    if count.fetch_add(more, Ordering::Relaxed).saturating_add(more) > most {
        return Err(LimitHit::new(limit, format!("more than {most} {what} in one call")));
    }
    Ok(())
}

fn charge_bytes(count: &AtomicU64, more: u64, most: u64) -> Result<(), ()> {
    if count.fetch_add(more, Ordering::Relaxed).saturating_add(more) > most { Err(()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
