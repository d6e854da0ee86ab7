//! The resource that a write is about.

use crate::Kind;

/// The resource that a write is about, as far as it is known before the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name; `None` when the store will generate it.
    pub name: Option<String>,
}
