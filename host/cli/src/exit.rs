//! The exit code and error message of a command that fails.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use homeostat_registry::Error as OfRegistry;

use crate::failure::{ApiError, Unreachable};
use crate::output;

/// Why a command failed. The value is the exit code; `main` adds 65 and 75 for a host that cannot start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExitReason {
    /// The operation failed.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A rule or a limit forbids it.
    Refused = 3,
    /// The host does not run, or is not available now.
    Unavailable = 69,
    /// A bug in Homeostat itself.
    Internal = 70,
}

impl From<ExitReason> for ExitCode {
    fn from(code: ExitReason) -> Self {
        Self::from(code as u8)
    }
}

/// The failures of a sequence of operations: their common reason, or [`ExitReason::Failed`] if the reasons
/// differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures(Option<ExitReason>);

impl Failures {
    /// Records a failure.
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

/// An error with its exit reason.
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

/// Returns an error for a failed operation.
pub(crate) fn failed(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Failed, message: message.into() }.into()
}

/// Returns an error for an invalid command line.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Usage, message: message.into() }.into()
}

/// Returns an error for a violated rule or limit.
pub(crate) fn refused(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Refused, message: message.into() }.into()
}

/// Returns an error for a bug in Homeostat itself.
pub(crate) fn internal(message: impl Into<String>) -> anyhow::Error {
    CodedError { code: ExitReason::Internal, message: message.into() }.into()
}

/// Prints the error on stderr and returns its exit code.
///
/// A closed output pipe is not an error: nothing is printed, and the code is 0.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    output::eprint(&format!("error: {error:#}"));
    reason_of(error).into()
}

/// Returns the exit reason of an error.
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
        502..=504 => ExitReason::Unavailable,
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
