//! The basic types of the store: kind, key, revision, resource, and the target of a write.

mod document_head;
mod key;
mod kind;
mod owner;
mod packed_text;
mod resource;
mod revision;
mod revision_slot;
mod target;
#[cfg(test)]
mod tests;
mod version_rank;

pub use key::Key;
pub(crate) use key::{Path, decode, encode, owner_prefix};
pub use kind::Kind;
pub(crate) use owner::OwnerNote;
pub use owner::{FarOwner, OWNER_ANNOTATION, OWNER_KEY, OWNER_KIND, OWNER_LABEL, OwnerReference};
pub(crate) use packed_text::PackedText;
pub use resource::{Resource, View};
pub(crate) use resource::{finalizers, grace_seconds, holds_content, is_held, is_namespace};
pub use revision::Revision;
pub use target::Target;
pub use version_rank::VersionRank;
