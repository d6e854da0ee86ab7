//! All limits and all bounds of the contract as data, for the table in the documentation.

use std::time::Duration;

use crate::limits::LimitName;
use crate::limits::{Limits, STACK_BYTES_MAX, contract};
use crate::load::DESCRIBE_DEADLINE;
use crate::options::{EngineOptions, POOLED_TABLE_ELEMENTS_MAX};

/// The amount that a limit allows, with its unit. Amounts with the same unit can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Amount {
    /// A length of time.
    Time(Duration),
    /// A number of bytes.
    Bytes(u64),
    /// A number of things.
    Count(u64),
}

/// A bound that is the same for every controller, and has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedBound {
    /// The counted quantity.
    pub what: &'static str,
    /// The maximum.
    pub most: Amount,
    /// The consequence of exceeding it.
    pub then: &'static str,
}

impl LimitName {
    /// Returns the counted quantity, in a few words.
    pub fn counts(self) -> &'static str {
        match self {
            Self::Deadline => "time on the wall, host calls and waiting included",
            Self::Cpu => "time on a processor, checked at every millisecond",
            Self::Memory => "linear memory, all memories together",
            Self::Memories => "linear memories, those of components within the component included",
            Self::Tables => "elements of tables, all tables together",
            Self::Stack => "stack of the machine (a stack that a compiler keeps in linear memory overflows as a trap)",
            Self::Effects => "calls out of the sandbox, those to the log excepted",
            Self::Writes => "writes to the store, also those that are refused",
            Self::Events => "events",
            Self::EffectBytes => "bytes of all effects and their answers",
            Self::LogBytes => "bytes of log, standard output and standard error included",
            Self::LogLines => "lines of log, standard output and standard error included",
            Self::Transfer => "bytes of one call, of its arguments or of its answer, whichever way they go",
            Self::Handles => "handles (streams, requests, timers) held at once",
            Self::Result => "bytes of the keys that `map` or `poll` answers",
            Self::Keys => "keys on the queue of a controller, waiting, ready, running or parked",
            Self::ErrorBytes => "bytes of the texts of errors that are kept for those keys",
            Self::CompileTime => {
                "time of a compilation on processors, all of them together; four times that on the wall"
            }
            Self::CompileMemory => "memory of the process that compiles a component",
        }
    }
}

impl Limits {
    /// Returns the amount that a limit allows.
    pub fn amount(&self, limit: LimitName) -> Amount {
        match limit {
            LimitName::Deadline => Amount::Time(self.deadline),
            LimitName::Cpu => Amount::Time(self.cpu),
            LimitName::Memory => Amount::Bytes(self.memory_bytes_max),
            LimitName::Memories => Amount::Count(self.memories_max.into()),
            LimitName::Tables => Amount::Count(self.table_elements_max),
            LimitName::Stack => Amount::Bytes(STACK_BYTES_MAX as u64),
            LimitName::Effects => Amount::Count(self.effects_max.into()),
            LimitName::Writes => Amount::Count(self.writes_max.into()),
            LimitName::Events => Amount::Count(self.events_max.into()),
            LimitName::EffectBytes => Amount::Bytes(self.effect_bytes_max),
            LimitName::LogBytes => Amount::Bytes(self.log_bytes_max),
            LimitName::LogLines => Amount::Count(self.log_lines_max.into()),
            LimitName::Transfer => Amount::Bytes(self.transfer_bytes_max),
            LimitName::Handles => Amount::Count(self.handles_max.into()),
            LimitName::Result => Amount::Bytes(self.result_bytes_max),
            LimitName::Keys => Amount::Count(self.keys_max.into()),
            LimitName::ErrorBytes => Amount::Bytes(self.error_bytes_max),
            LimitName::CompileTime => Amount::Time(EngineOptions::default().compile_time),
            LimitName::CompileMemory => Amount::Bytes(EngineOptions::default().compile_memory_bytes_max),
        }
    }
}

/// Returns the bounds that no manifest can change.
pub fn fixed() -> Vec<FixedBound> {
    use Amount::{Bytes, Count, Time};
    let bytes = |bytes: usize| Bytes(bytes as u64);
    let count = |count: usize| Count(count as u64);
    let follows = u64::from(contract::FOLLOWS_MAX);
    let all: [(&'static str, Amount, &'static str); 19] = [
        ("bytes of a component", Bytes(EngineOptions::default().component_bytes_max), "refused before it is compiled"),
        ("components that are compiled at once", count(crate::compiler::AT_ONCE), "wait for one another"),
        ("elements of one table of the pool", count(POOLED_TABLE_ELEMENTS_MAX), "limit `tables`"),
        ("time of `describe` on the wall", Time(DESCRIBE_DEADLINE), "limit `deadline`; the component is refused"),
        ("keys that `map` answers", count(contract::MAP_KEYS_MAX), "limit `result`"),
        ("keys that `poll` answers", count(contract::POLL_KEYS_MAX), "limit `result`"),
        ("bytes of a failure's message", bytes(contract::FAILURE_MESSAGE_BYTES_MAX), "cut"),
        ("bytes of an event's message", bytes(contract::EVENT_MESSAGE_BYTES_MAX), "cut"),
        ("bytes of an event's reason", bytes(contract::EVENT_REASON_BYTES_MAX), "cut"),
        ("bytes of the message of a line of log", bytes(contract::LOG_MESSAGE_BYTES_MAX), "cut"),
        ("fields of a line of log", count(contract::LOG_FIELDS_MAX), "dropped"),
        ("bytes of the name of such a field", bytes(contract::LOG_FIELD_NAME_BYTES_MAX), "cut"),
        ("bytes of the value of such a field", bytes(contract::LOG_FIELD_VALUE_BYTES_MAX), "cut"),
        ("changes that one reconcile follows", Count(follows), "`too-large`"),
        ("items of one page of a list", Count(contract::LIST_ITEMS_MAX.into()), "`invalid`"),
        ("bytes of randomness in one call", Bytes(contract::RANDOM_BYTES_MAX), "trap"),
        ("bytes of the body of an HTTP request", Bytes(Limits::default().http_body_bytes_max), "the request fails"),
        ("bytes of the body of an HTTP response", Bytes(Limits::default().http_body_bytes_max), "the request fails"),
        ("time that a guest asks to wait", Time(crate::Outcome::DELAY_MAX), "cut"),
    ];
    all.into_iter().map(|(what, most, then)| FixedBound { what, most, then }).collect()
}
