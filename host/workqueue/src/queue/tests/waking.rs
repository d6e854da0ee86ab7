use super::*;

/// Q11, T11: an add always wakes a worker; only an add and the earliest due time wake a waiting worker, with
/// one timer.
#[tokio::test(start_paused = true)]
async fn a_plain_add_wakes_a_sleeping_claimer_without_any_clock() {
    let queue = queue();
    let before = Instant::now();
    let mut claimer = PollTask::new(queue.claim()).sleeps();
    add(&queue, 1);
    assert_eq!(claimer.woken(), 1);
    assert!(matches!(claimer.poll(), Poll::Ready(Some(claim)) if *claim.key() == 1));
    assert_eq!(Instant::now(), before);
}

/// Q11: an add always wakes a worker.
#[tokio::test(start_paused = true)]
async fn of_two_claimers_and_one_key_one_gets_it_and_the_other_sleeps_on() {
    let queue = queue();
    let mut claimers = sleepers(&queue, 2);
    add(&queue, 1);
    assert_eq!(woken(&claimers), [1, 0]);
    let Poll::Ready(Some(claim)) = claimers[1].poll() else { panic!("who looks first gets it, woken or not") };
    assert!(claimers[0].poll().is_pending());
    add(&queue, 2);
    assert_eq!(claimers[0].woken(), 2, "the other is woken for the next");
    assert!(claimers[0].poll().is_ready());
    claim.finish(Next::Done);
}

/// Q11: an add always wakes a worker.
#[tokio::test(start_paused = true)]
async fn as_many_claimers_wake_as_there_are_keys_and_no_more() {
    let queue = queue();
    let claimers = sleepers(&queue, 4);
    queue.add_all([1, 2], Priority::NORMAL).unwrap();
    assert_eq!(woken(&claimers), [1, 1, 0, 0]);
    queue.add_all([2, 3], Priority::NORMAL).unwrap();
    assert_eq!(woken(&claimers), [1, 1, 1, 0]);
    assert_eq!(run(&queue, Next::Done), 1);
    assert_eq!(woken(&claimers), [1, 1, 1, 0], "a busy worker that is faster wakes nobody");
}

/// Q11: an add always wakes a worker.
#[tokio::test(start_paused = true)]
async fn a_claimer_cancelled_after_it_was_woken_passes_that_on() {
    let queue = queue();
    let mut claimers = sleepers(&queue, 3);
    add(&queue, 1);
    assert_eq!(woken(&claimers), [1, 0, 0]);
    drop(claimers.remove(0));
    assert_eq!(woken(&claimers), [1, 0]);
    drop(claimers.remove(0));
    assert_eq!(woken(&claimers), [1]);
    assert!(claimers[0].poll().is_ready());
}

/// Q11: an add always wakes a worker.
#[tokio::test(start_paused = true)]
async fn a_cancelled_claimer_leaves_the_list() {
    let queue = queue();
    drop(sleepers(&queue, 5));
    assert_eq!(queue.shared.lock().waiters.asleep(), 0);
    let claimers = sleepers(&queue, 1);
    add(&queue, 1);
    assert_eq!(woken(&claimers), [1]);
}

/// Q11: an add always wakes a worker.
#[tokio::test(start_paused = true)]
async fn a_claimer_that_is_polled_again_is_listed_once() {
    let queue = queue();
    let mut claimers = sleepers(&queue, 2);
    for _ in 0..10 {
        assert!(claimers[0].poll().is_pending());
    }
    assert_eq!(queue.shared.lock().waiters.asleep(), 2);
    queue.add_all([1, 2], Priority::NORMAL).unwrap();
    assert_eq!(woken(&claimers), [1, 1]);
}

/// Q13: a dropped claim returns its key.
#[tokio::test(start_paused = true)]
async fn a_dropped_claim_wakes_another_claimer() {
    let queue = queue();
    add(&queue, 1);
    let claim = queue.try_claim().unwrap();
    let mut claimers = sleepers(&queue, 1);
    drop(claim);
    assert_eq!(woken(&claimers), [1]);
    assert!(claimers[0].poll().is_ready());
}

/// Q3: adds during a run give exactly one more run.
#[tokio::test(start_paused = true)]
async fn an_add_to_a_running_key_wakes_no_claimer_until_it_is_finished() {
    let queue = queue();
    add(&queue, 1);
    let claim = queue.try_claim().unwrap();
    let claimers = sleepers(&queue, 1);
    assert_eq!(add(&queue, 1), AddOutcome::Dirty);
    assert_eq!(woken(&claimers), [0]);
    claim.finish(Next::Done);
    assert_eq!(woken(&claimers), [1]);
}

/// C4: a suspended controller keeps events as keys and runs none.
#[tokio::test(start_paused = true)]
async fn resuming_wakes_the_claimers_that_suspension_left_asleep() {
    let queue = queue();
    queue.suspend();
    let mut claimers = sleepers(&queue, 2);
    add(&queue, 1);
    assert!(woken(&claimers) == [0, 0] && queue.is_suspended() && queue.try_claim().is_none());
    queue.resume();
    assert_eq!(woken(&claimers), [1, 0]);
    assert!(claimers[0].poll().is_ready());
}

/// C4: a suspended controller keeps events as keys and runs none.
#[tokio::test(start_paused = true)]
async fn a_suspension_below_a_band_wakes_claimers_for_keys_raised_above_it() {
    let queue = queue();
    queue.suspend_below(Priority::HIGHEST);
    let mut claimers = sleepers(&queue, 2);
    add(&queue, 1);
    add(&queue, 2);
    assert!(woken(&claimers) == [0, 0] && queue.is_suspended());
    assert_eq!(queue.prioritize(&2, Priority::HIGHEST), ChangeOutcome::Done);
    assert_eq!(woken(&claimers), [1, 0]);
    let Poll::Ready(Some(claim)) = claimers[0].poll() else { panic!("it was raised") };
    assert_eq!(*claim.key(), 2);
    queue.resume();
    assert_eq!(woken(&claimers), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_ready_key_takes_none_away_from_a_claimer() {
    let queue = queue();
    let mut watcher = PollTask::new(queue.ready()).sleeps();
    let mut claimers = sleepers(&queue, 1);
    add(&queue, 1);
    assert_eq!((watcher.woken(), woken(&claimers)), (1, vec![0]));
    assert!(matches!(watcher.poll(), Poll::Ready(true)));
    assert_eq!(woken(&claimers), [1], "the wake-up goes on to who wants the key");
    assert!(claimers[0].poll().is_ready());
    queue.stop();
    assert!(!queue.ready().await);
}

/// A worker that never waits still yields to the other tasks of its thread.
#[tokio::test]
async fn a_claimer_that_always_finds_a_key_yields_now_and_then() {
    const RUNS: u32 = 100_000;
    let queue = queue();
    add(&queue, 1);
    let worker = queue.clone();
    let task = tokio::spawn(async move {
        let mut runs = 0;
        while runs < RUNS
            && let Some(claim) = worker.claim().await
        {
            runs += 1;
            claim.finish(Next::Again);
        }
        runs
    });
    tokio::task::yield_now().await;
    queue.stop();
    assert!(task.await.unwrap() < RUNS, "it did not let go of its thread");
}

/// Q11: the waker of the last poll counts, for a future that moved to another task.
#[tokio::test(start_paused = true)]
async fn a_claimer_that_is_polled_by_another_task_wakes_that_one() {
    let queue = queue();
    let mut claimer = PollTask::new(queue.claim()).sleeps();
    let before = std::mem::take(&mut claimer.woken);
    assert!(claimer.poll().is_pending());
    add(&queue, 1);
    assert_eq!((claimer.woken(), before.0.load(Ordering::SeqCst)), (1, 0));
}

/// Q15, T11: a key that is made ready by hand wakes a claimer without any clock.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_expedited_or_retried_wakes_a_sleeping_claimer() {
    let verbs: [fn(&Queue<u32>) -> ChangeOutcome; 3] =
        [|queue| queue.expedite(&1), |queue| queue.retry(&1), |queue| queue.postpone(&1, ms(0))];
    for verb in verbs {
        let queue = queue();
        add_after(&queue, 1, ms(60_000));
        let mut claimers = sleepers(&queue, 2);
        assert_eq!((verb(&queue), woken(&claimers)), (ChangeOutcome::Done, vec![0, 1]));
        assert!(claimers[1].poll().is_ready());
    }
}

/// T11: no claimer is woken while nothing happens.
#[tokio::test(start_paused = true)]
async fn a_thousand_idle_queues_wake_no_claimer() {
    let queues: Vec<_> = (0..1000).map(|_| queue()).collect();
    let claimers: Vec<_> = queues.iter().flat_map(|queue| sleepers(queue, 2)).collect();
    tokio::time::advance(Duration::from_secs(365 * 24 * 3600)).await;
    tokio::task::yield_now().await;
    assert!(claimers.iter().all(|claimer| claimer.woken() == 0));
    assert!(queues.iter().all(|queue| queue.shared.lock().waiters.armed().is_none()));
}

/// Q12: claimers that have left, in any order, leave no memory behind.
#[tokio::test(start_paused = true)]
async fn a_thousand_claimers_that_come_and_go_keep_their_order() {
    let queue = queue();
    let mut claimers = sleepers(&queue, 1000);
    let mut number = 0;
    claimers.retain(|_| {
        number += 1;
        number % 3 == 0
    });
    queue.add_all(0..2, Priority::NORMAL).unwrap();
    assert_eq!((woken(&claimers[..3]), queue.shared.lock().waiters.asleep()), (vec![1, 1, 0], claimers.len() - 2));
    drop(claimers);
    assert!(queue.shared.lock().waiters.capacity() <= 64);
}
