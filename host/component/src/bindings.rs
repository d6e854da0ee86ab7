//! Rust types of the contract in `wit/`, generated at build time. This module contains no host logic.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "made by bindgen! from wit/, where the documentation is")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "homeostat:reconciler/everything",
    imports: { default: async | trappable },
    exports: { default: async },
});

pub(crate) use exports::homeostat::reconciler::{converter, lifecycle, mapper, poller, reconciler};
pub(crate) use homeostat::reconciler::{events, log, queue, stderr, store, types, watches};
pub(crate) use wasi::config::store as config;
