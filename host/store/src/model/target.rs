//! The resource that a write is about.

use crate::Kind;

/// Which resource a write is about, as far as it can be known before the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty for kinds that live outside of namespaces.
    pub namespace: String,
    /// The name; `None` when the store will generate it.
    pub name: Option<String>,
}
