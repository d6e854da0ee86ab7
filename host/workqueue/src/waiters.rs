//! The sleeping claimers: whom to wake, and which of them keeps the timer.
//!
//! The rule that loses no wake-up: *while a key can be claimed and a claimer sleeps, at least as many claimers are awake
//! on their way as there are keys*. It is restored after every change of the queue and whenever a claimer leaves, for
//! whatever reason, so a claimer that is cancelled after it was woken passes its wake-up on.
//!
//! One sleeping claimer is the timekeeper: it alone sleeps with a timer, for the earliest due time. It is woken for a
//! key only when all others are awake already. When it leaves and there are due times, another one takes over.
//!
//! Nothing here takes longer when more claimers sleep.

use std::task::{Context, Waker};

use crate::{
    Moment,
    bands::{IntrusiveList, Links, ListNode},
    slab::Slab,
};

/// Names one claimer for as long as it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u32);

/// All claimers that found no key.
pub(crate) struct Waiters {
    slots: Slab<WaiterSlot>,
    /// The seats of those that sleep, in the order of falling asleep.
    asleep: IntrusiveList,
    /// How many were woken and have not looked yet.
    awake: usize,
    timer_owner: Option<(WaiterId, Moment)>,
}

/// One claimer. It has no waker when it was woken, and then stands in no line.
struct WaiterSlot {
    waker: Option<Waker>,
    links: Links,
}

impl ListNode for WaiterSlot {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// What has to be woken once the lock is released. The first waker needs no allocation.
#[derive(Debug, Default)]
#[must_use = "claimers that were taken off the list sleep on if nobody wakes them"]
pub(crate) struct Wake {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wake {
    fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.others.push(waker),
        }
    }

    pub(crate) fn wake(self) {
        self.first.into_iter().chain(self.others).for_each(Waker::wake);
    }
}

impl Waiters {
    pub(crate) fn new() -> Waiters {
        Waiters { slots: Slab::new(), asleep: IntrusiveList::new(), awake: 0, timer_owner: None }
    }

    /// Says whether nobody sleeps, so that nobody can be woken.
    pub(crate) fn is_empty(&self) -> bool {
        self.asleep.len() == 0
    }

    /// Notes that a claimer looks for a key, whether it was woken or not.
    pub(crate) fn mark_awake(&mut self, ticket: Option<WaiterId>) {
        let woken = ticket.is_some_and(|WaiterId(seat)| self.slots[seat].waker.is_none());
        self.awake -= usize::from(woken);
    }

    /// Puts a claimer to sleep that has just [looked](Waiters::look), and returns its ticket.
    pub(crate) fn sleep(&mut self, ticket: Option<WaiterId>, cx: &Context<'_>) -> WaiterId {
        let ticket =
            ticket.unwrap_or_else(|| WaiterId(self.slots.insert(WaiterSlot { waker: None, links: Links::default() })));
        match &mut self.slots[ticket.0].waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => {
                *none = Some(cx.waker().clone());
                self.asleep.push(&mut self.slots, ticket.0);
            }
        }
        ticket
    }

    /// Says until when a sleeping claimer is to keep the timer, if it is the one.
    pub(crate) fn take_timer(&mut self, ticket: WaiterId, due: Option<Moment>) -> Option<Moment> {
        match self.timer_owner {
            Some((keeper, _)) if keeper != ticket => None,
            _ => {
                self.timer_owner = due.map(|due| (ticket, due));
                due
            }
        }
    }

    /// Takes a claimer off the list that has just [looked](Waiters::look), or that is no more.
    pub(crate) fn remove(&mut self, ticket: Option<WaiterId>) {
        let Some(WaiterId(seat)) = ticket else { return };
        if self.slots[seat].waker.is_some() {
            self.asleep.remove(&mut self.slots, seat);
        }
        self.slots.remove(seat);
        if self.timer_owner.is_some_and(|(WaiterId(keeper), _)| keeper == seat) {
            self.timer_owner = None;
        }
    }

    /// Restores the rule after a change: `claimable` keys can be claimed, and the next one is due at `next_due`.
    pub(crate) fn wake_for(&mut self, claimable: usize, next_due: impl FnOnce() -> Option<Moment>) -> Wake {
        let mut wake = Wake::default();
        while self.awake < claimable
            && let Some(first) = self.asleep.first()
        {
            let keeper = self.timer_owner.is_some_and(|(WaiterId(keeper), _)| keeper == first);
            let other = if keeper { IntrusiveList::next_of(&self.slots, first) } else { None };
            self.wake_one(other.unwrap_or(first), &mut wake);
        }
        let (Some(first), Some(next_due)) = (self.asleep.first(), next_due()) else { return wake };
        match self.timer_owner {
            Some((WaiterId(keeper), armed)) if next_due < armed => {
                if self.slots[keeper].waker.is_some() {
                    self.wake_one(keeper, &mut wake);
                }
            }
            None if self.awake == 0 => self.wake_one(first, &mut wake),
            Some(_) | None => {}
        }
        wake
    }

    /// Wakes everybody, for good.
    pub(crate) fn wake_all(&mut self) -> Wake {
        let mut wake = Wake::default();
        while let Some(first) = self.asleep.first() {
            self.wake_one(first, &mut wake);
        }
        wake
    }

    fn wake_one(&mut self, seat: u32, wake: &mut Wake) {
        if let Some(waker) = self.slots[seat].waker.take() {
            self.asleep.remove(&mut self.slots, seat);
            wake.push(waker);
            self.awake += 1;
        }
    }

    /// For when the one timer is armed.
    #[cfg(test)]
    pub(crate) fn armed(&self) -> Option<Moment> {
        self.timer_owner.map(|(_, due)| due)
    }

    #[cfg(test)]
    pub(crate) fn asleep(&self) -> usize {
        self.asleep.len()
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}
