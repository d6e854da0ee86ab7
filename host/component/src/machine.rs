//! A wasmtime machine with its epoch clock.

use wasmtime::Config;
use wasmtime::component::Linker;

use crate::error::Error;
use crate::imports;
use crate::state::State;
use crate::ticker::Ticker;

/// A wasmtime engine with its linked imports and its epoch clock.
pub(crate) struct Machine {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    /// `None` if guests are not interrupted.
    pub(crate) ticker: Option<Ticker>,
}

impl Machine {
    pub(crate) fn start(config: &Config, preemption: bool) -> Result<Self, Error> {
        let engine = wasmtime::Engine::new(config).map_err(|error| Error::Engine(error.into()))?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker).map_err(|error| Error::Engine(error.into()))?;
        let ticker = preemption.then(|| Ticker::start(&engine)).transpose().map_err(Error::Ticker)?;
        Ok(Self { engine, linker, ticker })
    }
}
