//! The limits of one call, and of the state that a controller keeps between calls. Every limit is finite and
//! has a name: see [`crate::LimitName`].
//!
//! `docs/limits.md` lists all of them with their defaults; it is generated from [`Limits::amount`] and
//! [`crate::fixed_bounds`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::millis;

mod name;

pub use name::LimitName;

/// The limits of one call, and of the state of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Wall time of the whole call, host calls included. Default: 30 s. Limit `deadline`.
    #[serde(rename = "deadlineMs", with = "millis")]
    pub deadline: Duration,
    /// Processor time, checked every millisecond. Default: 1 s. Limit `cpu`.
    #[serde(rename = "cpuMs", with = "millis")]
    pub cpu: Duration,
    /// Linear memory, all memories of the component together. Default: 64 MiB. Limit `memory`.
    pub memory_bytes_max: u64,
    /// Linear memories of the component, those of the components within it included. Default: 16. Limit
    /// `memories`.
    pub memories_max: u32,
    /// Elements of tables, all tables of the component together. Default: 100 000. Limit `tables`.
    pub table_elements_max: u64,
    /// Number of effects. Default: 1000. Limit `effects`.
    pub effects_max: u32,
    /// Number of those that write to the store, refused ones included. Default: 500. Limit `writes`.
    pub writes_max: u32,
    /// Number of those that emit an event. Default: 500. Limit `events`.
    pub events_max: u32,
    /// Bytes of effects and answers together. Default: 64 MiB. Limit `effect-bytes`.
    pub effect_bytes_max: u64,
    /// Bytes of the log, standard output and standard error included. Default: 256 KiB. Limit `log-bytes`.
    pub log_bytes_max: u64,
    /// Lines of the log, those of standard output and standard error included. Default: 1000. Limit
    /// `log-lines`.
    pub log_lines_max: u32,
    /// Bytes of one argument list or one result, in either direction, as the host stores them. Default: 16
    /// MiB. Limit `transfer`.
    pub transfer_bytes_max: u64,
    /// Bytes of the keys that `map` or `poll` returns. Default: 8 MiB. Limit `result`, which bounds their
    /// number too.
    pub result_bytes_max: u64,
    /// Keys on the controller's queue, in any state: per controller, not per call. Default: 100 000. Limit
    /// `keys`.
    pub keys_max: u32,
    /// Bytes of error texts that the controller keeps for these keys. Default: 4 MiB. Limit `error-bytes`.
    pub error_bytes_max: u64,
    /// Handles (streams, requests, timers …) that the guest holds at once. Default: 256. Limit `handles`.
    pub handles_max: u32,
    /// Bytes of the body of one HTTP request, and of one HTTP response. Default: 4 MiB. Above it the request
    /// fails.
    pub http_body_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            cpu: Duration::from_secs(1),
            memory_bytes_max: 64 << 20,
            memories_max: 16,
            table_elements_max: 100_000,
            effects_max: 1000,
            writes_max: 500,
            events_max: 500,
            effect_bytes_max: 64 << 20,
            log_bytes_max: 256 << 10,
            log_lines_max: 1000,
            transfer_bytes_max: 16 << 20,
            result_bytes_max: 8 << 20,
            keys_max: 100_000,
            error_bytes_max: 4 << 20,
            handles_max: 256,
            http_body_bytes_max: 4 << 20,
        }
    }
}

impl Limits {
    /// Returns the larger value of each limit.
    #[must_use]
    pub(crate) fn larger(&self, other: &Self) -> Self {
        let Self {
            deadline,
            cpu,
            memory_bytes_max,
            memories_max,
            table_elements_max,
            effects_max,
            writes_max,
            events_max,
            effect_bytes_max,
            log_bytes_max,
            log_lines_max,
            transfer_bytes_max,
            result_bytes_max,
            keys_max,
            error_bytes_max,
            handles_max,
            http_body_bytes_max,
        } = *self;
        Self {
            deadline: deadline.max(other.deadline),
            cpu: cpu.max(other.cpu),
            memory_bytes_max: memory_bytes_max.max(other.memory_bytes_max),
            memories_max: memories_max.max(other.memories_max),
            table_elements_max: table_elements_max.max(other.table_elements_max),
            effects_max: effects_max.max(other.effects_max),
            writes_max: writes_max.max(other.writes_max),
            events_max: events_max.max(other.events_max),
            effect_bytes_max: effect_bytes_max.max(other.effect_bytes_max),
            log_bytes_max: log_bytes_max.max(other.log_bytes_max),
            log_lines_max: log_lines_max.max(other.log_lines_max),
            transfer_bytes_max: transfer_bytes_max.max(other.transfer_bytes_max),
            result_bytes_max: result_bytes_max.max(other.result_bytes_max),
            keys_max: keys_max.max(other.keys_max),
            error_bytes_max: error_bytes_max.max(other.error_bytes_max),
            handles_max: handles_max.max(other.handles_max),
            http_body_bytes_max: http_body_bytes_max.max(other.http_body_bytes_max),
        }
    }

    /// Returns whether no limit of `other` is above the same one of these.
    pub fn includes(&self, other: &Self) -> bool {
        self.larger(other) == *self
    }

    /// Returns all problems of these limits: values with which no guest can run, or that limit nothing. Each
    /// message begins with the name of the limit.
    pub fn problems(&self) -> Vec<String> {
        let Self { deadline, cpu, memory_bytes_max, .. } = self;
        let mut problems = Vec::new();
        let mut check = |holds: bool, problem: &str| {
            if !holds {
                problems.push(problem.to_owned());
            }
        };
        check(!deadline.is_zero() && *deadline <= DEADLINE_MAX, "deadline: must be above zero, and at most an hour");
        check(!cpu.is_zero() && cpu <= deadline, "cpu: must be above zero, and at most the deadline");
        check((WASM_PAGE_BYTES..=MEMORY_BYTES_MAX).contains(memory_bytes_max), "memory: must be 64Ki to 4Gi");
        problems
    }
}

const DEADLINE_MAX: Duration = Duration::from_secs(3600);
pub(crate) const WASM_PAGE_BYTES: u64 = 64 << 10;
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Bytes of a guest's native stack, as opposed to a stack that a compiler keeps in linear memory. Limit
/// `stack`, the same for every controller: the pool allocates stacks of this size.
pub(crate) const STACK_BYTES_MAX: usize = 512 << 10;

/// Bounds that the contract states as numbers, the same for every controller.
pub(crate) mod contract {
    /// Bytes of the message of a failure. Cut above.
    pub(crate) const FAILURE_MESSAGE_BYTES_MAX: usize = 4096;
    /// Bytes of the message of an event. Cut above.
    pub(crate) const EVENT_MESSAGE_BYTES_MAX: usize = 1024;
    /// Bytes of the reason of an event. Cut above.
    pub(crate) const EVENT_REASON_BYTES_MAX: usize = 128;
    /// Bytes of the message of one line of the log. Cut above.
    pub(crate) const LOG_MESSAGE_BYTES_MAX: usize = 4096;
    /// Fields of one line of the log. Dropped above.
    pub(crate) const LOG_FIELDS_MAX: usize = 16;
    /// Bytes of the name of such a field. Cut above.
    pub(crate) const LOG_FIELD_NAME_BYTES_MAX: usize = 128;
    /// Bytes of the value of such a field. Cut above.
    pub(crate) const LOG_FIELD_VALUE_BYTES_MAX: usize = 1024;
    /// Keys that `mapper.map` may return.
    pub(crate) const MAP_KEYS_MAX: usize = 10_000;
    /// Keys that `poller.poll` may return.
    pub(crate) const POLL_KEYS_MAX: usize = 100_000;
    /// Follows of one reconcile.
    pub(crate) const FOLLOWS_MAX: u32 = 64;
    /// Items of one page of a list.
    pub(crate) const LIST_ITEMS_MAX: u32 = 500;
    /// Bytes of randomness in one call.
    pub(crate) const RANDOM_BYTES_MAX: u64 = 64 << 10;
}

/// Cuts `text` to at most `bytes_max` bytes, at the end of a character.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

#[cfg(test)]
mod tests;
