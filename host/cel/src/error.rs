//! The failure of an evaluation.

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// It would have cost more than its bound.
    #[error("operation cancelled: actual cost limit exceeded")]
    Exhausted,
    /// A field, key or name is missing.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// A function or an operator cannot have such values.
    #[error("no such overload")]
    NoSuchOverload,
    /// A number became too large.
    #[error("integer overflow")]
    Overflow,
    /// The result is no patch, with the reason.
    #[error("{0}")]
    NoPatch(String),
    /// Another failure, with its reason.
    #[error("{0}")]
    Invalid(String),
}
