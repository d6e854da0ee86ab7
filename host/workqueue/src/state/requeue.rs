//! A key that runs again: after a delay or a failure, or because it was added during its run; and a key that
//! is parked or dropped.

use std::time::Duration;

use super::{ClaimToken, State};
use crate::{
    DuringDelay, FinishOutcome, Key, Moment, Next, ShutdownPhase,
    item::{ItemState, NextRun},
};

/// The next place of a key.
#[derive(Clone, Copy, Debug)]
enum NextPlace {
    Forget,
    Park,
    Queue(NextRun),
}

impl<K: Key> State<K> {
    /// Ends a run whose key is not done, or was added meanwhile. `run` has its start and the run that was
    /// added.
    pub(super) fn requeue_after(
        &mut self,
        now: Moment,
        slot: u32,
        next: Next,
        (began, dirty): (Moment, Option<NextRun>),
        random: u64,
    ) -> FinishOutcome {
        let was_dirty = dirty.is_some();
        let (plan, dropped) = match next {
            Next::Drop => {
                self.counters.finished.drop += 1;
                self.counters.dropped += 1;
                (NextPlace::Forget, false)
            }
            Next::Retry { at_least, error } => {
                self.counters.finished.retry += 1;
                self.record_failure(slot, began, error);
                self.after_failure(now, slot, at_least, dirty, random)
            }
            Next::Park { error } => {
                self.counters.finished.park += 1;
                self.record_failure(slot, began, error);
                (self.merge_next_run(NextPlace::Park, dirty), false)
            }
            success => {
                self.forget_failures(slot);
                let plan = self.after_success(now, slot, success);
                (self.merge_next_run(plan, dirty), false)
            }
        };
        self.counters.dropped += u64::from(dropped);
        self.counters.requeues += u64::from(!was_dirty && matches!(plan, NextPlace::Queue(_)));
        let failures = self.slab[slot].failures();
        self.requeue(slot, plan);
        self.finished(slot, plan, failures, dropped)
    }

    /// Ends a run without a result: the key is ready again at the tail of its band, and its failures are
    /// kept.
    pub fn give_back(&mut self, now: Moment, claimed: ClaimToken<K>) {
        let now = self.tick(now);
        let slot = claimed.slot;
        let (_, dirty) = self.end_run(slot);
        self.counters.finished.returned += 1;
        let (priority, is_look) = (self.slab[slot].priority, self.slab[slot].without_event);
        self.counters.requeues += u64::from(dirty.is_none());
        // The key had already been handed out: a delay that was added meanwhile does not postpone it.
        let priority = dirty.map_or(priority, |dirty| dirty.priority.max(priority));
        let is_look = is_look && dirty.is_none_or(|dirty| dirty.without_event);
        self.requeue(slot, NextPlace::Queue(NextRun { without_event: is_look, ..NextRun::new(now, priority) }));
    }

    fn after_success(&mut self, now: Moment, slot: u32, next: Next) -> NextPlace {
        let priority = self.slab[slot].priority;
        let finishes = &mut self.counters.finished;
        match next {
            Next::After(delay) if delay > Duration::ZERO => {
                finishes.after += 1;
                NextPlace::Queue(NextRun::new(now.after(delay), priority))
            }
            Next::After(_) | Next::Again => {
                finishes.again += 1;
                NextPlace::Queue(NextRun::new(now, priority))
            }
            Next::Done | Next::Drop | Next::Retry { .. } | Next::Park { .. } => {
                finishes.done += 1;
                NextPlace::Forget
            }
        }
    }

    /// Returns the next place, and whether the key is given up.
    fn after_failure(
        &mut self,
        now: Moment,
        slot: u32,
        at_least: Option<Duration>,
        dirty: Option<NextRun>,
        random: u64,
    ) -> (NextPlace, bool) {
        let backoff = self.options.backoff;
        let item = &mut self.slab[slot];
        if backoff.used_up(item.failures()) {
            let plan = self.merge_next_run(NextPlace::Park, dirty);
            return (plan, matches!(plan, NextPlace::Park));
        }
        let delay = backoff.delay(item.failures(), random).max(at_least.unwrap_or_default());
        let until = now.after(delay);
        item.back_off(until);
        let plan = NextPlace::Queue(NextRun::new(until, item.priority));
        self.counters.retries += 1;
        (self.merge_next_run(plan, dirty), false)
    }

    /// Merges the run that was added meanwhile: the higher priority and the earlier due time. If delays are
    /// floors, or the delay of the added run is one, the later due time.
    fn merge_next_run(&self, plan: NextPlace, dirty: Option<NextRun>) -> NextPlace {
        let Some(dirty) = dirty else { return plan };
        match plan {
            NextPlace::Forget | NextPlace::Park => NextPlace::Queue(dirty),
            NextPlace::Queue(run) => {
                let is_floor = dirty.is_floor && dirty.due > self.now;
                let hold = is_floor || self.options.during_delay == DuringDelay::Hold;
                NextPlace::Queue(NextRun {
                    due: if hold { run.due.max(dirty.due) } else { run.due.min(dirty.due) },
                    priority: run.priority.max(dirty.priority),
                    without_event: run.without_event && dirty.without_event,
                    is_floor,
                })
            }
        }
    }

    /// Moves a detached key to its next place, as far as a closing queue allows it.
    fn requeue(&mut self, slot: u32, plan: NextPlace) {
        match plan {
            NextPlace::Queue(NextRun { due, priority, without_event, is_floor }) if self.accepts_requeue(due) => {
                let item = &mut self.slab[slot];
                (item.priority, item.without_event) = (priority, without_event);
                self.enqueue(slot, due, is_floor);
            }
            NextPlace::Park if self.phase == ShutdownPhase::Open => {
                self.slab[slot].stage = ItemState::Parked;
                self.parked.push(&mut self.slab, slot);
            }
            NextPlace::Queue(_) => {
                self.drop_run(slot);
            }
            NextPlace::Forget | NextPlace::Park => self.remove(slot),
        }
        self.stop_if_drained();
    }

    /// Returns whether a key with that due time still gets its run.
    fn accepts_requeue(&self, due: Moment) -> bool {
        match self.phase {
            ShutdownPhase::Open => true,
            ShutdownPhase::Draining => due <= self.now,
            ShutdownPhase::Stopped | ShutdownPhase::Aborted => false,
        }
    }

    fn finished(&self, slot: u32, plan: NextPlace, failures: u32, dropped: bool) -> FinishOutcome {
        let item = match plan {
            NextPlace::Forget => None,
            NextPlace::Park | NextPlace::Queue(_) => self.slab.get(slot),
        };
        let due_in = item.and_then(|item| match item.stage {
            ItemState::Waiting { due, .. } => Some(due.since(self.now)),
            _ => None,
        });
        FinishOutcome { state: item.map(|item| item.key_state()), failures, due_in, dropped }
    }
}
