//! The feeder `cron`: adds its keys at the moments of a schedule.
//!
//! The moment of the last run is in the status of the controller, so a restart of the host, or another host, knows
//! which runs were missed.

use homeostat_component::Severity;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::key_adder::KeyAdder;
use super::run_record::RunRecord;
use super::{Feeder, FeederError, Intake};
use crate::clock::WallClock;
use crate::cron::{DueRuns, MISSED_RUNS_MAX};
use crate::feeder_definition::Cron;

pub(crate) struct CronFeeder {
    /// For events and logs.
    name: String,
    cron: Cron,
    adder: KeyAdder,
    record: RunRecord,
    clock: WallClock,
    progress: Mutex<Progress>,
}

/// The progress of the feeder, over its restarts after failures.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// All runs until then have started or were skipped. `None` before the record was read.
    done: Option<Timestamp>,
    /// The run that has started and has not added all of its keys.
    owed: Option<Timestamp>,
}

impl CronFeeder {
    pub(crate) fn new(cron: Cron, adder: KeyAdder, record: RunRecord, clock: WallClock) -> Self {
        let name = format!("cron {}", adder.definition.name);
        Self { name, cron, adder, record, clock, progress: Mutex::default() }
    }

    /// Returns the moment until which all runs are done. Without a record, it is now: earlier runs were never wanted.
    async fn done(&self, intake: &Intake) -> Result<Timestamp, FeederError> {
        let known = self.progress.lock().done;
        if let Some(done) = known {
            return Ok(done);
        }
        let now = self.clock.now();
        // A record from the future is that of a wrong clock.
        let last = self.record.last().await?.filter(|last| *last <= now);
        if let Some(last) = last {
            intake.note_run(last);
        }
        let done = last.unwrap_or(now);
        self.progress.lock().done = Some(done);
        Ok(done)
    }

    /// Reports missed runs.
    fn report_missed(&self, intake: &Intake, DueRuns { last, missed, starts }: DueRuns) {
        if missed == 0 {
            return;
        }
        intake.note_missed(missed);
        let at_least = if missed == MISSED_RUNS_MAX { "at least " } else { "" };
        let then = if starts { "one run starts now" } else { "they are skipped" };
        let message = format!("{}: missed {at_least}{missed} runs until {last:.0}: {then}", self.name);
        intake.emit_event(Severity::Warning, "RunsMissed", &message);
    }

    /// Adds the keys of the run that is owed.
    async fn run_owed(&self, intake: &Intake, owed: Timestamp) -> Result<(), FeederError> {
        intake.note_run(self.clock.now());
        self.adder.add_all(intake).await?;
        *self.progress.lock() = Progress { done: Some(owed), owed: None };
        Ok(())
    }
}

impl Feeder for CronFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        loop {
            let mut done = self.done(intake).await?;
            let owed = self.progress.lock().owed;
            if let Some(owed) = owed {
                self.run_owed(intake, owed).await?;
                done = owed;
            }
            self.record.write(done).await?;
            intake.mark_healthy();
            let now = self.clock.now();
            if let Some(due) = self.cron.schedule.due(done, now, self.cron.missed) {
                self.report_missed(intake, due);
                let mut progress = self.progress.lock();
                match due.starts {
                    true => progress.owed = Some(due.last),
                    false => progress.done = Some(due.last),
                }
                continue;
            }
            let Some(next) = self.cron.schedule.next_after(now.max(done)) else { return Ok(()) };
            intake.note_next(next);
            self.clock.sleep_until(next).await;
        }
    }
}

#[cfg(test)]
mod tests;
