//! One claimer that waits.

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

/// The longest sleep. Who wakes too early looks and sleeps on, so delays of years need no timer of years.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A claimer on the list of those who wait, or about to be. Dropping it takes it off and passes a wake-up on.
pub(super) struct WaitingClaimer<'a, K: Key> {
    shared: &'a Shared<K>,
    ticket: Option<WaiterId>,
    /// The one timer, while this claimer is the timekeeper.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, K: Key> WaitingClaimer<'a, K> {
    pub(super) fn new(shared: &'a Shared<K>) -> WaitingClaimer<'a, K> {
        WaitingClaimer { shared, ticket: None, timer: None }
    }

    /// Waits until `look` finds something; `None` when the queue is closed.
    pub(super) async fn until<R>(mut self, mut look: impl FnMut(&mut State<K>, Moment) -> Option<R>) -> Option<R> {
        poll_fn(|cx| self.poll(cx, &mut look)).await
    }

    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        look: &mut impl FnMut(&mut State<K>, Moment) -> Option<R>,
    ) -> Poll<Option<R>> {
        // A worker that always finds a key lets the other tasks of its thread run now and then.
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

    /// Pending until it is time to look again. The waker is on the list already, so what happens meanwhile is not lost.
    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Option<Moment>) -> Poll<()> {
        let Some(until) = until else {
            self.timer = None;
            return Poll::Pending;
        };
        // Not from the present on, which may have moved since the queue was asked: the key would be late by as much.
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
