//! `spec.limits`: the written form, its bounds, and the checked form.

use std::time::Duration;

use homeostat_component::{Amount, LimitName, Limits};
use serde::{Deserialize, Serialize};

use super::{Bytes, Problems, Span};

/// Limits as written; missing ones keep their defaults. [`LIMIT_BOUNDS`] has the bounds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsWritten {
    /// Wall time of one reconcile, as `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Processor time of one reconcile, as `500ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Span>,
    /// Linear memory, as `64Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Linear memories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memories: Option<u32>,
    /// Elements of tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<u32>,
    /// Effects, which are calls out of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<u32>,
    /// Effects that write to the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u32>,
    /// Effects that emit an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u32>,
    /// Bytes of effects and their answers, as `16Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_bytes: Option<Bytes>,
    /// Bytes of log, as `64Ki`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Bytes>,
    /// Lines of log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<u32>,
    /// Bytes of one effect in either direction, as `1Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Bytes>,
    /// Handles held at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handles: Option<u32>,
    /// Bytes of the keys that `map` or `poll` returns, as `1Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Bytes>,
    /// Keys on the queue of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u32>,
    /// Bytes of error texts kept for those keys, as `1Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<Bytes>,
}

/// The field and the bounds of one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitBounds {
    /// The limit.
    pub limit: LimitName,
    /// The field, as `spec.limits.cpu`.
    pub field: &'static str,
    /// The minimum.
    pub least: Amount,
    /// The maximum.
    pub most: Amount,
}

/// Every limit that a manifest may set.
pub const LIMIT_BOUNDS: [LimitBounds; 16] = [
    time(LimitName::Deadline, "spec.limits.deadline", 3600),
    time(LimitName::Cpu, "spec.limits.cpu", 600),
    bytes(LimitName::Memory, "spec.limits.memory", 64 << 10, 4 << 30),
    count(LimitName::Memories, "spec.limits.memories", 100),
    count(LimitName::Tables, "spec.limits.tables", 10_000_000),
    count(LimitName::Effects, "spec.limits.effects", 1_000_000),
    count(LimitName::Writes, "spec.limits.writes", 1_000_000),
    count(LimitName::Events, "spec.limits.events", 10_000),
    bytes(LimitName::EffectBytes, "spec.limits.effectBytes", 0, 4 << 30),
    bytes(LimitName::LogBytes, "spec.limits.log", 0, 16 << 20),
    count(LimitName::LogLines, "spec.limits.logLines", 100_000),
    bytes(LimitName::Transfer, "spec.limits.transfer", 4 << 10, 256 << 20),
    count(LimitName::Handles, "spec.limits.handles", 100_000),
    bytes(LimitName::Result, "spec.limits.result", 0, 256 << 20),
    LimitBounds { least: Amount::Count(1), ..count(LimitName::Keys, "spec.limits.keys", 10_000_000) },
    bytes(LimitName::ErrorBytes, "spec.limits.errorBytes", 0, 1 << 30),
];

const fn time(limit: LimitName, field: &'static str, seconds_max: u64) -> LimitBounds {
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(seconds_max));
    LimitBounds { limit, field, least: Amount::Time(least), most: Amount::Time(most) }
}

const fn bytes(limit: LimitName, field: &'static str, least: u64, most: u64) -> LimitBounds {
    LimitBounds { limit, field, least: Amount::Bytes(least), most: Amount::Bytes(most) }
}

const fn count(limit: LimitName, field: &'static str, most: u64) -> LimitBounds {
    LimitBounds { limit, field, least: Amount::Count(0), most: Amount::Count(most) }
}

impl LimitsWritten {
    /// Returns the written value of a limit.
    fn amount(&self, limit: LimitName) -> Option<Amount> {
        let time = |span: Option<Span>| span.map(|span| Amount::Time(span.0));
        let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| Amount::Bytes(bytes.0));
        let count = |count: Option<u32>| count.map(|count| Amount::Count(count.into()));
        match limit {
            LimitName::Deadline => time(self.deadline),
            LimitName::Cpu => time(self.cpu),
            LimitName::Memory => bytes(self.memory),
            LimitName::Memories => count(self.memories),
            LimitName::Tables => count(self.tables),
            LimitName::Stack | LimitName::CompileTime | LimitName::CompileMemory => None,
            LimitName::Effects => count(self.effects),
            LimitName::Writes => count(self.writes),
            LimitName::Events => count(self.events),
            LimitName::EffectBytes => bytes(self.effect_bytes),
            LimitName::LogBytes => bytes(self.log),
            LimitName::LogLines => count(self.log_lines),
            LimitName::Transfer => bytes(self.transfer),
            LimitName::Handles => count(self.handles),
            LimitName::Result => bytes(self.result),
            LimitName::Keys => count(self.keys),
            LimitName::ErrorBytes => bytes(self.error_bytes),
        }
    }

    /// Returns the limits with defaults. A deadline shorter than the default processor time bounds that too.
    fn filled(&self) -> Limits {
        let default = Limits::default();
        let bytes = |bytes: Option<Bytes>, default| bytes.map_or(default, |bytes| bytes.0);
        let deadline = self.deadline.map_or(default.deadline, |span| span.0);
        Limits {
            deadline,
            cpu: self.cpu.map_or(default.cpu.min(deadline), |span| span.0),
            memory_bytes_max: bytes(self.memory, default.memory_bytes_max),
            memories_max: self.memories.unwrap_or(default.memories_max),
            table_elements_max: self.tables.map_or(default.table_elements_max, u64::from),
            effects_max: self.effects.unwrap_or(default.effects_max),
            writes_max: self.writes.unwrap_or(default.writes_max),
            events_max: self.events.unwrap_or(default.events_max),
            effect_bytes_max: bytes(self.effect_bytes, default.effect_bytes_max),
            log_bytes_max: bytes(self.log, default.log_bytes_max),
            log_lines_max: self.log_lines.unwrap_or(default.log_lines_max),
            transfer_bytes_max: bytes(self.transfer, default.transfer_bytes_max),
            handles_max: self.handles.unwrap_or(default.handles_max),
            result_bytes_max: bytes(self.result, default.result_bytes_max),
            keys_max: self.keys.unwrap_or(default.keys_max),
            error_bytes_max: bytes(self.error_bytes, default.error_bytes_max),
            http_body_bytes_max: default.http_body_bytes_max,
        }
    }
}

/// Checks every bound and fills in the defaults.
pub(super) fn check(written: &LimitsWritten, problems: &mut Problems) -> Limits {
    for LimitBounds { limit, field, least, most } in LIMIT_BOUNDS {
        problems.amount(field, written.amount(limit), least..=most);
    }
    let limits = written.filled();
    for problem in limits.problems() {
        let (name, reason) = problem.split_once(": ").unwrap_or(("", &problem));
        let bounds = LIMIT_BOUNDS.iter().find(|bounds| bounds.limit.as_str() == name);
        problems.unless_named(bounds.map_or("spec.limits", |bounds| bounds.field), reason);
    }
    limits
}
