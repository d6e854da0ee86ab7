//! Errors of registries, signatures and policies. No variant contains a credential or a key.

use std::path::PathBuf;

use homeostat_digest::Digest;

/// Why an artifact could not be pulled or pushed, or a component could not be signed or is not trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is not a reference to an artifact.
    #[error("{text:?} is not a reference to an artifact: {reason}")]
    Reference {
        /// The text as it was given, cut to 200 characters.
        text: String,
        /// The reason, and the expected form.
        reason: &'static str,
    },
    /// The HTTP client could not be made.
    #[error("the HTTP client for registries could not be made")]
    Client(#[source] reqwest::Error),
    /// The registry could not be reached, or the connection broke.
    #[error("{what}: the request to the registry failed")]
    Transport {
        /// The requested artifact or blob.
        what: String,
        /// Without its URL, which may contain secrets.
        #[source]
        source: reqwest::Error,
    },
    /// A pull or push took too long.
    #[error("{what}: the registry took more than {seconds} s")]
    Deadline {
        /// The requested artifact or blob.
        what: String,
        /// The deadline.
        seconds: u64,
    },
    /// The registry does not have it.
    #[error("{what} was not found")]
    NotFound {
        /// The requested artifact or blob.
        what: String,
    },
    /// The registry requires other credentials.
    #[error("{what}: the registry refuses (status {status}); {hint}")]
    Denied {
        /// The requested artifact or blob.
        what: String,
        /// 401 or 403.
        status: u16,
        /// How to fix it.
        hint: &'static str,
    },
    /// The registry responded with an unexpected status.
    #[error("{what}: the registry answers with status {status}")]
    Status {
        /// The requested artifact or blob.
        what: String,
        /// The HTTP status code.
        status: u16,
    },
    /// A response does not follow the protocol.
    #[error("{what}: {reason}")]
    Protocol {
        /// The requested artifact or blob.
        what: String,
        /// The reason.
        reason: String,
    },
    /// An artifact that is not a component, or has another layout.
    #[error("{what} is not a component: {reason}")]
    Layout {
        /// The artifact.
        what: String,
        /// The difference.
        reason: String,
    },
    /// A blob has another size than its manifest states.
    #[error("{what} has {found} bytes, and its manifest says {wanted}")]
    Size {
        /// The blob.
        what: String,
        /// The size in the manifest.
        wanted: u64,
        /// The actual size.
        found: u64,
    },
    /// A blob or file is too large.
    #[error("{what} has more than {bytes_max} bytes")]
    TooLarge {
        /// Its name.
        what: String,
        /// The limit.
        bytes_max: u64,
    },
    /// A blob has another digest than expected.
    #[error("{what} has the digest {found}, expected {wanted}")]
    Digest {
        /// Its name.
        what: String,
        /// The expected digest.
        wanted: Digest,
        /// The actual digest.
        found: Digest,
    },
    /// The connection would not be encrypted.
    #[error("{what}: {host} is not on this machine, and plain HTTP is not allowed for it")]
    Insecure {
        /// The requested artifact or blob.
        what: String,
        /// The host of the URL.
        host: String,
    },
    /// Credentials cannot be read.
    #[error("credentials for {registry}: {reason}")]
    Credentials {
        /// The registry that they are for.
        registry: String,
        /// The file or helper, and the reason.
        reason: String,
    },
    /// The cache cannot be written.
    #[error("{path} cannot be written to the cache")]
    Cache {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// Bytes that are not a component.
    #[error("these bytes are not a component: {0}")]
    NotAComponent(String),
    /// A key cannot be read or generated.
    #[error("{0}")]
    Key(&'static str),
    /// A policy cannot be used.
    #[error("{path}: {reason}")]
    Policy {
        /// Its file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The component is not signed.
    #[error("the component is not signed")]
    Unsigned,
    /// The signature section of a component cannot be read.
    #[error("the signature of the component cannot be read: {0}")]
    Signature(&'static str),
    /// A trusted key signed other bytes: the component was changed after it was signed.
    #[error("the signature of {name} is not for these bytes: the component was changed after it was signed")]
    Altered {
        /// The name of the key.
        name: String,
    },
    /// The component is signed, but by no trusted key.
    #[error("the component is signed by no trusted key, but by {}", ids.join(", "))]
    Untrusted {
        /// The ids of the keys that signed it.
        ids: Vec<String>,
    },
}
