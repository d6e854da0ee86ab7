//! A layer that keeps every effect and its answer.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{Answer, Call, Component, Effect, Effects, Limits};

use homeostat_store::Key;
use parking_lot::Mutex;

use crate::{Exchange, Trace};

/// Passes effects on to an inner layer, and keeps what passed. For one call at a time.
pub struct Recorder {
    inner: Arc<dyn Effects>,
    exchanges: Mutex<Vec<Exchange>>,
}

impl Recorder {
    /// Wraps a layer.
    pub fn new(inner: Arc<dyn Effects>) -> Self {
        Self { inner, exchanges: Mutex::default() }
    }

    /// Takes what was recorded since the last time.
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.exchanges.lock())
    }
}

#[async_trait]
impl Effects for Recorder {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let answer = self.inner.perform(call, effect.clone()).await;
        let exchange = Exchange { effect, answer: answer.clone() };
        self.exchanges.lock().push(exchange);
        answer
    }
}

/// Reconciles a key once on behalf of a controller, and records it.
pub async fn record(
    component: &Component,
    controller: &Arc<str>,
    key: &Key,
    limits: &Limits,
    effects: Arc<dyn Effects>,
) -> Trace {
    let recorder = Arc::new(Recorder::new(effects));
    let result = component.reconcile(controller, key, limits, recorder.clone()).await.result;
    let (digest, controller, key) = (component.digest().to_string(), controller.to_string(), key.clone());
    Trace { digest, controller, key, exchanges: recorder.take(), result }
}
