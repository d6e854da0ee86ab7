//! A change of the number of replicas of a resource, where the server of a store knows which field has it.

use crate::{Error, Key, Precondition};

/// A change of the subresource `scale` of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleRequest {
    /// The resource.
    pub key: Key,
    /// The desired number of replicas.
    pub replicas: u64,
    /// The precondition of the write.
    pub precondition: Precondition,
    /// The manager that owns the field. 1 to 128 bytes of printable text.
    pub manager: String,
    /// Returns the result of the write without storing it.
    pub dry_run: bool,
}

/// Returns the error of a store whose server has no such subresource.
pub(crate) fn unsupported(key: &Key) -> Error {
    let reason = "its server has no such subresource of the kind".to_owned();
    Error::Unsupported { what: format!("scale of {}", key.kind()), reason }
}
