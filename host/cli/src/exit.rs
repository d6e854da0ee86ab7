//! How a command ends when it does not do what was asked: what a person reads, and the code that a script reads.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use homeostat_registry::Error as OfRegistry;

use crate::failure::{ApiError, Unreachable};
use crate::output;

/// The codes other than 0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExitReason {
    /// It was tried and did not work.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A rule or a limit forbids it.
    Refused = 3,
    /// There is no host, or it cannot work now.
    Unavailable = 69,
    /// A fault of Homeostat itself.
    Internal = 70,
}

impl From<ExitReason> for ExitCode {
    fn from(code: ExitReason) -> Self {
        Self::from(code as u8)
    }
}

/// What has failed of several things that are tried one after the other: the code that all of these have, or that of what did not work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures(Option<ExitReason>);

impl Failures {
    /// Notes one more.
    pub(crate) fn record(&mut self, code: ExitReason) {
        self.0 = Some(if self.0.is_none_or(|before| before == code) { code } else { ExitReason::Failed });
    }

    /// Returns whether nothing has failed.
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_none()
    }
}

impl From<Failures> for ExitCode {
    fn from(Failures(code): Failures) -> Self {
        code.map_or(Self::SUCCESS, Self::from)
    }
}

/// An error that knows its code.
#[derive(Debug)]
struct CodedError {
    code: ExitReason,
    message: String,
}

impl fmt::Display for CodedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CodedError {}

/// Returns an error with the code of something that was tried and did not work.
pub(crate) fn failed(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Failed, message: message.into() }.into()
}

/// Returns an error with the code of a command line that makes no sense.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Usage, message: message.into() }.into()
}

/// Returns an error with the code of something that a rule or a limit forbids.
pub(crate) fn refused(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Refused, message: message.into() }.into()
}

/// Returns an error with the code of a fault of Homeostat itself.
pub(crate) fn internal(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Internal, message: message.into() }.into()
}

/// Says on stderr why a command ended, and returns the code for it.
///
/// A reader of the output that went away is no error: nothing is said, and the code is 0.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    output::eprint(&format!("error: {error:#}"));
    reason_of(error).into()
}

/// Returns the code for an error.
pub(crate) fn reason_of(error: &anyhow::Error) -> ExitReason {
    error.chain().find_map(known_reason).unwrap_or(ExitReason::Failed)
}

fn known_reason(cause: &(dyn Error + 'static)) -> Option<ExitReason> {
    if let Some(ended) = cause.downcast_ref::<CodedError>() {
        return Some(ended.code);
    }
    if cause.is::<Unreachable>() {
        return Some(ExitReason::Unavailable);
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(registry_reason(error));
    }
    cause.downcast_ref::<ApiError>().map(|refusal| match refusal.code {
        401 | 403 | 413 | 429 => ExitReason::Refused,
        503 | 504 => ExitReason::Unavailable,
        500 => ExitReason::Internal,
        _ => ExitReason::Failed,
    })
}

fn registry_reason(error: &OfRegistry) -> ExitReason {
    match error {
        OfRegistry::Reference { .. } => ExitReason::Usage,
        OfRegistry::Transport { .. } | OfRegistry::Deadline { .. } => ExitReason::Unavailable,
        OfRegistry::Status { status, .. } if *status == 429 || *status >= 500 => ExitReason::Unavailable,
        OfRegistry::Denied { .. } | OfRegistry::TooLarge { .. } | OfRegistry::Insecure { .. } => ExitReason::Refused,
        OfRegistry::Unsigned | OfRegistry::Signature(_) | OfRegistry::Altered { .. } | OfRegistry::Untrusted { .. } => {
            ExitReason::Refused
        }
        _ => ExitReason::Failed,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(is_broken)
}

#[cfg(test)]
mod tests;
