//! Errors of this crate itself. A guest that fails is no error: see [`crate::Fault`].

/// The reason why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is out of range.
    #[error("engine option {option}: {reason}")]
    Option {
        /// The option as written.
        option: &'static str,
        /// The reason why it is invalid.
        reason: String,
    },
    /// wasmtime failed to start; most often the process's address space is limited too tightly.
    #[error("starting the WebAssembly engine")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The clock that bounds guests could not be started.
    #[error("starting the thread of the epoch clock")]
    EpochClock(#[source] std::io::Error),
    /// The HTTP client could not be built.
    #[error("building the HTTP client")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
}
