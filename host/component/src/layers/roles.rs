//! Refuses writes to the kinds that the component declares as read-only: watches with the role `tertiary`.
//!
//! Lies outside of [`super::Granted`], so that no grant overrides a role, and a refused write is not recorded
//! as a need. Deliberately absent: a role of the managed kind, which a controller may write as its grants
//! allow.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Kind, Write};

use super::DenialObserver;
use crate::effect::{Answer, Call, Effect, Effects, StoreError};
use crate::grants::Attempt;
use crate::spec::{ControllerSpec, Role};

/// Passes on everything except writes to read-only kinds.
pub struct Roles<E> {
    /// Read-only kinds, each with the name of the watch that declares it.
    read_only: Vec<(Kind, Arc<str>)>,
    witness: Arc<dyn DenialObserver>,
    inner: E,
}

impl<E: Effects> Roles<E> {
    /// Enforces the roles that `spec` declares before `inner`.
    pub fn new(spec: &ControllerSpec, witness: Arc<dyn DenialObserver>, inner: E) -> Self {
        let tertiary = spec.watches.iter().filter(|watch| watch.role == Role::Tertiary);
        let read_only = tertiary.map(|watch| (watch.of.kind.clone(), watch.name.as_str().into())).collect();
        Self { read_only, witness, inner }
    }

    /// Returns the reason why a write is refused, if it is. A document without a valid target is refused as
    /// invalid by inner layers.
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
