//! The sleeping claimers: which of them to wake, and which of them owns the timer.
//!
//! The rule that loses no wake-up: *while a key can be claimed and a claimer sleeps, at least as many
//! claimers are awake and about to check as there are keys*. It is restored after every change of the queue
//! and whenever a claimer leaves, for any reason. So a claimer that is cancelled after it was woken passes
//! its wake-up on.
//!
//! One sleeping claimer owns the timer: it alone sleeps with a timer, for the earliest due time. It is woken
//! for a key only when all others are already awake. When it leaves and there are due times, another claimer
//! takes over the timer.
//!
//! The cost of no operation grows with the number of sleeping claimers.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::{
    task::coop::poll_proceed,
    time::{Instant, Sleep, sleep_until},
};

use super::{LockedState, Shared};
use crate::{
    Key, Moment,
    bands::{IntrusiveList, Links, ListNode},
    slab::Slab,
    state::State,
};

/// The longest sleep. A claimer that wakes too early checks and sleeps again, so a delay of years needs no
/// timer of years.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Identifies one claimer for as long as it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaiterId(u32);

/// All claimers that wait for a key.
pub(super) struct Waiters {
    slots: Slab<WaiterSlot>,
    /// The sleeping claimers, in the order of falling asleep.
    asleep: IntrusiveList,
    /// Claimers that were woken and have not checked yet.
    awake: usize,
    timer_owner: Option<(WaiterId, Moment)>,
}

/// One claimer. While it is awake it has no waker and is in no list.
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

/// The wakers to call once the lock is released. The first one needs no allocation.
#[derive(Debug, Default)]
#[must_use = "claimers that were removed from the list sleep on unless they are woken"]
pub(super) struct Wake {
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

    pub(super) fn wake(self) {
        self.first.into_iter().chain(self.others).for_each(Waker::wake);
    }
}

impl Waiters {
    pub(super) fn new() -> Waiters {
        Waiters { slots: Slab::new(), asleep: IntrusiveList::new(), awake: 0, timer_owner: None }
    }

    /// Returns whether no claimer sleeps.
    pub(super) fn is_empty(&self) -> bool {
        self.asleep.len() == 0
    }

    /// Records that a claimer checks for a key, whether it was woken or not.
    pub(super) fn mark_awake(&mut self, ticket: Option<WaiterId>) {
        let woken = ticket.is_some_and(|WaiterId(seat)| self.slots[seat].waker.is_none());
        self.awake -= usize::from(woken);
    }

    /// Puts a claimer to sleep that has just [checked](Waiters::mark_awake), and returns its id.
    pub(super) fn sleep(&mut self, ticket: Option<WaiterId>, cx: &Context<'_>) -> WaiterId {
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

    /// Returns when the timer of a sleeping claimer is due, if it owns the timer.
    pub(super) fn take_timer(&mut self, ticket: WaiterId, due: Option<Moment>) -> Option<Moment> {
        match self.timer_owner {
            Some((keeper, _)) if keeper != ticket => None,
            _ => {
                self.timer_owner = due.map(|due| (ticket, due));
                due
            }
        }
    }

    /// Removes a claimer that has just [checked](Waiters::mark_awake), or is gone.
    pub(super) fn remove(&mut self, ticket: Option<WaiterId>) {
        let Some(WaiterId(seat)) = ticket else { return };
        if self.slots[seat].waker.is_some() {
            self.asleep.remove(&mut self.slots, seat);
        }
        self.slots.remove(seat);
        if self.timer_owner.is_some_and(|(WaiterId(keeper), _)| keeper == seat) {
            self.timer_owner = None;
        }
    }

    /// Restores the rule after a change: `claimable` keys can be claimed, and the next one is due at
    /// `next_due`.
    pub(super) fn wake_for(&mut self, claimable: usize, next_due: impl FnOnce() -> Option<Moment>) -> Wake {
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

    /// Wakes all claimers, for good.
    pub(super) fn wake_all(&mut self) -> Wake {
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

    /// Returns the due time of the armed timer.
    #[cfg(test)]
    pub(super) fn armed(&self) -> Option<Moment> {
        self.timer_owner.map(|(_, due)| due)
    }

    #[cfg(test)]
    pub(super) fn asleep(&self) -> usize {
        self.asleep.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}

/// A claimer on the wait list, or about to join it. Dropping it leaves the list and passes a wake-up on.
pub(super) struct WaitingClaimer<'a, K: Key> {
    shared: &'a Shared<K>,
    ticket: Option<WaiterId>,
    /// The timer, while this claimer owns it.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, K: Key> WaitingClaimer<'a, K> {
    pub(super) fn new(shared: &'a Shared<K>) -> WaitingClaimer<'a, K> {
        WaitingClaimer { shared, ticket: None, timer: None }
    }

    /// Waits until `look` returns a value; `None` when the queue is closed.
    pub(super) async fn until<R>(mut self, mut look: impl FnMut(&mut State<K>, Moment) -> Option<R>) -> Option<R> {
        poll_fn(|cx| self.poll(cx, &mut look)).await
    }

    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        look: &mut impl FnMut(&mut State<K>, Moment) -> Option<R>,
    ) -> Poll<Option<R>> {
        // A worker that always finds a key yields to the other tasks of its thread now and then.
        let budget = ready!(poll_proceed(cx));
        loop {
            let (now, mut locked) = (self.shared.now(), self.shared.lock());
            let LockedState { state, waiters, .. } = &mut *locked;
            waiters.mark_awake(self.ticket);
            let found = look(state, now);
            if found.is_some() || state.phase().is_closed() {
                waiters.remove(self.ticket.take());
                self.shared.release(locked);
                budget.made_progress();
                return Poll::Ready(found);
            }
            let ticket = waiters.sleep(self.ticket, cx);
            self.ticket = Some(ticket);
            let until = waiters.take_timer(ticket, state.next_due());
            drop(locked);
            ready!(self.poll_timer(cx, until));
        }
    }

    /// Pending until the timer fires. The waker is already on the list, so no wake-up in between is lost.
    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Option<Moment>) -> Poll<()> {
        let Some(until) = until else {
            self.timer = None;
            return Poll::Pending;
        };
        // Counted from the origin, not from now: the clock may have advanced since the queue was asked, and
        // the key would be late by as much.
        let deadline = (Instant::now() + SLEEP_MAX).min(self.shared.origin + until.since(Moment::ZERO));
        let timer = match &mut self.timer {
            Some(timer) => {
                timer.as_mut().reset(deadline);
                timer
            }
            none => none.insert(Box::pin(sleep_until(deadline))),
        };
        timer.as_mut().poll(cx)
    }
}

impl<K: Key> Drop for WaitingClaimer<'_, K> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut locked = self.shared.lock();
        locked.waiters.mark_awake(Some(ticket));
        locked.waiters.remove(Some(ticket));
        self.shared.release(locked);
    }
}
