//! The sleeping claimers: whom to wake, and which of them keeps the timer.
//!
//! The rule that loses no wake-up: *while a key can be claimed and a claimer sleeps, at least as many claimers are awake
//! on their way as there are keys*. It is restored after every change of the queue and whenever a claimer leaves, for
//! whatever reason, so a claimer that is cancelled after it was woken passes its wake-up on.
//!
//! One sleeping claimer is the timekeeper: it alone sleeps with a timer, for the earliest due time. It is woken for a
//! key only when all others are awake already. When it leaves and there are due times, another one takes over.

use std::{
    collections::VecDeque,
    task::{Context, Waker},
};

use crate::Moment;

/// Names one claimer for as long as it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// All claimers that found no key.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// In the order of coming.
    asleep: VecDeque<(Ticket, Waker)>,
    /// How many were woken and have not looked yet.
    awake: usize,
    keeper: Option<(Ticket, Moment)>,
    tickets: u64,
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
    /// Says whether nobody sleeps, so that nobody can be woken.
    pub(crate) fn is_empty(&self) -> bool {
        self.asleep.is_empty()
    }

    /// Notes that a claimer looks for a key, whether it was woken or not.
    pub(crate) fn look(&mut self, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        if !self.asleep.iter().any(|(its, _)| *its == ticket) {
            self.awake -= 1;
        }
    }

    /// Puts a claimer to sleep that has just [looked](Waiters::look), and returns its ticket.
    pub(crate) fn sleep(&mut self, ticket: Option<Ticket>, cx: &Context<'_>) -> Ticket {
        let ticket = ticket.unwrap_or_else(|| {
            self.tickets += 1;
            Ticket(self.tickets)
        });
        match self.asleep.iter_mut().find(|(its, _)| *its == ticket) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => self.asleep.push_back((ticket, cx.waker().clone())),
        }
        ticket
    }

    /// Says until when a sleeping claimer is to keep the timer, if it is the one.
    pub(crate) fn keep_time(&mut self, ticket: Ticket, due: Option<Moment>) -> Option<Moment> {
        match self.keeper {
            Some((keeper, _)) if keeper != ticket => None,
            _ => {
                self.keeper = due.map(|due| (ticket, due));
                due
            }
        }
    }

    /// Takes a claimer off the list that has just [looked](Waiters::look), or that is no more.
    pub(crate) fn leave(&mut self, ticket: Option<Ticket>) {
        self.asleep.retain(|(its, _)| Some(*its) != ticket);
        if self.keeper.is_some_and(|(keeper, _)| Some(keeper) == ticket) {
            self.keeper = None;
        }
    }

    /// Restores the rule after a change: `claimable` keys can be claimed, and the next one is due at `next_due`.
    pub(crate) fn restore(&mut self, claimable: usize, next_due: impl FnOnce() -> Option<Moment>) -> Wake {
        let mut wake = Wake::default();
        while self.awake < claimable && !self.asleep.is_empty() {
            let keeper = self.keeper.map(|(ticket, _)| ticket);
            let other = self.asleep.iter().position(|(ticket, _)| Some(*ticket) != keeper);
            self.rouse(other.unwrap_or(0), &mut wake);
        }
        let (Some(next_due), false) = (next_due(), self.asleep.is_empty()) else { return wake };
        match self.keeper {
            Some((keeper, armed)) if next_due < armed => {
                if let Some(at) = self.asleep.iter().position(|(ticket, _)| *ticket == keeper) {
                    self.rouse(at, &mut wake);
                }
            }
            None if self.awake == 0 => self.rouse(0, &mut wake),
            Some(_) | None => {}
        }
        wake
    }

    /// Wakes everybody, for good.
    pub(crate) fn wake_all(&mut self) -> Wake {
        let mut wake = Wake::default();
        while !self.asleep.is_empty() {
            self.rouse(0, &mut wake);
        }
        wake
    }

    fn rouse(&mut self, at: usize, wake: &mut Wake) {
        if let Some((_, waker)) = self.asleep.remove(at) {
            wake.push(waker);
            self.awake += 1;
        }
    }

    /// For when the one timer is armed.
    #[cfg(test)]
    pub(crate) fn armed(&self) -> Option<Moment> {
        self.keeper.map(|(_, due)| due)
    }

    #[cfg(test)]
    pub(crate) fn asleep(&self) -> usize {
        self.asleep.len()
    }
}
