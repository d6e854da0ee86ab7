//! `wasi:config/store`: the settings of the manifest.

use super::answer;
use crate::bindings::config as wit;
use crate::call_context::State;
use crate::effect::{Answer, Effect};

impl wit::Host for State {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, wit::Error>> {
        let settings = self.settings(Some(key.clone())).await?;
        Ok(settings.map(|settings| settings.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)))
    }

    async fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, wit::Error>> {
        self.settings(None).await
    }
}

impl State {
    async fn settings(&mut self, key: Option<String>) -> wasmtime::Result<Result<Vec<(String, String)>, wit::Error>> {
        match self.context.perform(Effect::Config { key }).await? {
            Answer::Done(Err(error)) => Ok(Err(wit::Error::Upstream(error.to_string()))),
            answer => Ok(Ok(answer!(answer, Config))),
        }
    }
}
