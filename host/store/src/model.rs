//! The basic types of the store: kind, key, revision, resource, and the target of a write.

mod key;
mod kind;
mod resource;
mod revision;
mod target;
#[cfg(test)]
mod tests;

pub use key::Key;
pub(crate) use key::{Path, owner_prefix};
pub use kind::Kind;
pub(crate) use resource::finalizers;
pub use resource::{OwnerReference, Resource, View};
pub use revision::Revision;
pub use target::Target;
