//! Looks at every key again, once per period, spread over it.
//!
//! Each key has its own fixed moment within the period, from a hash of its name: that is jitter without a timer per key, and nothing
//! to remember. A period is walked in slices; each slice lists the kind and adds the keys whose moment lies in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_store::{Key, Kind, Store};
use homeostat_workqueue::Priority;
use tokio::time::MissedTickBehavior;

use super::{Feeder, FeederError, Intake, IntakeError};
use crate::context::for_each_listed;

/// Slices of a period. More spread the load better and list more often.
const SLICES: u32 = 16;

pub(crate) struct ResyncFeeder {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) kind: Kind,
    pub(crate) every: Duration,
}

#[async_trait]
impl Feeder for ResyncFeeder {
    fn name(&self) -> &str {
        "resync"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut ticks = tokio::time::interval(self.every / SLICES);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, when the watch's first list is on its way anyway.
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
            // What finds no room has its turn in the next period: it is a second look, and tells nothing new.
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
