//! `homeostat:reconciler/events`: events for people.

use super::store;
use crate::bindings::{events as wit, types};
use crate::call_context::State;
use crate::effect::{Effect, Severity};
use crate::limits::contract::{EVENT_MESSAGE_BYTES_MAX, EVENT_REASON_BYTES_MAX};
use crate::limits::cut;

impl wit::Host for State {
    async fn emit(
        &mut self,
        severity: wit::Severity,
        reason: String,
        message: String,
        regarding: Option<types::Key>,
    ) -> wasmtime::Result<()> {
        let severity = match severity {
            wit::Severity::Normal => Severity::Normal,
            wit::Severity::Warning => Severity::Warning,
        };
        let effect = Effect::Emit {
            severity,
            reason: cut(reason, EVENT_REASON_BYTES_MAX),
            message: cut(message, EVENT_MESSAGE_BYTES_MAX),
            // The function has no error: an event about a malformed key is about the key of the call.
            regarding: regarding.and_then(|key| store::from_key(key).ok()),
        };
        self.context.perform(effect).await.map(drop)
    }
}
