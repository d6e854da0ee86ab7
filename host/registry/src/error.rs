//! What goes wrong with components that travel. No variant has a credential or a key in it.

use std::path::PathBuf;

use homeostat_digest::Digest;

/// Why an artifact was not pulled or pushed, or a component not signed or trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text does not name an artifact.
    #[error("{text:?} names no artifact: {reason}")]
    Reference {
        /// As it was given, cut to 200 characters.
        text: String,
        /// What is wrong, and what would be right.
        reason: &'static str,
    },
    /// No client could be made.
    #[error("no client for registries can be made")]
    Client(#[source] reqwest::Error),
    /// The registry was not reached, or the connection broke.
    #[error("{what} cannot be had from the registry")]
    Transport {
        /// What was asked for.
        what: String,
        /// Without its address, which may have what is secret in it.
        #[source]
        source: reqwest::Error,
    },
    /// It took longer than it may.
    #[error("{what}: the registry took more than {seconds} s")]
    Deadline {
        /// What was asked for.
        what: String,
        /// How long it might have taken.
        seconds: u64,
    },
    /// The registry has no such thing.
    #[error("{what} is not there")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// The registry wants to know who asks, or does not allow it.
    #[error("{what}: the registry refuses (status {status}); {hint}")]
    Denied {
        /// What was asked for.
        what: String,
        /// 401 or 403.
        status: u16,
        /// What to do about it.
        hint: &'static str,
    },
    /// The registry answers something else.
    #[error("{what}: the registry answers with status {status}")]
    Status {
        /// What was asked for.
        what: String,
        /// Of HTTP.
        status: u16,
    },
    /// An answer does not follow the protocol.
    #[error("{what}: {reason}")]
    Protocol {
        /// What was asked for.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// An artifact is no component in the layout that is taken.
    #[error("{what} is no component: {reason}")]
    Layout {
        /// The artifact.
        what: String,
        /// What it is instead.
        reason: String,
    },
    /// Something has another size than its manifest says.
    #[error("{what} has {found} bytes, and its manifest says {wanted}")]
    Size {
        /// What was asked for.
        what: String,
        /// What the manifest says.
        wanted: u64,
        /// What there is.
        found: u64,
    },
    /// Something is larger than it may be.
    #[error("{what} has more than {bytes_max} bytes")]
    TooLarge {
        /// What it is.
        what: String,
        /// The bound.
        bytes_max: u64,
    },
    /// Bytes are not those that were named.
    #[error("{what} has the digest {found}, wanted is {wanted}")]
    Digest {
        /// What it is.
        what: String,
        /// What was named.
        wanted: Digest,
        /// What came.
        found: Digest,
    },
    /// A connection would be open to whoever is in between.
    #[error("{what}: {host} is not on this machine, and would be asked over plain HTTP")]
    Insecure {
        /// What was asked for.
        what: String,
        /// Where it would have come from.
        host: String,
    },
    /// Credentials cannot be had.
    #[error("credentials for {registry}: {reason}")]
    Credentials {
        /// Whom they are for.
        registry: String,
        /// Where they were looked for, and what is wrong there.
        reason: String,
    },
    /// The folder of what was pulled cannot be used.
    #[error("{path} cannot be kept")]
    Cache {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Bytes are no component.
    #[error("these bytes are no component: {0}")]
    NotAComponent(String),
    /// A key cannot be read, or not be made.
    #[error("{0}")]
    Key(&'static str),
    /// A policy cannot be used.
    #[error("{path}: {reason}")]
    Policy {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody has signed a component.
    #[error("the component is not signed")]
    Unsigned,
    /// The signature of a component cannot be read.
    #[error("the signature of the component cannot be read: {0}")]
    Signature(&'static str),
    /// Somebody who is trusted has signed something else.
    #[error("the signature of {name} is not for these bytes: the component was changed after it was signed")]
    Altered {
        /// What the key is called.
        name: String,
    },
    /// Nobody who is trusted has signed a component.
    #[error("the component is signed by nobody who is trusted, but by {}", ids.join(", "))]
    Untrusted {
        /// Of the keys that it is signed with.
        ids: Vec<String>,
    },
}
