//! Counts a call's effects by class, and their bytes in both directions.
//!
//! Each call has its own, which starts at zero. It refuses nothing, and knows no limits: effects stopped by a
//! limit do not reach it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, EffectClass, Effects};
use crate::outcome::EffectCounts;

/// Counts effects and bytes in both directions.
pub(crate) struct EffectCounter<E> {
    /// In the order of [`EffectClass::ALL`].
    counts: [AtomicU32; EffectClass::ALL.len()],
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    inner: E,
}

/// The counts so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EffectTotals {
    pub(crate) effects: EffectCounts,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
}

impl<E> EffectCounter<E> {
    /// Counts the effects of one call that go to `inner`.
    pub(crate) fn new(inner: E) -> Self {
        let counts = std::array::from_fn(|_| AtomicU32::new(0));
        Self { counts, bytes_out: AtomicU64::new(0), bytes_in: AtomicU64::new(0), inner }
    }

    /// Returns the counts so far.
    pub(crate) fn totals(&self) -> EffectTotals {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed);
        EffectTotals {
            effects: EffectCounts::new(counts),
            bytes_out: bytes(&self.bytes_out),
            bytes_in: bytes(&self.bytes_in),
        }
    }
}

#[async_trait]
impl<E: Effects> Effects for EffectCounter<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        self.counts[effect.class() as usize].fetch_add(1, Ordering::Relaxed);
        self.bytes_out.fetch_add(effect.size_bytes(), Ordering::Relaxed);
        let answer = self.inner.perform(call, effect).await;
        self.bytes_in.fetch_add(answer.size_bytes(), Ordering::Relaxed);
        answer
    }
}

#[cfg(test)]
mod tests;
