//! `homeostat:reconciler/log`: the controller's log.

use crate::bindings::log as wit;
use crate::call_context::State;
use crate::effect::{Effect, Level};
use crate::limits::contract::{
    LOG_FIELD_NAME_BYTES_MAX, LOG_FIELD_VALUE_BYTES_MAX, LOG_FIELDS_MAX, LOG_MESSAGE_BYTES_MAX,
};
use crate::limits::cut;

impl wit::Host for State {
    async fn write(
        &mut self,
        level: wit::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            wit::Level::Trace => Level::Trace,
            wit::Level::Debug => Level::Debug,
            wit::Level::Info => Level::Info,
            wit::Level::Warn => Level::Warn,
            wit::Level::Error => Level::Error,
        };
        let (message, fields) = (cut(message, LOG_MESSAGE_BYTES_MAX), bounded(fields));
        self.context.log(Effect::Log { level, message, fields }).await
    }
}

/// Drops surplus fields, and cuts the others.
fn bounded(fields: Vec<(String, String)>) -> Vec<(String, String)> {
    let kept = fields.into_iter().take(LOG_FIELDS_MAX);
    kept.map(|(name, value)| (cut(name, LOG_FIELD_NAME_BYTES_MAX), cut(value, LOG_FIELD_VALUE_BYTES_MAX))).collect()
}

#[cfg(test)]
mod tests;
