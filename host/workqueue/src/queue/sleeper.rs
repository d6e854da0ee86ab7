//! A waiting claimer.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    task::coop::poll_proceed,
    time::{Instant, Sleep, sleep_until},
};

use super::{LockedState, Shared};
use crate::{Key, Moment, state::State, waiters::WaiterId};

/// The longest sleep. A claimer that wakes too early checks and sleeps again, so a delay of years needs no
/// timer of years.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

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
