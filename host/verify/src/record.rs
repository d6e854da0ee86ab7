//! Reconciles a key once and records its trace.

use std::sync::Arc;

use homeostat_component::layers::Recorder;
use homeostat_component::{CallSession, Component, Effects, Limits};
use homeostat_store::Key;

use crate::Trace;

/// Reconciles a key once on behalf of a controller, and records the trace.
///
/// # Panics
/// Never: the limits of the call bound what is recorded.
pub async fn record(
    component: &Component,
    controller: &Arc<str>,
    key: &Key,
    limits: &Limits,
    effects: Arc<dyn Effects>,
) -> Trace {
    let recorder = Arc::new(Recorder::new(effects));
    let result = component.reconcile(&mut CallSession::new(controller), key, limits, recorder.clone()).await.result;
    let exchanges = recorder.take().expect("within the limits of the call everything is kept");
    let (digest, controller, key) = (component.digest().to_string(), controller.to_string(), key.clone());
    Trace { digest, controller, key, exchanges, result }
}
