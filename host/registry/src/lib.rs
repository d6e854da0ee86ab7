//! Components in transit: artifacts in registries, signatures inside components, and metadata about their
//! origin.
//!
//! [`Registry`] pulls and pushes components as OCI artifacts. Pulled blobs are cached in a folder, and
//! verified when they are read. [`sign`], [`verify`] and [`Policy`] decide which components are trusted,
//! independent of their source. [`Origin`] reads the tools and dependencies that a component states.
//!
//! Deliberately absent: the behaviour of components, running them, and reading the environment. The caller
//! says where credentials files are.

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
