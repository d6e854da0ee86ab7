//! What can go wrong in this room itself. What guests do is not an error: see [`crate::Fault`].

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options do not fit one another.
    #[error("engine option {option}: {reason}")]
    Option {
        /// The option as written.
        option: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The virtual machine refused to start; most often the address space that the process may use is too small.
    #[error("starting the WebAssembly engine")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The clock that bounds guests could not be started.
    #[error("starting the thread of the epoch clock")]
    Ticker(#[source] std::io::Error),
    /// The HTTP client could not be built.
    #[error("building the HTTP client")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
}
