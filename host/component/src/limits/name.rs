//! The names of the limits.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a limit, as errors, events and metrics show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitName {
    /// Wall time, host calls included.
    Deadline,
    /// Processor time.
    Cpu,
    /// Linear memory.
    Memory,
    /// The number of linear memories.
    Memories,
    /// Elements of tables.
    Tables,
    /// The native stack.
    Stack,
    /// Number of effects.
    Effects,
    /// Number of writes to the store.
    Writes,
    /// Number of events.
    Events,
    /// Bytes of effects and their answers.
    EffectBytes,
    /// Bytes of the log, standard output and standard error included.
    LogBytes,
    /// Lines of the log, standard output and standard error included.
    LogLines,
    /// Bytes of one argument list or result, either way.
    Transfer,
    /// Handles that the guest holds at once.
    Handles,
    /// Number and bytes of the keys in a result.
    Result,
    /// Keys on the queue of a controller. New keys are refused; no call is stopped.
    Keys,
    /// Bytes of error texts that a controller keeps. Further texts are dropped; no call is stopped.
    ErrorBytes,
    /// Time of a compilation. The component is refused; no call is stopped.
    CompileTime,
    /// Memory of a compilation. The component is refused; no call is stopped.
    CompileMemory,
}

impl LimitName {
    /// Every limit there is.
    pub const ALL: [Self; 19] = [
        Self::Deadline,
        Self::Cpu,
        Self::Memory,
        Self::Memories,
        Self::Tables,
        Self::Stack,
        Self::Effects,
        Self::Writes,
        Self::Events,
        Self::EffectBytes,
        Self::LogBytes,
        Self::LogLines,
        Self::Transfer,
        Self::Handles,
        Self::Result,
        Self::Keys,
        Self::ErrorBytes,
        Self::CompileTime,
        Self::CompileMemory,
    ];

    /// Returns the name as users see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Memories => "memories",
            Self::Tables => "tables",
            Self::Stack => "stack",
            Self::Effects => "effects",
            Self::Writes => "writes",
            Self::Events => "events",
            Self::EffectBytes => "effect-bytes",
            Self::LogBytes => "log-bytes",
            Self::LogLines => "log-lines",
            Self::Transfer => "transfer",
            Self::Handles => "handles",
            Self::Result => "result",
            Self::Keys => "keys",
            Self::ErrorBytes => "error-bytes",
            Self::CompileTime => "compile-time",
            Self::CompileMemory => "compile-memory",
        }
    }

    /// Returns whether it stops calls of guests. The other limits refuse components or new keys, or drop
    /// texts.
    pub fn stops_calls(self) -> bool {
        !matches!(self, Self::Keys | Self::ErrorBytes | Self::CompileTime | Self::CompileMemory)
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
