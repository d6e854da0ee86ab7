//! The guest as a feeder: its `poll` is called at once, then at a fixed rate, never twice at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::Severity;
use tokio::time::MissedTickBehavior;

use super::{Feeder, FeederError, Intake, add_answered};
use crate::context::Context;
use crate::slot::{CallTarget, LoadedVersion, Slot};

pub(crate) struct PollFeeder {
    pub(crate) controller: Arc<str>,
    pub(crate) slot: Arc<Slot>,
    /// The candidate for which it was begun.
    pub(crate) owner: Option<Weak<LoadedVersion>>,
    pub(crate) context: Arc<Context>,
    pub(crate) every: Duration,
}

#[async_trait]
impl Feeder for PollFeeder {
    fn name(&self) -> &str {
        "poll"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        at_fixed_rate(self.every, || self.poll(intake)).await;
        Ok(())
    }
}

/// Calls `poll` at once and then once per period, each time when the last call has ended, without end.
async fn at_fixed_rate<F: Future<Output = ()> + Send>(every: Duration, mut poll: impl FnMut() -> F + Send) {
    let mut ticks = tokio::time::interval(every);
    // A poll that overran is followed by one at once, however many it has covered, and moves none of the later ones.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        poll().await;
    }
}

impl PollFeeder {
    /// Polls once. A failure is an event; the next tick tries again.
    async fn poll(&self, intake: &Intake) {
        let CallTarget { loaded, canary: trial } = self.slot.call_target(self.owner.as_ref());
        if loaded.settings.poll.is_none() {
            // Nobody wants it any more: it is about to end.
            return;
        }
        let report = loaded.component().poll(&self.controller, &loaded.definition.limits, loaded.effects.clone()).await;
        match report.result {
            // What finds no room comes again with the next poll.
            Ok(keys) => {
                let _fits = add_answered(intake, keys, None, "poll", |message| {
                    self.context.event(&self.controller, None, Severity::Warning, "KeyRefused", message);
                });
            }
            Err(fault) => {
                if let Some((trial, side)) = trial {
                    trial.note_asked(side, &fault);
                }
                self.context.event(&self.controller, None, Severity::Warning, "PollFailed", &fault.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests;
