//! The guest as a feeder: its `poll` is called at once, then at a fixed rate, never twice at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::Severity;
use homeostat_workqueue::Priority;
use tokio::time::MissedTickBehavior;

use super::{Feeder, FeederError, Intake};
use crate::context::Context;
use crate::slot::Slot;

pub(crate) struct PollFeeder {
    pub(crate) controller: Arc<str>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) context: Arc<Context>,
    pub(crate) every: Duration,
}

#[async_trait]
impl Feeder for PollFeeder {
    fn name(&self) -> &str {
        "poll"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut ticks = tokio::time::interval(self.every);
        // A poll that overran costs the ticks it slept through, and moves no other.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.poll(intake).await;
        }
    }
}

impl PollFeeder {
    /// Polls once. A failure is an event; the next tick tries again.
    async fn poll(&self, intake: &Intake) {
        let loaded = self.slot.current();
        let report = loaded.component().poll(&self.controller, &loaded.definition.limits, loaded.effects.clone()).await;
        match report.result {
            Ok(keys) => {
                let asked = keys.len();
                let added = keys.into_iter().filter(|key| intake.add(key.clone(), Priority::NORMAL)).count();
                if added < asked {
                    tracing::warn!(controller = %self.controller, dropped = asked - added, "poll answered keys of another kind");
                }
            }
            Err(fault) => {
                self.context.event(&self.controller, None, Severity::Warning, "PollFailed", &fault.to_string());
            }
        }
    }
}
