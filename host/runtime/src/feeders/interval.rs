//! The feeder `interval`: adds its keys once per period.
//!
//! The moments lie on a fixed grid of the clock, shifted by a hash of the controller and the feeder. So the
//! feeders of many controllers spread over the period, a restart changes no moment, and all hosts of a fleet
//! add the keys of their shards at the same moment. A moment that passes while the feeder does not run is
//! left out.

use std::sync::atomic::{AtomicBool, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use super::key_adder::KeyAdder;
use super::{Feeder, FeederError, Intake};
use crate::clock::WallClock;
use crate::feeder_definition::Interval;

pub(crate) struct IntervalFeeder {
    /// For events and logs.
    name: String,
    interval: Interval,
    seed: u64,
    adder: KeyAdder,
    clock: WallClock,
    /// A failed run is repeated after the restart.
    is_owed: AtomicBool,
}

impl IntervalFeeder {
    pub(crate) fn new(controller: &str, interval: Interval, adder: KeyAdder, clock: WallClock) -> Self {
        let feeder = &adder.definition.name;
        let seed = xxh3_64(format!("{controller}/{feeder}").as_bytes());
        Self { name: format!("interval {feeder}"), interval, seed, adder, clock, is_owed: AtomicBool::new(false) }
    }
}

impl Feeder for IntervalFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        loop {
            if self.is_owed.load(Ordering::Relaxed) {
                intake.note_run(self.clock.now());
                self.adder.add_all(intake).await?;
                intake.mark_healthy();
                self.is_owed.store(false, Ordering::Relaxed);
            }
            let next = self.interval.next_after(self.clock.now(), self.seed);
            intake.note_next(next);
            self.clock.sleep_until(next).await;
            self.is_owed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
