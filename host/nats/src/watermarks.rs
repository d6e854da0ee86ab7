//! When the bucket had which sequence, so far as this host has seen it.
//!
//! A marker of a deletion expires, and then the server does not tell the deletion any more. So the changes
//! since a sequence can be read from the bucket only if the sequence is younger than the markers.
//!
//! Pure: the time is an argument.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

/// Samples within the age.
const SAMPLES: u32 = 16;

/// Samples of the last sequence, in the order of time. At most [`SAMPLES`] and one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watermarks {
    age_max: Duration,
    samples: VecDeque<(Duration, u64)>,
}

impl Watermarks {
    /// Answers for sequences that are at most this old.
    pub(crate) fn new(age_max: Duration) -> Self {
        Self { age_max, samples: VecDeque::new() }
    }

    /// Notes that the bucket had no sequence above this one until now.
    pub(crate) fn note(&mut self, now: Duration, last: u64) {
        let is_due = self.samples.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= self.age_max / SAMPLES);
        if !is_due {
            return;
        }
        while self.samples.front().is_some_and(|(at, _)| now.saturating_sub(*at) > self.age_max) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, last));
    }

    /// Returns whether the bucket had this sequence within the age: later changes can be told from the
    /// bucket.
    pub(crate) fn is_recent(&self, now: Duration, sequence: u64) -> bool {
        let sample = self.samples.iter().rev().find(|(_, last)| *last <= sequence);
        sample.is_some_and(|(at, _)| now.saturating_sub(*at) <= self.age_max)
    }

    /// Forgets all: the bucket is another one.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
    }
}
