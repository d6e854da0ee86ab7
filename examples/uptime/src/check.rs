//! The document of a monitor, and the status that one check leads to.

use homeostat_sdk::http;
use homeostat_sdk::prelude::*;

const UP: &str = "Up";
const INVALID: &str = "InvalidAddress";

#[derive(Debug, Clone, Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = MonitorStatus)]
#[resource(shortname = "mon", printcolumn(name = "State", type = "string", json_path = ".status.state"))]
#[resource(printcolumn(name = "Since", type = "date", json_path = ".status.since"))]
#[resource(printcolumn(name = "Code", type = "integer", json_path = ".status.lastCode", priority = 1))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Monitor {
    pub(crate) url: String,
    #[serde(default = "thirty_seconds")]
    pub(crate) every: Span,
    #[serde(default = "five_seconds")]
    pub(crate) timeout: Span,
    /// The only healthy status code. Without it, 200 to 399 are healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expect_status: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MonitorStatus {
    pub(crate) observed_generation: u64,
    pub(crate) state: State,
    /// The time since when it is in that state.
    pub(crate) since: Time,
    pub(crate) checked_at: Time,
    /// The number of checks.
    pub(crate) checks: u64,
    /// The latency of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_millis: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_code: Option<u16>,
    /// The reason why there was no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) conditions: Conditions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    Up,
    Down,
}

/// The result of a check: a status code and the latency, or an error.
pub(crate) type Answer = std::result::Result<(u16, Duration), http::Error>;

/// The time of a monitor's next check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// It was checked recently.
    In(Duration),
    /// Not before the monitor changes: its address is invalid.
    Never(String),
}

impl Monitor {
    /// Returns whether it is time for a check. A changed monitor is checked at once. So is one that did not
    /// respond: the host's backoff determines the time of the retry.
    pub(crate) fn due(&self, generation: u64, status: Option<&MonitorStatus>, now: Time) -> Due {
        let Some(status) = status.filter(|status| status.observed_generation == generation) else {
            return Due::Now;
        };
        let passed = now.since(status.checked_at);
        match &status.error {
            Some(error) if status.conditions.get(UP).is_some_and(|up| up.reason == INVALID) => {
                Due::Never(error.clone())
            }
            Some(_) => Due::Now,
            None => match self.every.0.saturating_sub(passed) {
                Duration::ZERO => Due::Now,
                missing => Due::In(missing),
            },
        }
    }

    fn is_good(&self, code: u16) -> bool {
        self.expect_status.map_or((200..400).contains(&code), |expected| expected == code)
    }

    /// Returns the status after a check.
    pub(crate) fn judge(
        &self,
        generation: u64,
        last: Option<&MonitorStatus>,
        answer: &Answer,
        now: Time,
    ) -> MonitorStatus {
        let (state, reason, message) = match answer {
            Ok((code, _)) if self.is_good(*code) => (State::Up, "Answered", format!("answered {code}")),
            Ok((code, _)) => (State::Down, "UnexpectedStatus", format!("answered {code}")),
            Err(error @ http::Error::Invalid(_)) => (State::Down, INVALID, error.to_string()),
            Err(error) => (State::Down, "NoAnswer", error.to_string()),
        };
        let up = Condition::new(UP, state == State::Up).because(reason, message).observed(generation);
        let mut conditions = last.map(|last| last.conditions.clone()).unwrap_or_default();
        conditions.set_at(up, || now);
        let answered = answer.as_ref().ok();
        MonitorStatus {
            observed_generation: generation,
            state,
            since: last.filter(|last| last.state == state).map_or(now, |last| last.since),
            checked_at: now,
            checks: last.map_or(0, |last| last.checks) + 1,
            latency_millis: answered.map(|(_, latency)| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
            last_code: answered.map(|(code, _)| *code),
            error: answer.as_ref().err().map(ToString::to_string),
            conditions,
        }
    }
}

fn thirty_seconds() -> Span {
    Span(Duration::from_secs(30))
}

fn five_seconds() -> Span {
    Span(Duration::from_secs(5))
}

#[cfg(test)]
mod tests;
