//! One virtual machine with its clock.

use wasmtime::Config;
use wasmtime::component::Linker;

use crate::error::Error;
use crate::imports;
use crate::state::State;
use crate::ticker::Ticker;

/// One wasmtime engine with everything that is linked for its components, and its clock.
pub(crate) struct Machine {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    /// `None` when guests are not interrupted.
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
