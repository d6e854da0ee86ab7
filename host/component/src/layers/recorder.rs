//! Records every effect of one call with its answer.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, Effects, Exchange};

/// Passes effects on to an inner layer, and records them with their answers. For one call at a time.
///
/// Effects that an outer layer answers are not recorded, nor are additions of inner layers: placed outside of
/// [`super::Headers`], it records no secret that the host adds.
pub struct Recorder<E> {
    inner: E,
    bytes_max: Option<u64>,
    kept: Mutex<ExchangeLog>,
}

#[derive(Default)]
struct ExchangeLog {
    exchanges: Vec<Exchange>,
    bytes: u64,
    /// There was more than may be recorded.
    is_torn: bool,
}

impl<E: Effects> Recorder<E> {
    /// Records the effects that go to `inner`. The limits of the call bound their number and bytes.
    pub fn new(inner: E) -> Self {
        Self { inner, bytes_max: None, kept: Mutex::default() }
    }

    /// Records at most this many bytes, as the limit `effect-bytes` counts them. Drops the whole record if
    /// there are more.
    pub fn within(bytes_max: u64, inner: E) -> Self {
        Self { bytes_max: Some(bytes_max), ..Self::new(inner) }
    }

    /// Takes the record since the last call, in the order of the answers; `None` if it exceeded its bound.
    pub fn take(&self) -> Option<Vec<Exchange>> {
        let ExchangeLog { exchanges, bytes: _, is_torn } = std::mem::take(&mut *self.kept());
        (!is_torn).then_some(exchanges)
    }

    fn record(&self, exchange: Exchange) {
        let mut kept = self.kept();
        kept.bytes += exchange.size_bytes();
        if kept.is_torn || self.bytes_max.is_some_and(|bytes_max| kept.bytes > bytes_max) {
            *kept = ExchangeLog { is_torn: true, ..ExchangeLog::default() };
        } else {
            kept.exchanges.push(exchange);
        }
    }

    fn is_torn(&self) -> bool {
        self.kept().is_torn
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, ExchangeLog> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl<E: Effects> Effects for Recorder<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        if self.is_torn() {
            return self.inner.perform(call, effect).await;
        }
        let answer = self.inner.perform(call, effect.clone()).await;
        self.record(Exchange { effect, answer: answer.clone() });
        answer
    }
}

#[cfg(test)]
mod tests;
