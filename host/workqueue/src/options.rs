//! The settings of a queue.

use std::num::NonZeroU32;

use crate::{Backoff, Priority};

/// The default of [`Options::ageing_claims`]. Under full load the highest band gets four claims of five.
pub const AGEING_CLAIMS: NonZeroU32 = NonZeroU32::new(16).expect("16 is not zero");

/// The settings of one queue. [`Queue::configure`](crate::Queue::configure) changes all of them on a running
/// queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The effect of an event on a key that waits for its due time.
    pub during_delay: DuringDelay,
    /// The wait of a key after failures.
    pub backoff: Backoff,
    /// After how many claims in a row from other bands a band with ready keys is served out of turn.
    ///
    /// At most [`Options::passes_max`] claims pass over the first key of a band, so no band starves.
    pub ageing_claims: NonZeroU32,
    /// Keys in the queue at most; `None`: bounded by memory, and by 2³²−1. One more key is refused.
    pub keys_max: Option<u32>,
    /// Bytes of error texts in the queue at most; `None`: unlimited. A text that does not fit is replaced by
    /// a sentence that says so.
    pub error_bytes_max: Option<u64>,
    /// The seed of the jitter; `None` takes one from the operating system. Read once, when the queue is
    /// created.
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
    /// A band waits for `ageing_claims` claims, and then for one claim of each of the four other bands at
    /// most.
    pub fn passes_max(&self) -> u32 {
        let others = Priority::ALL.len() as u32 - 1;
        self.ageing_claims.get().saturating_add(others)
    }
}

/// The effect of an event on a key that waits for its due time. The source of the delay does not matter: its
/// last run, the backoff after a failure, a feeder ([`add_after`](crate::Queue::add_after)) or a person
/// ([`postpone`](crate::Queue::postpone)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuringDelay {
    /// The key runs now and the delay is discarded. Of two delays the shorter one wins.
    #[default]
    RunNow,
    /// The delay is a floor: the key runs when it is over, and no add changes it. If a run ends with a delay
    /// and a feeder has asked for another one meanwhile, the longer one wins.
    ///
    /// Source: simple-controller-runtime's work queue, in which further enqueues of a waiting item "do not
    /// supersede the requested time interval".
    Hold,
}
