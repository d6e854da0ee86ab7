//! How many requests a client sends at once. Pure: the caller measures the time.
//!
//! The server says when a client sends too many, by answering 429. The client halves its number of requests in
//! flight then, and adds one for each run of answers without. So clients of one server share it as TCP streams
//! share a link.

use std::time::Duration;

use homeostat_store::cached::ExponentialBackoff;

/// Fewest requests in flight after many refusals.
const LIMIT_MIN: usize = 4;
/// Answers without a refusal after which the limit grows by one.
const CLEAN_ANSWERS: usize = 50;

/// How many requests may be in flight, and how many are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pace {
    in_flight: usize,
    limit: usize,
    limit_max: usize,
    clean_answers: usize,
    /// Least time between the starts of two requests, once the burst of one second is used up.
    spacing: Option<Duration>,
    /// When the request after the last one would start if all requests were spaced.
    next_start: Duration,
}

/// Why a request has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For the end of another request.
    Slot,
    /// For a point in time.
    Until(Duration),
}

impl Pace {
    /// Creates a pace with at most `limit_max` requests in flight, 1 or more, and `per_second_max` a second.
    pub(crate) fn new(limit_max: usize, per_second_max: Option<u32>) -> Self {
        let limit_max = limit_max.max(1);
        Self {
            in_flight: 0,
            limit: limit_max,
            limit_max,
            clean_answers: 0,
            spacing: per_second_max.map(|count| Duration::from_secs(1) / count.max(1)),
            next_start: Duration::ZERO,
        }
    }

    /// Starts a request, or says what to wait for. Each start has to be followed by [`Pace::end`].
    pub(crate) fn start(&mut self, now: Duration) -> Result<(), Wait> {
        if self.in_flight >= self.limit {
            return Err(Wait::Slot);
        }
        if let Some(spacing) = self.spacing {
            // One second's worth of requests may start at once.
            let earliest = self.next_start.saturating_sub(Duration::from_secs(1).saturating_sub(spacing));
            if now < earliest {
                return Err(Wait::Until(earliest));
            }
            self.next_start = self.next_start.max(now) + spacing;
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Ends a request. `refused` says that the server asked for fewer.
    pub(crate) fn end(&mut self, refused: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if refused {
            self.limit = (self.limit / 2).max(LIMIT_MIN).min(self.limit_max);
            self.clean_answers = 0;
            return;
        }
        self.clean_answers += 1;
        if self.clean_answers >= CLEAN_ANSWERS {
            self.clean_answers = 0;
            self.limit = (self.limit + 1).min(self.limit_max);
        }
    }

    /// Returns whether another request may start now, as far as the number in flight goes.
    pub(crate) fn has_slot(&self) -> bool {
        self.in_flight < self.limit
    }
}

/// Longest wait that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// Wait between tries. Its spread is also that of a wait that the server names.
const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(200), longest: Duration::from_secs(5), spread: (1.0, 1.5) };

/// Returns the wait before the next try of a refused request. `retries` is the number of tries before. `jitter` is from 0
/// to 1, and adds up to a half.
///
/// A busy server knows when it has room, so its wait is honoured. A server that starts asks for five seconds, and is ready
/// in one or two: its wait is the longest one.
pub(crate) fn wait(refusal: Refusal, retries: u32, jitter: f64) -> Duration {
    let doubling = BACKOFF.delay(retries.saturating_add(1), jitter);
    match refusal {
        Refusal::Busy { retry_after: Some(asked) } => BACKOFF.spread(asked.min(RETRY_AFTER_MAX), jitter),
        Refusal::Busy { retry_after: None } => doubling,
        Refusal::Unavailable { retry_after } => doubling.min(BACKOFF.spread(retry_after, jitter)),
    }
}

/// Why a server refused a request without doing anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 429: there are too many requests.
    Busy {
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// 503 with a wait: the server, or a part of it, has not started yet. Source: the handler of unknown paths in
    /// kube-apiserver.
    Unavailable {
        /// The wait that the server asks for.
        retry_after: Duration,
    },
}

#[cfg(test)]
mod tests;
