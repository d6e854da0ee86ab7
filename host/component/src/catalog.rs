//! All limits and all bounds of the contract as data, for the table in the documentation.

use std::time::Duration;

use crate::limits::LimitName;
use crate::limits::{Limits, STACK_BYTES_MAX, contract};
use crate::load::DESCRIBE_DEADLINE;
use crate::options::{EngineOptions, INSTANCES_KEPT_MAX, POOLED_TABLE_ELEMENTS_MAX};
use crate::warm_instances::CALLS_MAX;

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
            Self::Deadline => "wall time, including host calls and waiting",
            Self::Cpu => "processor time, checked every millisecond",
            Self::Memory => "linear memory, summed over all memories",
            Self::Memories => "linear memories, including those of nested components",
            Self::Tables => "table elements, summed over all tables",
            Self::Stack => "native stack (a stack that a compiler keeps in linear memory overflows as a trap)",
            Self::Effects => "calls out of the sandbox, except log lines",
            Self::Writes => "writes to the store, including refused ones",
            Self::Events => "events",
            Self::EffectBytes => "bytes of all effects and their answers",
            Self::LogBytes => "bytes of log, including standard output and standard error",
            Self::LogLines => "lines of log, including standard output and standard error",
            Self::Transfer => "bytes of the arguments or the result of one call, in either direction",
            Self::Handles => "handles (streams, requests, timers) held at once",
            Self::Result => "bytes of the keys that `map` or `poll` returns",
            Self::Keys => "keys on the queue of a controller: waiting, ready, running or parked",
            Self::ErrorBytes => "bytes of the error texts kept for those keys",
            Self::CompileTime => {
                "processor time of a compilation, summed over all processors; four times as much wall time"
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
    let all: [(&'static str, Amount, &'static str); 23] = [
        ("bytes of a component", Bytes(EngineOptions::default().component_bytes_max), "refused before it is compiled"),
        ("components compiled at once", count(crate::compiler::AT_ONCE), "wait for one another"),
        ("components compiled at once behind their baseline code", Count(1), "wait for one another"),
        (
            "bytes of all components that run baseline code until they are optimised",
            bytes(crate::optimiser::WAITING_BYTES_MAX),
            "a load waits for optimised code",
        ),
        ("instances that a host keeps between calls", count(INSTANCES_KEPT_MAX), "an instance ends with its call"),
        ("calls of one instance", Count(CALLS_MAX.into()), "the next call begins another one"),
        ("elements of one table of the pool", count(POOLED_TABLE_ELEMENTS_MAX), "limit `tables`"),
        ("wall time of `describe`", Time(DESCRIBE_DEADLINE), "limit `deadline`; the component is refused"),
        ("keys that `map` returns", count(contract::MAP_KEYS_MAX), "limit `result`"),
        ("keys that `poll` returns", count(contract::POLL_KEYS_MAX), "limit `result`"),
        ("bytes of a failure's message", bytes(contract::FAILURE_MESSAGE_BYTES_MAX), "cut"),
        ("bytes of an event's message", bytes(contract::EVENT_MESSAGE_BYTES_MAX), "cut"),
        ("bytes of an event's reason", bytes(contract::EVENT_REASON_BYTES_MAX), "cut"),
        ("bytes of the message of a log line", bytes(contract::LOG_MESSAGE_BYTES_MAX), "cut"),
        ("fields of a log line", count(contract::LOG_FIELDS_MAX), "dropped"),
        ("bytes of the name of such a field", bytes(contract::LOG_FIELD_NAME_BYTES_MAX), "cut"),
        ("bytes of the value of such a field", bytes(contract::LOG_FIELD_VALUE_BYTES_MAX), "cut"),
        ("follows of one reconcile", Count(follows), "`too-large`"),
        ("items of one page of a list", Count(contract::LIST_ITEMS_MAX.into()), "`invalid`"),
        ("bytes of randomness in one call", Bytes(contract::RANDOM_BYTES_MAX), "trap"),
        ("bytes of the body of an HTTP request", Bytes(Limits::default().http_body_bytes_max), "the request fails"),
        ("bytes of the body of an HTTP response", Bytes(Limits::default().http_body_bytes_max), "the request fails"),
        ("delay that a guest asks for", Time(crate::Outcome::DELAY_MAX), "cut"),
    ];
    all.into_iter().map(|(what, most, then)| FixedBound { what, most, then }).collect()
}
