//! A layer that answers from a trace alone.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{Answer, Call, Component, Effect, Effects, Exchange, Limits};
use parking_lot::Mutex;

use crate::{Trace, record};

/// Answers each effect from the trace, as long as the guest makes the same effects in the same order.
///
/// At the first effect that differs from the trace, it gives an answer of the wrong kind, which ends the
/// guest as a trap: later effects would be meaningless.
pub struct Replay {
    left: Mutex<VecDeque<Exchange>>,
}

impl Replay {
    /// Returns a layer that answers from these exchanges.
    pub fn new(exchanges: impl IntoIterator<Item = Exchange>) -> Self {
        Self { left: Mutex::new(exchanges.into_iter().collect()) }
    }
}

#[async_trait]
impl Effects for Replay {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        let mut left = self.left.lock();
        match left.pop_front_if(|next| next.effect == effect) {
            Some(exchange) => exchange.answer,
            None => {
                left.clear();
                wrong_kind_for(&effect)
            }
        }
    }
}

fn wrong_kind_for(effect: &Effect) -> Answer {
    match effect {
        Effect::WallClock | Effect::MonotonicClock => Answer::Unit,
        _ => Answer::Nanoseconds(0),
    }
}

/// Reconciles the trace's key again, with the trace as the only source of answers, and returns the new trace.
///
/// [`difference`](crate::difference()) compares the two.
pub async fn replay(component: &Component, trace: &Trace, limits: &Limits) -> Trace {
    let controller = trace.controller.as_str().into();
    record(component, &controller, &trace.key, limits, Arc::new(Replay::new(trace.exchanges.clone()))).await
}
