//! Tests of the shell: on a paused clock where time matters, on several threads where threads matter.

mod closing;
mod finishing;
mod interleavings;
mod threads;
mod time;
mod waking;

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Wake, Waker},
};

use tokio::time::timeout;

use super::*;
use crate::{Ages, Backoff, CloseReport, Counters, KeyCounts, KeyState};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn queue() -> Queue<u32> {
    let backoff = Backoff { base: ms(10), jitter: 0.0, ..Backoff::default() };
    Queue::new(Options { backoff, seed: Some(7), ..Options::default() })
}

fn add(queue: &Queue<u32>, key: u32) -> AddOutcome {
    queue.add(key, Priority::NORMAL).unwrap()
}

fn add_after(queue: &Queue<u32>, key: u32, delay: Duration) -> AddOutcome {
    queue.add_after(key, delay, Priority::NORMAL).unwrap()
}

/// Claims a key that must be ready, and finishes it.
fn run(queue: &Queue<u32>, next: Next) -> u32 {
    let claim = queue.try_claim().expect("a key is ready");
    let key = *claim.key();
    claim.finish(next);
    key
}

/// A future that is polled by hand, and counts its wake-ups.
struct PollTask<'a, R> {
    future: Pin<Box<dyn Future<Output = R> + 'a>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<'a, R> PollTask<'a, R> {
    fn new(future: impl Future<Output = R> + 'a) -> PollTask<'a, R> {
        PollTask { future: Box::pin(future), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<R> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls a future that must not be ready.
    fn sleeps(mut self) -> PollTask<'a, R> {
        assert!(self.poll().is_pending());
        self
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::SeqCst)
    }
}

/// Polls claimers that find no key, in order.
fn sleepers(queue: &Queue<u32>, count: usize) -> Vec<PollTask<'_, Option<Claim<u32>>>> {
    (0..count).map(|_| PollTask::new(queue.claim()).sleeps()).collect()
}

fn woken(claimers: &[PollTask<'_, Option<Claim<u32>>>]) -> Vec<usize> {
    claimers.iter().map(PollTask::woken).collect()
}
