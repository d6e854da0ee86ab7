//! What a queue can be told about itself.

use std::num::NonZeroU32;

use crate::{Backoff, Priority};

/// The default of [`Options::ageing_claims`]. Under full load the highest band keeps four claims of five.
pub const AGEING_CLAIMS: NonZeroU32 = NonZeroU32::new(16).expect("16 is not zero");

/// The settings of one queue. All can be changed while it runs: [`Queue::configure`](crate::Queue::configure).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What an event does to a key that waits for its due time.
    pub during_delay: DuringDelay,
    /// How long a key waits after failures.
    pub backoff: Backoff,
    /// After how many claims in a row from other bands a band with ready keys is served out of turn.
    ///
    /// The first key of a band is passed over by at most [`Options::passes_max`] claims, so no band starves.
    pub ageing_claims: NonZeroU32,
    /// How many keys the queue has at most; `None`: as many as there is memory for, and 2³²−1. One more is refused.
    pub keys_max: Option<u32>,
    /// Bytes of the texts of its keys' errors that the queue keeps at most; `None`: any number. Where there is no room for one, a
    /// sentence that says so stands in its place.
    pub error_bytes_max: Option<u64>,
    /// The seed of the jitter; `None` takes one from the operating system. Read once, when the queue is made.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            during_delay: DuringDelay::default(),
            backoff: Backoff::default(),
            ageing_claims: AGEING_CLAIMS,
            keys_max: None,
            error_bytes_max: None,
            seed: None,
        }
    }
}

impl Options {
    /// Returns how many claims can go to other bands while a band has a ready key: the bound on starvation.
    ///
    /// A band waits for `ageing_claims` claims, and then at most for the four others that have waited longer.
    pub fn passes_max(&self) -> u32 {
        let others = Priority::ALL.len() as u32 - 1;
        self.ageing_claims.get().saturating_add(others)
    }
}

/// What an event does to a key that waits for its due time, whoever asked for the delay: its last run, the backoff after a failure, a
/// feeder ([`add_after`](crate::Queue::add_after)) or a person ([`postpone`](crate::Queue::postpone)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuringDelay {
    /// The key runs now and the delay is forgotten. Of two delays the shorter is kept.
    #[default]
    RunNow,
    /// The delay is a floor: the key runs when it is over, and no add makes it shorter or longer. Where a run ends with a delay, and a
    /// feeder asked for another one meanwhile, the key waits for the longer.
    ///
    /// Source: simple-controller-runtime's work queue, in which further enqueues of a waiting item "do not supersede the requested
    /// time interval".
    Hold,
}
