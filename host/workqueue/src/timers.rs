//! The due times of the waiting keys.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::Moment;

/// The due time of one entry. Ordered by due time, then by the order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub(crate) due: Moment,
    /// Distinguishes the timers of one entry. Wraps after 2³² timers; the only effect is on the order of two
    /// keys that are due in the same nanosecond.
    pub(crate) order: u32,
    pub(crate) slot: u32,
}

/// A heap of due times. Removal is lazy: a timer is *dead* once its entry has moved on. Dead timers are
/// skipped at the top of the heap, and swept when they are more than half of it. Only the caller can tell
/// which timers are live, hence the `live` arguments.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    dead: usize,
    order: u32,
}

/// The heap is neither shrunk nor swept below this many timers.
const TIMERS_KEPT: usize = 64;

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { heap: BinaryHeap::new(), dead: 0, order: 0 }
    }

    /// Returns the number of keys with a timer.
    pub(crate) fn len(&self) -> usize {
        self.heap.len() - self.dead
    }

    pub(crate) fn push(&mut self, due: Moment, slot: u32) -> u32 {
        self.order = self.order.wrapping_add(1);
        self.heap.push(Reverse(Timer { due, order: self.order, slot }));
        self.order
    }

    /// Records that the entry of one timer has moved on.
    pub(crate) fn mark_dead(&mut self, live: impl Fn(&Timer) -> bool) {
        self.dead += 1;
        if self.heap.len() > TIMERS_KEPT && self.dead * 2 > self.heap.len() {
            self.heap.retain(|Reverse(timer)| live(timer));
            self.dead = 0;
            self.shrink();
        }
    }

    /// Returns whether the first timer is due, live or not.
    #[inline]
    pub(crate) fn may_be_due(&self, now: Moment) -> bool {
        self.heap.peek().is_some_and(|Reverse(timer)| timer.due <= now)
    }

    /// Removes and returns the first live timer that is due.
    pub(crate) fn pop_due(&mut self, now: Moment, live: impl Fn(&Timer) -> bool) -> Option<Timer> {
        while let Some(Reverse(timer)) = self.heap.peek().copied() {
            if timer.due > now {
                return None;
            }
            self.heap.pop();
            self.shrink();
            if live(&timer) {
                return Some(timer);
            }
            self.dead -= 1;
        }
        None
    }

    /// Returns the earliest due time.
    pub(crate) fn first(&mut self, live: impl Fn(&Timer) -> bool) -> Option<Moment> {
        while let Some(Reverse(timer)) = self.heap.peek() {
            if live(timer) {
                return Some(timer.due);
            }
            self.heap.pop();
            self.dead -= 1;
        }
        None
    }

    /// Returns the earliest `limit` timers, in order. Visits each timer once.
    pub(crate) fn earliest(&self, limit: usize, live: impl Fn(&Timer) -> bool) -> Vec<Timer> {
        let mut earliest = BinaryHeap::new();
        for Reverse(timer) in &self.heap {
            if earliest.len() < limit {
                if live(timer) {
                    earliest.push(*timer);
                }
            } else if earliest.peek().is_some_and(|last| timer < last) && live(timer) {
                earliest.pop();
                earliest.push(*timer);
            }
        }
        earliest.into_sorted_vec()
    }

    pub(crate) fn clear(&mut self) {
        (self.heap, self.dead) = (BinaryHeap::new(), 0);
    }

    fn shrink(&mut self) {
        let len = self.heap.len();
        if self.heap.capacity() > TIMERS_KEPT && len * 4 < self.heap.capacity() {
            self.heap.shrink_to(len * 2);
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.heap.capacity()
    }
}
