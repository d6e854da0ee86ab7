//! Sees what a controller asks for and what is denied, and changes nothing.
//!
//! Belongs right around [`super::Granted`], whose refusals it tells apart from other failures.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, Effects, HttpError, StoreError};
use crate::grants::{AccessRequest, Attempt, Capability, Needs};

/// Told of every denial, while the guest waits. Must not wait.
pub trait DenialObserver: Send + Sync + 'static {
    /// Takes note of one. `missing` says which grant is missing, with the lines that would grant it; it names no resource, so that it
    /// is the same for all of a kind and a namespace.
    fn denied(&self, call: &Call, capability: Capability, missing: &str);
}

/// Keeps what is asked for, and tells what is denied.
pub struct Observed<E> {
    needs: Arc<Needs>,
    witness: Arc<dyn DenialObserver>,
    inner: E,
}

impl<E: Effects> Observed<E> {
    /// Looks at what goes to `inner`. The needs may be those of other layers as well: of the ones before it, under the same name.
    pub fn new(needs: Arc<Needs>, witness: Arc<dyn DenialObserver>, inner: E) -> Self {
        Self { needs, witness, inner }
    }
}

#[async_trait]
impl<E: Effects> Effects for Observed<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        // What a document does not say nobody can be granted; it is refused as invalid.
        let Ok(ask) = Attempt::of(&effect) else { return self.inner.perform(call, effect).await };
        if ask == Attempt::Telemetry {
            return self.inner.perform(call, effect).await;
        }
        let beside = Attempt::beside(&effect);
        let answer = self.inner.perform(call, effect).await;
        let denial = denial(&answer);
        self.needs.record(&ask, denial.is_some());
        // Of several that are enough, one is proposed where all are missing, and what is granted is kept.
        for other in beside.iter().take(if denial.is_some() { 1 } else { beside.len() }) {
            self.needs.record(other, denial.is_some());
        }
        if let (Some(text), Some(capability)) = (denial, ask.capability()) {
            self.witness.denied(call, capability, &without_name(&ask, text));
        }
        answer
    }
}

/// Returns a denial without the name of the resource, where it is for want of the grant that was asked for: equal ones are one event.
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
