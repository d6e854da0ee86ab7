//! Requeues every key once per period, spread over the period.
//!
//! Each key has a fixed moment within the period, from a hash of its name. That gives jitter without a timer
//! or memory per key. A period is walked in slices; each slice lists the kind and requeues the keys whose
//! moment lies in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Key, Kind, Store};
use homeostat_workqueue::Priority;
use tokio::time::MissedTickBehavior;

use super::{Feeder, FeederError, Intake, IntakeError};
use crate::listing::for_each_listed;

/// Slices of a period. More slices spread the load better and list more often.
const SLICES: u32 = 16;

pub(crate) struct ResyncFeeder {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) kind: Kind,
    pub(crate) every: Duration,
}

impl Feeder for ResyncFeeder {
    fn name(&self) -> &str {
        "resync"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut ticks = tokio::time::interval(self.every / SLICES);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, when the first list of the watch is on its way anyway.
        ticks.tick().await;
        for slice in (0..SLICES).cycle() {
            ticks.tick().await;
            let mut fits = true;
            for_each_listed(&*self.store, &self.kind, |resource| {
                if slice_of(resource.key()) == slice {
                    fits &= intake.resync(resource.key().clone(), Priority::LOW) != Err(IntakeError::Full);
                }
            })
            .await?;
            // Refused keys wait for the next period: a resync reports nothing new.
            if fits { intake.mark_healthy() } else { intake.report_full() }
        }
        Ok(())
    }
}

fn slice_of(key: &Key) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    u32::try_from(hasher.finish() % u64::from(SLICES)).expect("a remainder is below its divisor")
}

#[cfg(test)]
mod tests;
