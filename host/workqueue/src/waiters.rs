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
    bands::{Line, Linked, Links},
    slab::Slab,
};

/// Names one claimer for as long as it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

/// All claimers that found no key.
pub(crate) struct Waiters {
    seats: Slab<Seat>,
    /// The seats of those that sleep, in the order of falling asleep.
    asleep: Line,
    /// How many were woken and have not looked yet.
    awake: usize,
    keeper: Option<(Ticket, Moment)>,
}

/// One claimer. It has no waker when it was woken, and then stands in no line.
struct Seat {
    waker: Option<Waker>,
    links: Links,
}

impl Linked for Seat {
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
        Waiters { seats: Slab::new(), asleep: Line::new(), awake: 0, keeper: None }
    }

    /// Says whether nobody sleeps, so that nobody can be woken.
    pub(crate) fn is_empty(&self) -> bool {
        self.asleep.len() == 0
    }

    /// Notes that a claimer looks for a key, whether it was woken or not.
    pub(crate) fn look(&mut self, ticket: Option<Ticket>) {
        let woken = ticket.is_some_and(|Ticket(seat)| self.seats[seat].waker.is_none());
        self.awake -= usize::from(woken);
    }

    /// Puts a claimer to sleep that has just [looked](Waiters::look), and returns its ticket.
    pub(crate) fn sleep(&mut self, ticket: Option<Ticket>, cx: &Context<'_>) -> Ticket {
        let ticket = ticket.unwrap_or_else(|| Ticket(self.seats.insert(Seat { waker: None, links: Links::default() })));
        match &mut self.seats[ticket.0].waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => {
                *none = Some(cx.waker().clone());
                self.asleep.push(&mut self.seats, ticket.0);
            }
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
        let Some(Ticket(seat)) = ticket else { return };
        if self.seats[seat].waker.is_some() {
            self.asleep.leave(&mut self.seats, seat);
        }
        self.seats.remove(seat);
        if self.keeper.is_some_and(|(Ticket(keeper), _)| keeper == seat) {
            self.keeper = None;
        }
    }

    /// Restores the rule after a change: `claimable` keys can be claimed, and the next one is due at `next_due`.
    pub(crate) fn restore(&mut self, claimable: usize, next_due: impl FnOnce() -> Option<Moment>) -> Wake {
        let mut wake = Wake::default();
        while self.awake < claimable
            && let Some(first) = self.asleep.first()
        {
            let keeper = self.keeper.is_some_and(|(Ticket(keeper), _)| keeper == first);
            let other = if keeper { Line::behind(&self.seats, first) } else { None };
            self.rouse(other.unwrap_or(first), &mut wake);
        }
        let (Some(first), Some(next_due)) = (self.asleep.first(), next_due()) else { return wake };
        match self.keeper {
            Some((Ticket(keeper), armed)) if next_due < armed => {
                if self.seats[keeper].waker.is_some() {
                    self.rouse(keeper, &mut wake);
                }
            }
            None if self.awake == 0 => self.rouse(first, &mut wake),
            Some(_) | None => {}
        }
        wake
    }

    /// Wakes everybody, for good.
    pub(crate) fn wake_all(&mut self) -> Wake {
        let mut wake = Wake::default();
        while let Some(first) = self.asleep.first() {
            self.rouse(first, &mut wake);
        }
        wake
    }

    fn rouse(&mut self, seat: u32, wake: &mut Wake) {
        if let Some(waker) = self.seats[seat].waker.take() {
            self.asleep.leave(&mut self.seats, seat);
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

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.seats.capacity()
    }
}
