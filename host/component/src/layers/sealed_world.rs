//! The world in which a component describes itself, and converts documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::world::settings;
use crate::effect::{Answer, Blob, Call, Effect, Effects, HttpError, StoreError};

/// The reading of the wall clock in `describe` and `convert`, 2000-01-01T00:00:00Z, and of the monotonic clock.
const CLOCK_NS: u64 = 946_684_800_000_000_000;

/// A world that is the same each time for the same settings.
///
/// It answers the effects that a language's runtime needs at startup (log, clocks, randomness) and those that read the
/// controller's own settings. Clocks stand still, and randomness is deterministic. It refuses all others with their
/// import's error.
#[derive(Debug, Default)]
pub struct SealedWorld {
    config: BTreeMap<String, String>,
    usage: Mutex<DescribeUsage>,
}

/// The use of imports. Only names of imports, so their number is small.
#[derive(Debug, Default)]
struct DescribeUsage {
    /// Imports that were answered with an error.
    refused: BTreeSet<&'static str>,
    /// Whether an event was emitted, which has no error to return.
    told: bool,
    /// Random bytes drawn so far.
    drawn: u64,
}

impl SealedWorld {
    /// Creates the world of a controller with these settings.
    pub fn new(config: BTreeMap<String, String>) -> Self {
        Self { config, usage: Mutex::default() }
    }

    /// Returns the imports that were answered with an error, and whether an event was emitted.
    pub(crate) fn used(&self) -> (Vec<&'static str>, bool) {
        let used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        (used.refused.iter().copied().collect(), used.told)
    }

    /// Draws bytes from a sequence that is the same in every run.
    fn draw(&self, bytes: u32) -> Blob {
        let mut used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = (used.drawn..used.drawn + u64::from(bytes)).map(fixed_byte).collect();
        used.drawn += bytes.len() as u64;
        bytes.into()
    }
}

/// Returns one byte of a fixed pseudo-random sequence. With zeros alone, some random generators would never
/// start. Source: the finaliser of SplitMix64.
fn fixed_byte(at: u64) -> u8 {
    let mut state = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state >> 56) as u8
}

#[async_trait]
impl Effects for SealedWorld {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let reason = || format!("{} may not use {}", call.entry, effect.import());
        let answer = match &effect {
            Effect::Log { .. } => return Answer::Unit,
            Effect::Random { bytes } => return Answer::Bytes(self.draw(*bytes)),
            Effect::WallClock | Effect::MonotonicClock => return Answer::Nanoseconds(CLOCK_NS),
            Effect::Config { key } => return Answer::Config(settings(&self.config, key.as_deref())),
            Effect::Get { .. } => Answer::Resource(Err(StoreError::Forbidden(reason()))),
            Effect::List { .. } => Answer::Page(Err(StoreError::Forbidden(reason()))),
            Effect::Write(_) => Answer::Written(Err(StoreError::Forbidden(reason()))),
            Effect::Http(_) => Answer::Http(Err(HttpError::Forbidden(reason()))),
            Effect::Emit { .. } => Answer::Unit,
            Effect::Follow { .. } | Effect::FollowAll { .. } | Effect::Enqueue { .. } | Effect::Reach(_) => {
                Answer::Done(Err(StoreError::Forbidden(reason())))
            }
        };
        let mut used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        used.told |= matches!(effect, Effect::Emit { .. });
        used.refused.insert(effect.import());
        answer
    }
}

#[cfg(test)]
mod tests;
