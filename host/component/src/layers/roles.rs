//! Refuses writes to the kinds that the component itself says it only reads: those of its watches with the role `tertiary`.
//!
//! Stands outside of [`super::Granted`], so that no grant lets through what the role refuses, and what is refused here is no need of a
//! grant. Deliberately absent: a role of the managed kind, which a controller may write as its grants say.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Kind, Write};

use super::DenialObserver;
use crate::effect::{Answer, Call, Effect, Effects, StoreError};
use crate::grants::Attempt;
use crate::spec::{ControllerSpec, Role};

/// Lets everything pass but writes to kinds that are read only.
pub struct Roles<E> {
    /// Of each kind that is read only: the name of the watch that says so.
    read_only: Vec<(Kind, Arc<str>)>,
    witness: Arc<dyn DenialObserver>,
    inner: E,
}

impl<E: Effects> Roles<E> {
    /// Puts the roles that `spec` declares before `inner`.
    pub fn new(spec: &ControllerSpec, witness: Arc<dyn DenialObserver>, inner: E) -> Self {
        let tertiary = spec.watches.iter().filter(|watch| watch.role == Role::Tertiary);
        let read_only = tertiary.map(|watch| (watch.of.kind.clone(), watch.name.as_str().into())).collect();
        Self { read_only, witness, inner }
    }

    /// Returns why a write is refused; `None`: it is not. What a document does not say is refused as invalid further in.
    fn refusal(&self, write: &Write) -> Option<String> {
        if self.read_only.is_empty() {
            return None;
        }
        let target = write.target().ok()?;
        let (kind, watch) = self.read_only.iter().find(|(kind, _)| kind.same_type(&target.kind))?;
        Some(format!(
            "the component only reads {kind}: its watch {watch:?} has the role `tertiary`, and no grant lets it write that kind; \
             a component that writes it declares the watch `secondary`"
        ))
    }
}

#[async_trait]
impl<E: Effects> Effects for Roles<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let refusal = match &effect {
            Effect::Write(write) => self.refusal(write),
            _ => None,
        };
        let Some(refusal) = refusal else { return self.inner.perform(call, effect).await };
        if let Some(capability) = Attempt::of(&effect).ok().and_then(|ask| ask.capability()) {
            self.witness.denied(call, capability, &refusal);
        }
        Answer::Written(Err(StoreError::Forbidden(refusal)))
    }
}

#[cfg(test)]
mod tests;
