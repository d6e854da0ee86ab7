//! `wasi:config/store`: the settings that the manifest gives.

use super::answer;
use crate::bindings::config as wit;
use crate::effect::Effect;
use crate::state::State;

impl wit::Host for State {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, wit::Error>> {
        let settings = answer!(self.port.perform(Effect::Config { key: Some(key.clone()) }).await?, Config);
        Ok(Ok(settings.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)))
    }

    async fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, wit::Error>> {
        Ok(Ok(answer!(self.port.perform(Effect::Config { key: None }).await?, Config)))
    }
}
