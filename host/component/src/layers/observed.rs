//! Observes the accesses of a controller and their denials, and changes nothing.
//!
//! Belongs directly around [`super::Granted`], to distinguish its refusals from other failures.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, Effects, HttpError, StoreError};
use crate::grants::{AccessRequest, Attempt, Capability, Needs};

/// Receives every denial, while the guest waits. Implementations must not block.
pub trait DenialObserver: Send + Sync + 'static {
    /// Receives one denial. `missing` names the missing grant, with the lines that would grant it. It names
    /// no resource, so that it is the same for all resources of a kind and a namespace.
    fn denied(&self, call: &Call, capability: Capability, missing: &str);
}

/// Records attempted accesses, and reports denials.
pub struct Observed<E> {
    needs: Arc<Needs>,
    witness: Arc<dyn DenialObserver>,
    inner: E,
}

impl<E: Effects> Observed<E> {
    /// Observes the effects that go to `inner`. Several layers may share one record: for example the layers
    /// of a controller's earlier versions.
    pub fn new(needs: Arc<Needs>, witness: Arc<dyn DenialObserver>, inner: E) -> Self {
        Self { needs, witness, inner }
    }
}

#[async_trait]
impl<E: Effects> Effects for Observed<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        // A document without a valid target cannot be matched with a grant; it is refused as invalid.
        let Ok(ask) = Attempt::of(&effect) else { return self.inner.perform(call, effect).await };
        if ask == Attempt::Telemetry {
            return self.inner.perform(call, effect).await;
        }
        let beside = Attempt::beside(&effect);
        let answer = self.inner.perform(call, effect).await;
        let denial = denial(&answer);
        self.needs.record(&ask, denial.is_some());
        // If all alternatives are missing, one is proposed; if some are granted, they are kept.
        for other in beside.iter().take(if denial.is_some() { 1 } else { beside.len() }) {
            self.needs.record(other, denial.is_some());
        }
        if let (Some(text), Some(capability)) = (denial, ask.capability()) {
            self.witness.denied(call, capability, &without_name(&ask, text));
        }
        answer
    }
}

/// Returns a denial without the name of the resource, if it stems from the missing grant, so that equal
/// denials become one event.
fn without_name<'a>(ask: &Attempt, text: &'a str) -> Cow<'a, str> {
    match ask.request() {
        Some(request) if request.missing() == text => AccessRequest { name: None, ..request }.missing().into(),
        _ => text.into(),
    }
}

fn denial(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Resource(Err(StoreError::Forbidden(text)))
        | Answer::Page(Err(StoreError::Forbidden(text)))
        | Answer::Written(Err(StoreError::Forbidden(text)))
        | Answer::Done(Err(StoreError::Forbidden(text)))
        | Answer::Http(Err(HttpError::Forbidden(text))) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
