//! The words of the store as types: kind, key, revision, resource.

mod key;
mod kind;
mod resource;
mod revision;
#[cfg(test)]
mod tests;

pub use key::Key;
pub(crate) use key::{Path, owner_prefix};
pub use kind::Kind;
pub(crate) use resource::finalizers;
pub use resource::{OwnerReference, Resource, View};
pub use revision::Revision;
