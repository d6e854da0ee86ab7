//! Components as they travel: artifacts in registries, signatures inside components, and what a component says of where it is from.
//!
//! [`Registry`] pulls and pushes components as OCI artifacts; what it has pulled is kept in a folder and checked again when it is read.
//! [`sign`], [`verify`] and [`Policy`] are about who vouches for a component, wherever its bytes come from. [`Origin`] reads what made it.
//!
//! Absent on purpose: what a component does, running one, and the environment: who calls says where files of credentials are.

mod artifact;
mod cache;
mod challenge;
mod credentials;
mod error;
mod keys;
mod origin;
mod policy;
mod reference;
mod registry;
mod session;
mod signature;
mod wasm;

pub use artifact::{COMPONENT_BYTES_MAX, MANIFEST_BYTES_MAX, Manifest};
pub use cache::CACHE_BYTES_MAX;
pub use error::Error;
pub use homeostat_digest::Digest;
pub use keys::{PublicKey, SecretKey};
pub use origin::{Origin, Package};
pub use policy::{Policy, TrustedKey};
pub use reference::Reference;
pub use registry::{DEADLINE, FetchedComponent, Options, Registry};
pub use signature::{key_ids, sign, verify};
