//! `homeostat:reconciler/log`: the controller's log.

use crate::bindings::log as wit;
use crate::effect::{Effect, Level};
use crate::limits::contract::{LOG_FIELDS_MAX, LOG_MESSAGE_BYTES_MAX};
use crate::limits::cut;
use crate::state::State;

impl wit::Host for State {
    async fn write(
        &mut self,
        level: wit::Level,
        message: String,
        mut fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            wit::Level::Trace => Level::Trace,
            wit::Level::Debug => Level::Debug,
            wit::Level::Info => Level::Info,
            wit::Level::Warn => Level::Warn,
            wit::Level::Error => Level::Error,
        };
        fields.truncate(LOG_FIELDS_MAX);
        self.port.log(Effect::Log { level, message: cut(message, LOG_MESSAGE_BYTES_MAX), fields }).await
    }
}
