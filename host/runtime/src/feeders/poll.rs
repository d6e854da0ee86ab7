//! The guest as a feeder: calls its `poll` at once, then at a fixed rate, never twice at the same time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use homeostat_component::Severity;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Feeder, FeederError, Intake, add_answered};
use crate::context::Context;
use crate::fleet::GateEntry;
use crate::scheduler::Tenant;
use crate::slot::LoadedVersion;
use crate::slot::{CallTarget, Slot};

#[derive(Clone)]
pub(crate) struct PollFeeder {
    pub(crate) controller: Arc<str>,
    pub(crate) slot: Arc<Slot>,
    /// The canary that it was started for.
    pub(crate) owner: Option<Weak<LoadedVersion>>,
    pub(crate) context: Arc<Context>,
    pub(crate) every: Duration,
    pub(crate) account: Tenant,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the controller is removed.
    pub(crate) end: CancellationToken,
}

impl Feeder for PollFeeder {
    fn name(&self) -> &str {
        "poll"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        at_fixed_rate(self.every, || self.poll(intake)).await;
        Ok(())
    }
}

/// Calls `poll` at once and then once per period, always after the previous call has ended. Never returns.
async fn at_fixed_rate<F: Future<Output = ()> + Send>(every: Duration, mut poll: impl FnMut() -> F + Send) {
    let mut ticks = tokio::time::interval(every);
    // A late poll is followed by one at once, however many periods it covered; later ones keep their times.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        poll().await;
    }
}

impl PollFeeder {
    /// Polls once, under any lease of the controller where it has leases.
    async fn poll(&self, intake: &Intake) {
        match self.slot.placement.enter_any() {
            GateEntry::Free => self.call(intake).await,
            // The lease is lost or drains: this feeder is about to end.
            GateEntry::Refused => {}
            inside @ GateEntry::Inside(_) => self.call_inside(inside, intake).await,
        }
    }

    /// Calls `poll` in a task of its own. A drain ends this feeder at once, and the lease is released when the call has
    /// ended. The loss of the lease aborts the call, and so does every other end of this feeder.
    async fn call_inside(&self, inside: GateEntry, intake: &Intake) {
        let ended = CancellationToken::new();
        let _ended = ended.clone().drop_guard();
        let (feeder, intake) = (self.clone(), intake.clone());
        let call = async move {
            let replaced = async {
                ended.cancelled().await;
                if !feeder.slot.placement.is_holder() {
                    // The host drains: the keeper of the lease aborts the call at its deadline.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = feeder.call(&intake) => {}
                () = inside.lost() => {}
                () = feeder.end.cancelled() => {}
                () = replaced => {}
            }
        };
        let called = self.tasks.spawn(self.account.run(|_| call)).await;
        if let Err(error) = called
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    /// Calls `poll`. A failure is recorded as an event; the next tick polls again.
    async fn call(&self, intake: &Intake) {
        let CallTarget { loaded, canary: trial } = self.slot.call_target(self.owner.as_ref());
        if loaded.settings.poll.is_none() {
            // The version no longer polls: this feeder is about to end.
            return;
        }
        let report = loaded.component().poll(&self.controller, &loaded.definition.limits, loaded.effects.clone()).await;
        match report.result {
            // Refused keys come again with the next poll.
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
