//! Texts for refusals: every reason on a line of its own, every error with its causes.

/// Writes reasons as a list, one below the other.
pub fn list<T: ToString>(reasons: &[T]) -> String {
    let lines = reasons.iter().map(|reason| format!("  - {}", reason.to_string().replace('\n', "\n    ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes an error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
