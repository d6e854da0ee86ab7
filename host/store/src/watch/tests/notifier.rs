use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use homeostat_testing::soon;

use super::super::{GROUPS, RevisionNotifier};
use crate::{Error, Result, Revision};

/// Counts wake-ups.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waiting task.
struct Waiter<'a> {
    wait: Pin<Box<dyn Future<Output = Result<()>> + 'a>>,
    bell: Arc<Bell>,
}

impl<'a> Waiter<'a> {
    /// Waits for a revision above the given one; there is none yet.
    fn after(tip: &'a RevisionNotifier, after: u64) -> Self {
        let place = tip.join_group();
        let mut waiting = Self { wait: Box::pin(tip.wait_past(place, Revision(after))), bell: Arc::default() };
        assert_eq!(waiting.poll(), Poll::Pending);
        waiting
    }

    fn poll(&mut self) -> Poll<Result<()>> {
        self.wait.as_mut().poll(&mut Context::from_waker(&Waker::from(self.bell.clone())))
    }

    fn told(&self) -> usize {
        self.bell.0.load(Ordering::SeqCst)
    }
}

fn many(tip: &RevisionNotifier) -> Vec<Waiter<'_>> {
    (0..1000).map(|_| Waiter::after(tip, 7)).collect()
}

#[test]
fn all_waiting_tasks_are_notified_once_although_none_of_them_runs() {
    let tip = RevisionNotifier::at(Revision(7));
    let mut all = many(&tip);
    tip.advance(Revision(8));
    let first = all.iter().filter(|one| one.told() > 0).count();
    assert!((1..=1000 / GROUPS + 1).contains(&first), "who changes the store tells {first} before it goes on");
    tip.notify_rest();
    assert!(all.iter().all(|one| one.told() == 1));
    assert!(all.iter_mut().all(|one| one.poll() == Poll::Ready(Ok(()))));
}

#[test]
fn a_notified_task_notifies_others() {
    let tip = RevisionNotifier::at(Revision(7));
    let mut all = many(&tip);
    tip.advance(Revision(8));
    let mut came = 0;
    while let Some(one) = all.iter().position(|one| one.told() > 0) {
        assert_eq!(all.swap_remove(one).poll(), Poll::Ready(Ok(())));
        came += 1;
    }
    assert_eq!(came, 1000, "each of them was told without the one who changed the store");
}

#[test]
fn a_task_dropped_after_its_notification_delays_no_other() {
    let tip = RevisionNotifier::at(Revision(7));
    let mut all = many(&tip);
    tip.advance(Revision(8));
    all.retain(|one| one.told() == 0);
    tip.notify_rest();
    assert!(all.iter_mut().all(|one| one.told() == 1 && one.poll() == Poll::Ready(Ok(()))));
}

#[test]
fn a_task_that_waits_for_a_later_revision_keeps_waiting() {
    let tip = RevisionNotifier::at(Revision(7));
    let mut later = Waiter::after(&tip, 8);
    tip.advance(Revision(8));
    tip.notify_rest();
    assert_eq!((later.told(), later.poll()), (1, Poll::Pending));
    tip.advance(Revision(9));
    tip.notify_rest();
    assert_eq!((later.told(), later.poll()), (2, Poll::Ready(Ok(()))));
}

#[test]
fn the_end_comes_after_the_last_change() {
    let tip = RevisionNotifier::at(Revision(7));
    let (mut behind, mut last) = (Waiter::after(&tip, 7), Waiter::after(&tip, 8));
    let end = async {
        tip.closed().await;
        Ok(())
    };
    let mut ended = Waiter { wait: Box::pin(end), bell: Arc::default() };
    assert_eq!(ended.poll(), Poll::Pending);
    tip.advance(Revision(8));
    tip.notify_rest();
    assert_eq!(ended.poll(), Poll::Pending);
    tip.close();
    assert_eq!(behind.poll(), Poll::Ready(Ok(())));
    assert_eq!(last.poll(), Poll::Ready(Err(Error::Closed)));
    assert_eq!(ended.poll(), Poll::Ready(Ok(())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_is_missed_by_threads_that_tell_and_wait_at_once() {
    const CHANGES: u64 = 10_000;
    let tip = Arc::new(RevisionNotifier::at(Revision::ZERO));
    let waits = (0..100).map(|_| {
        let (tip, place) = (Arc::clone(&tip), tip.join_group());
        tokio::spawn(async move {
            let mut seen = Revision::ZERO;
            while tip.wait_past(place, seen).await.is_ok() {
                seen = tip.revision();
            }
            seen
        })
    });
    let waits: Vec<_> = waits.collect();
    let writer = Arc::clone(&tip);
    let writer = thread::spawn(move || {
        for revision in 1..=CHANGES {
            writer.advance(Revision(revision));
            writer.notify_rest();
        }
        // Two threads of a store may both close it.
        thread::scope(|scope| {
            scope.spawn(|| writer.close());
            scope.spawn(|| writer.close());
        });
    });
    for wait in waits {
        let seen = soon(wait).await;
        assert_eq!(seen.expect("no panic"), Revision(CHANGES));
    }
    writer.join().expect("no panic");
}
