//! Why a request to the server failed, and the meaning of the failure for a caller of the store.

#[cfg(test)]
mod tests;

use homeostat_store::Error;
use serde::Deserialize;

/// Codes of JetStream. Source: nats-server, `server/errors.json`.
const ACCOUNT_RESOURCES: u64 = 10002;
const INSUFFICIENT_RESOURCES: u64 = 10023;
const STORAGE_RESOURCES: u64 = 10047;
const NO_MESSAGE: u64 = 10037;
const DISABLED_FOR_ACCOUNT: u64 = 10039;
const TOO_LARGE: u64 = 10054;
const STREAM_NOT_FOUND: u64 = 10059;
const WRONG_SEQUENCE: u64 = 10071;
const DISABLED: u64 = 10076;
const STORE_FAILED: u64 = 10077;
const DUPLICATE_IN_FLIGHT: u64 = 10158;
const WRONG_SEQUENCE_CONSTANT: u64 = 10164;
const BATCH_INCOMPLETE: u64 = 10176;
const BATCHES_TOO_MANY: u64 = 10210;

/// The error of an answer of JetStream.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ServerError {
    #[serde(default)]
    pub(crate) err_code: u64,
    #[serde(default)]
    pub(crate) description: String,
}

/// The result of a request.
pub(crate) type RequestResult<T> = Result<T, RequestError>;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// There is no connection; nothing was sent.
    Away(String),
    /// It was sent, and not answered in time, or not in a way that this host understands.
    Silent(String),
    /// No server takes requests of this subject; nothing happened.
    NoResponders,
    /// The message is larger than the server accepts; nothing was sent.
    TooLarge,
    /// The server does not allow it to this host; nothing happened.
    Forbidden(String),
    /// JetStream refused it.
    Refused(ServerError),
}

impl RequestError {
    /// Returns whether there is no value of the subject.
    pub(crate) fn is_no_value(&self) -> bool {
        self.code() == Some(NO_MESSAGE)
    }

    /// Returns whether the bucket does not exist.
    pub(crate) fn is_no_bucket(&self) -> bool {
        self.code() == Some(STREAM_NOT_FOUND)
    }

    /// Returns whether the state that a write was decided on is not the last one.
    pub(crate) fn is_wrong_sequence(&self) -> bool {
        matches!(self.code(), Some(WRONG_SEQUENCE | WRONG_SEQUENCE_CONSTANT))
    }

    /// Returns whether a message may have been stored, or may still be.
    pub(crate) fn leaves_outcome_open(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            // The store of a server that fails may have taken it; a full one says so in its description.
            Self::Refused(error) => match error.err_code {
                DUPLICATE_IN_FLIGHT => true,
                // Nothing is stored, and the batch can be sent again.
                BATCH_INCOMPLETE | BATCHES_TOO_MANY => true,
                STORE_FAILED => self.full().is_none(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether a batch ended without its last message: the server refused an earlier one, and stored none.
    pub(crate) fn is_incomplete_batch(&self) -> bool {
        self.code() == Some(BATCH_INCOMPLETE)
    }

    /// Returns whether the server refused a batch that it may take in smaller ones.
    pub(crate) fn refuses_batch(&self) -> bool {
        self.is_incomplete_batch() || !(self.leaves_outcome_open() || matches!(self, Self::Away(_)))
    }

    /// Returns the reason, for a person, if there is no room: in the bucket, or in what it shares with other streams.
    pub(crate) fn full(&self) -> Option<String> {
        let Self::Refused(error) = self else { return None };
        let description = &error.description;
        let text = match error.err_code {
            ACCOUNT_RESOURCES => {
                format!("the account has no room: {description:?}; purge one of its streams, or raise its limits")
            }
            INSUFFICIENT_RESOURCES | STORAGE_RESOURCES => {
                format!("the server has no room: {description:?}; purge one of its streams, or raise its limits")
            }
            STORE_FAILED if description.contains("maximum") => format!("the bucket is full: {description:?}"),
            _ => return None,
        };
        Some(text)
    }

    /// Returns whether a value is larger than the server or the bucket accepts.
    pub(crate) fn is_too_large(&self) -> bool {
        *self == Self::TooLarge || self.code() == Some(TOO_LARGE)
    }

    /// Returns the error for the caller of the store. `what` is the request, as `write of v1/Pod a/b`.
    pub(crate) fn into_error(self, bucket: &str, what: &str) -> Error {
        let full = self.full();
        match self {
            Self::Forbidden(reason) => Error::Forbidden { what: what.to_owned(), reason },
            Self::TooLarge => Error::unavailable(format!("{what} is larger than the server accepts")),
            Self::Away(reason) | Self::Silent(reason) => Error::unavailable(reason),
            Self::NoResponders => {
                Error::unavailable(format!("the server has no JetStream, or no bucket {bucket:?} that takes values"))
            }
            Self::Refused(error) => {
                let reason = match error.err_code {
                    STREAM_NOT_FOUND => format!("there is no bucket {bucket:?}"),
                    DISABLED | DISABLED_FOR_ACCOUNT => "JetStream is off for this account".to_owned(),
                    _ => full.unwrap_or_else(|| {
                        format!("the server answered {what:?} with {:?} (code {})", error.description, error.err_code)
                    }),
                };
                Error::unavailable(reason)
            }
        }
    }

    fn code(&self) -> Option<u64> {
        if let Self::Refused(error) = self { Some(error.err_code) } else { None }
    }
}
