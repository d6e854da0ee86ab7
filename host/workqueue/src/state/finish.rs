//! What becomes of a key when its claim ends.

use std::time::Duration;

use super::{Claimed, State};
use crate::{
    DuringDelay, Finished, Key, Moment, Next, Phase, Priority,
    item::{Dirty, Place},
};

/// Where a key goes.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Forget,
    Park,
    Queue { due: Moment, priority: Priority, is_look: bool },
}

impl<K: Key> State<K> {
    /// Ends a run with what becomes of its key. `random` is any 64 bits, for the jitter of the backoff.
    pub fn finish(&mut self, now: Moment, claimed: Claimed<K>, next: Next, random: u64) -> Finished {
        self.finish_slot(now, claimed.slot, next, random)
    }

    /// As [`State::finish`], for whoever has the proof and would rather not move it here.
    pub(crate) fn finish_slot(&mut self, now: Moment, slot: u32, next: Next, random: u64) -> Finished {
        let now = self.tick(now);
        let (began, dirty) = self.end_run(slot);
        self.closing.finished += u64::from(self.phase != Phase::Open);
        if matches!(next, Next::Done) && dirty.is_none() {
            // Nearly always: there is nothing to merge and nothing to keep.
            self.counters.finished.done += 1;
            self.remove(slot);
            self.wind_up();
            return Finished { state: None, failures: 0, due_in: None, dropped: false };
        }
        let was_dirty = dirty.is_some();
        let (plan, dropped) = match next {
            Next::Drop => {
                self.counters.finished.drop += 1;
                self.counters.dropped += 1;
                (Plan::Forget, false)
            }
            Next::Retry { at_least, error } => {
                self.counters.finished.retry += 1;
                self.fail(slot, began, error);
                self.after_failure(now, slot, at_least, dirty, random)
            }
            Next::Park { error } => {
                self.counters.finished.park += 1;
                self.fail(slot, began, error);
                (self.merged(Plan::Park, dirty), false)
            }
            success => {
                self.succeed(slot);
                let plan = self.after_success(now, slot, success);
                (self.merged(plan, dirty), false)
            }
        };
        self.counters.dropped += u64::from(dropped);
        self.counters.requeues += u64::from(!was_dirty && matches!(plan, Plan::Queue { .. }));
        let failures = self.slab[slot].failures();
        self.follow(slot, plan);
        self.finished(slot, plan, failures, dropped)
    }

    /// Ends a run that came to no result: the key is ready again at the tail of its band, with its failures kept.
    pub fn give_back(&mut self, now: Moment, claimed: Claimed<K>) {
        let now = self.tick(now);
        let slot = claimed.slot;
        let (_, dirty) = self.end_run(slot);
        self.counters.finished.returned += 1;
        let (priority, is_look) = (self.slab[slot].priority, self.slab[slot].is_look);
        self.counters.requeues += u64::from(dirty.is_none());
        // Its turn had come: no delay that somebody asked for meanwhile puts it off.
        let priority = dirty.map_or(priority, |dirty| dirty.priority.max(priority));
        let is_look = is_look && dirty.is_none_or(|dirty| dirty.is_look);
        self.follow(slot, Plan::Queue { due: now, priority, is_look });
    }

    /// Takes the key out of the running ones and returns when its run began, and the run that was added
    /// meanwhile.
    fn end_run(&mut self, slot: u32) -> (Moment, Option<Dirty>) {
        let Place::Running { since, dirty } = self.slab[slot].place else {
            unreachable!("a claimed key is running until its claim ends")
        };
        self.running.leave(&mut self.slab, slot);
        self.running_since -= u128::from(since.nanos());
        self.dirty -= usize::from(dirty.is_some());
        (since, dirty)
    }

    fn after_success(&mut self, now: Moment, slot: u32, next: Next) -> Plan {
        let priority = self.slab[slot].priority;
        let finishes = &mut self.counters.finished;
        match next {
            Next::After(delay) if delay > Duration::ZERO => {
                finishes.after += 1;
                Plan::Queue { due: now.after(delay), priority, is_look: false }
            }
            Next::After(_) | Next::Again => {
                finishes.again += 1;
                Plan::Queue { due: now, priority, is_look: false }
            }
            Next::Done | Next::Drop | Next::Retry { .. } | Next::Park { .. } => {
                finishes.done += 1;
                Plan::Forget
            }
        }
    }

    /// Returns the plan, and whether the key is given up.
    fn after_failure(
        &mut self,
        now: Moment,
        slot: u32,
        at_least: Option<Duration>,
        dirty: Option<Dirty>,
        random: u64,
    ) -> (Plan, bool) {
        let backoff = self.options.backoff;
        let item = &mut self.slab[slot];
        if backoff.used_up(item.failures()) {
            let plan = self.merged(Plan::Park, dirty);
            return (plan, matches!(plan, Plan::Park));
        }
        let delay = backoff.delay(item.failures(), random).max(at_least.unwrap_or_default());
        let until = now.after(delay);
        item.back_off(until);
        let plan = Plan::Queue { due: until, priority: item.priority, is_look: false };
        self.counters.retries += 1;
        (self.merged(plan, dirty), false)
    }

    /// Merges the run that was added meanwhile into the plan: the higher priority and the earlier due time, or the later one where
    /// delays are floors.
    fn merged(&self, plan: Plan, dirty: Option<Dirty>) -> Plan {
        let Some(dirty) = dirty else { return plan };
        match plan {
            Plan::Forget | Plan::Park => {
                let Dirty { due, priority, is_look } = dirty;
                Plan::Queue { due, priority, is_look }
            }
            Plan::Queue { due, priority, is_look } => {
                let due = match self.options.during_delay {
                    DuringDelay::RunNow => due.min(dirty.due),
                    DuringDelay::Hold => due.max(dirty.due),
                };
                let is_look = is_look && dirty.is_look;
                Plan::Queue { due, priority: priority.max(dirty.priority), is_look }
            }
        }
    }

    /// Puts a key that is nowhere where the plan says, or where a closing queue puts it.
    fn follow(&mut self, slot: u32, plan: Plan) {
        match plan {
            Plan::Queue { due, priority, is_look } if self.takes_back(due) => {
                let item = &mut self.slab[slot];
                (item.priority, item.is_look) = (priority, is_look);
                self.place(slot, due);
            }
            Plan::Park if self.phase == Phase::Open => {
                self.slab[slot].place = Place::Parked;
                self.parked.push(&mut self.slab, slot);
            }
            Plan::Queue { .. } => {
                self.lose(slot);
            }
            Plan::Forget | Plan::Park => self.remove(slot),
        }
        self.wind_up();
    }

    /// Says whether a key that is due then still gets its run.
    fn takes_back(&self, due: Moment) -> bool {
        match self.phase {
            Phase::Open => true,
            Phase::Draining => due <= self.now,
            Phase::Stopped | Phase::Aborted => false,
        }
    }

    fn finished(&self, slot: u32, plan: Plan, failures: u32, dropped: bool) -> Finished {
        let item = match plan {
            Plan::Forget => None,
            Plan::Park | Plan::Queue { .. } => self.slab.get(slot),
        };
        let due_in = item.and_then(|item| match item.place {
            Place::Waiting { due, .. } => Some(due.since(self.now)),
            _ => None,
        });
        Finished { state: item.map(|item| item.state()), failures, due_in, dropped }
    }
}
