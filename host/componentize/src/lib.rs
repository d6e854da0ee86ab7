//! Makes components of core modules, for languages whose compilers stop at a core module: C and Go with WASI preview 1,
//! and Rust without WASI.
//!
//! Deliberately absent: compilers, and the knowledge of a language.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The files of the contract between a guest and its host, each with its path below `wit`.
pub const CONTRACT: [(&str, &str); 5] = [
    ("deps/wasi-config/store.wit", include_str!("../../../wit/deps/wasi-config/store.wit")),
    ("guest.wit", include_str!("../../../wit/guest.wit")),
    ("host.wit", include_str!("../../../wit/host.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("world.wit", include_str!("../../../wit/world.wit")),
];

/// The adapter from WASI preview 1 to WASI 0.2, for modules that the host calls many times.
const ADAPTER: &[u8] = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
const ADAPTER_NAME: &str = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME;

/// Why a core module cannot become a component.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder with the contract cannot be read, or its text is invalid.
    #[error("the contract in {folder} cannot be read: {message}")]
    Contract {
        /// The folder.
        folder: String,
        /// The reason, with file and line if the text is invalid.
        message: String,
    },
    /// The contract has no such world.
    #[error("the contract has no world `{world}`")]
    World {
        /// The name of the world.
        world: String,
    },
    /// The module does not fit the world: it lacks an export, or imports what the world does not have.
    #[error("the module does not fit the world `{world}`: {message}")]
    Module {
        /// The name of the world.
        world: String,
        /// The reason.
        message: String,
    },
    /// The module does not fit the type in it: it imports what the type does not have, as `env` or `wasi_snapshot_preview1`.
    #[error("the module does not fit its own component type: {message}")]
    OwnType {
        /// The reason.
        message: String,
    },
}

/// Returns the component of a core module for WASI preview 1, with the type `world` of the contract in the folder `wit`.
/// The adapter of preview 1 becomes a part of it if the module imports WASI.
///
/// # Errors
/// [`Error::Contract`] and [`Error::World`] for the folder, [`Error::Module`] for the module.
pub fn componentize(mut module: Vec<u8>, wit: &Path, world: &str) -> Result<Vec<u8>, Error> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .map_err(|error| Error::Contract { folder: wit.display().to_string(), message: format!("{error:#}") })?;
    let selected =
        resolve.select_world(&[package], Some(world)).map_err(|_| Error::World { world: world.to_owned() })?;
    let unfit = |message: String| Error::Module { world: world.to_owned(), message };
    embed_component_metadata(&mut module, &resolve, selected, StringEncoding::UTF8)
        .map_err(|error| unfit(format!("{error:#}")))?;
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|encoder| encoder.adapter(ADAPTER_NAME, ADAPTER))
        .and_then(|mut encoder| encoder.encode());
    encoded.map_err(|error| unfit(format!("{error:#}")))
}

/// Returns the component of a core module without WASI that has its component type in custom sections, as the bindings
/// of the Rust SDK put it there.
///
/// # Errors
/// [`Error::OwnType`].
pub fn componentize_typed(module: &[u8]) -> Result<Vec<u8>, Error> {
    let encoded = ComponentEncoder::default().validate(true).module(module).and_then(|mut encoder| encoder.encode());
    encoded.map_err(|error| Error::OwnType { message: format!("{error:#}") })
}

#[cfg(test)]
mod tests;
