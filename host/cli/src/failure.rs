//! The errors of requests to a host.

use std::fmt;

use homeostat_api::Address;

/// An error status of a host, with its message.
#[derive(Debug)]
pub(crate) struct ApiError {
    /// The HTTP code.
    pub(crate) code: u16,
    /// One CamelCase word, as `NotFound`.
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code: _, reason, message } = self;
        if reason.is_empty() { f.write_str(message) } else { write!(f, "{message} ({reason})") }
    }
}

impl std::error::Error for ApiError {}

/// The host does not respond.
#[derive(Debug)]
pub(crate) enum Unreachable {
    /// The host is not running, or closed the connection.
    Gone { address: Address, why: String },
    /// The host accepts connections and does not answer `/livez`.
    Silent { address: Address },
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { address, why } => write!(
                f,
                "no host answers on {address} ({why})\n\
                 Start one with `homeostat dev FOLDER` or `homeostat run FOLDER`, or select another one with --server or HOMEOSTAT_SERVER."
            ),
            Self::Silent { address } => write!(
                f,
                "the host on {address} does not answer /livez\n\
                 Its process may be stopped (`kill -CONT PID` continues it) or overloaded. Check it, or select another host with \
                 --server or HOMEOSTAT_SERVER."
            ),
        }
    }
}

impl std::error::Error for Unreachable {}
