//! The host as this crate calls it: the imports of the component, or in a native test the [`Host`] of the test.

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use crate::bindings::imports::homeostat::reconciler::stderr;
#[cfg(target_family = "wasm")]
pub use crate::bindings::imports::{
    homeostat::reconciler::{events, log, queue, store, watches},
    wasi::config::store as config,
};

#[cfg(not(target_family = "wasm"))]
mod native;

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::now;
#[cfg(not(target_family = "wasm"))]
pub use native::{Host, config, events, log, queue, store, watches, with_host};
