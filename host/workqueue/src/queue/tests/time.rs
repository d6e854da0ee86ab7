use tokio::time::advance;

use super::*;

/// The due time of the timer, in milliseconds since the queue was created.
fn armed(queue: &Queue<u32>) -> Option<u128> {
    queue.shared.lock().waiters.armed().map(|due| due.since(Moment::ZERO).as_millis())
}

/// T1: no key is handed out before it is due.
#[tokio::test(start_paused = true)]
async fn a_sleeping_claimer_gets_a_key_at_its_due_time() {
    let queue = queue();
    add_after(&queue, 1, ms(50));
    let claim = queue.claim().await.unwrap();
    assert_eq!((*claim.key(), queue.shared.origin.elapsed()), (1, ms(50)));
    assert_eq!(claim.queued_for(), ms(0));
}

/// T2, T3: of two due times the earlier one holds, and the key runs once; keys come in the order of their due
/// times.
#[tokio::test(start_paused = true)]
async fn keys_come_at_their_due_times_in_any_order_of_adding() {
    let queue = queue();
    for (key, delay) in [(70, ms(70)), (50, ms(50)), (30, ms(90)), (30, ms(30))] {
        add_after(&queue, key, delay);
    }
    for due in [30, 50, 70] {
        let claim = queue.claim().await.unwrap();
        assert_eq!((*claim.key(), queue.shared.origin.elapsed()), (due as u32, ms(due)));
        claim.finish(Next::Done);
    }
    assert!(timeout(ms(1000), queue.claim()).await.is_err(), "30 does not come again at 90");
}

/// T7: a delay counts from the call.
#[tokio::test(start_paused = true)]
async fn a_delay_counts_from_the_call_also_when_all_workers_are_busy() {
    let queue = queue();
    add(&queue, 1);
    let busy = queue.claim().await.unwrap();
    add_after(&queue, 2, ms(50));
    advance(ms(80)).await;
    busy.finish(Next::Done);
    let claim = queue.claim().await.unwrap();
    assert_eq!((*claim.key(), queue.shared.origin.elapsed(), claim.queued_for()), (2, ms(80), ms(30)));
}

/// T8: ending a claim with a delay is one step.
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_with_a_delay_leaves_no_gap_for_an_add() {
    let queue = queue();
    add(&queue, 1);
    queue.try_claim().unwrap().finish(Next::After(ms(50)));
    assert_eq!(queue.state(&1), Some(KeyState::Waiting));
    assert_eq!(add(&queue, 1), AddOutcome::Ready);
    run(&queue, Next::Done);
    assert!(timeout(ms(1000), queue.claim()).await.is_err());
}

/// T9: a delay of years neither panics nor ends early.
#[tokio::test(start_paused = true)]
async fn a_delay_of_years_does_not_wake_before_its_time() {
    let queue = queue();
    let years = Duration::from_secs(3 * 365 * 24 * 3600);
    add_after(&queue, 1, years);
    add_after(&queue, 2, Duration::MAX);
    assert_eq!(*queue.claim().await.unwrap().key(), 1);
    let took = queue.shared.origin.elapsed();
    assert!(took >= years && took < years + ms(2000), "{took:?}");
}

/// T11: only an add and the earliest due time wake a waiting worker, with one timer.
#[tokio::test(start_paused = true)]
async fn one_timer_is_armed_for_the_earliest_due_time() {
    let queue = queue();
    let mut claimers = sleepers(&queue, 5);
    assert_eq!(armed(&queue), None);
    add_after(&queue, 1, ms(80));
    assert_eq!(woken(&claimers), [1, 0, 0, 0, 0], "one claimer is woken to keep the time");
    assert!(claimers[0].poll().is_pending());
    assert_eq!(armed(&queue), Some(80));
    add_after(&queue, 2, ms(90));
    assert_eq!(woken(&claimers), [1, 0, 0, 0, 0], "a later time concerns nobody");
    add_after(&queue, 3, ms(50));
    assert_eq!(woken(&claimers), [2, 0, 0, 0, 0], "an earlier one concerns the timekeeper");
    assert!(claimers[0].poll().is_pending());
    assert_eq!(armed(&queue), Some(50));
}

/// T11: only an add and the earliest due time wake a waiting worker, with one timer.
#[tokio::test(start_paused = true)]
async fn the_timekeeper_sleeps_on_while_others_can_take_keys() {
    let queue = queue();
    add_after(&queue, 1, ms(50));
    let mut claimers = sleepers(&queue, 3);
    assert_eq!(armed(&queue), Some(50));
    add(&queue, 2);
    assert_eq!(woken(&claimers), [0, 1, 0]);
    add(&queue, 3);
    add(&queue, 4);
    assert_eq!(woken(&claimers), [1, 1, 1], "it is the last to be woken");
    assert!(claimers.iter_mut().all(|claimer| claimer.poll().is_ready()));
    assert_eq!(armed(&queue), None, "who works keeps no time");
}

/// T11: only an add and the earliest due time wake a waiting worker, with one timer.
#[tokio::test(start_paused = true)]
async fn a_leaving_timekeeper_hands_the_timer_over() {
    let queue = queue();
    add_after(&queue, 1, ms(50));
    let mut claimers = sleepers(&queue, 2);
    drop(claimers.remove(0));
    assert_eq!(woken(&claimers), [1]);
    assert!(claimers[0].poll().is_pending());
    assert_eq!(armed(&queue), Some(50));
    drop(claimers);
    let claim = timeout(ms(10_000), queue.claim()).await.expect("nobody oversleeps").unwrap();
    assert_eq!((*claim.key(), queue.shared.origin.elapsed()), (1, ms(50)));
}

/// T11: only an add and the earliest due time wake a waiting worker, with one timer.
#[tokio::test(start_paused = true)]
async fn several_sleepers_share_the_timer_and_each_gets_its_key_in_time() {
    let queue = queue();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let claim = queue.claim().await.unwrap();
                let due = ms(u64::from(*claim.key()));
                assert_eq!(queue.shared.origin.elapsed(), due);
                claim.finish(Next::Done);
            })
        })
        .collect();
    for due in [80, 20, 20, 50, 90, 10, 30, 70, 60] {
        add_after(&queue, due, ms(u64::from(due)));
        tokio::task::yield_now().await;
    }
    for worker in workers {
        timeout(ms(10_000), worker).await.expect("nobody oversleeps").unwrap();
    }
    assert_eq!(queue.counts(), KeyCounts::default());
}

/// T11: only an add and the earliest due time wake a waiting worker, with one timer.
#[tokio::test(start_paused = true)]
async fn a_cancelled_earliest_key_leaves_the_next_one_in_time() {
    let queue = queue();
    add_after(&queue, 1, ms(50));
    add_after(&queue, 2, ms(80));
    let worker = queue.clone();
    let task = tokio::spawn(async move { worker.claim().await.map(|claim| *claim.key()) });
    tokio::task::yield_now().await;
    assert_eq!(queue.cancel(&1), ChangeOutcome::Done);
    assert_eq!(timeout(ms(10_000), task).await.expect("nobody oversleeps").unwrap(), Some(2));
    assert_eq!(queue.shared.origin.elapsed(), ms(80));
}

/// T4, T11: a claimer that sleeps until a due time gets the key at once if it is added, and not again at that
/// time.
#[tokio::test(start_paused = true)]
async fn an_add_of_a_waiting_key_reaches_the_claimer_that_sleeps_for_it() {
    let queue = queue();
    add_after(&queue, 1, ms(60_000));
    let mut claimer = PollTask::new(queue.claim()).sleeps();
    assert_eq!(armed(&queue), Some(60_000));
    assert_eq!((add(&queue, 1), claimer.woken()), (AddOutcome::Ready, 1));
    let Poll::Ready(Some(claim)) = claimer.poll() else { panic!("the key is ready") };
    assert_eq!((queue.shared.origin.elapsed(), queue.counters().adds), (ms(0), 1));
    claim.finish(Next::Done);
    assert!(timeout(ms(120_000), queue.claim()).await.is_err(), "it does not come again");
}

/// Q15, T1: moving a due time moves the timer, later or sooner.
#[tokio::test(start_paused = true)]
async fn a_postponed_key_comes_at_its_new_time() {
    let queue = queue();
    for (key, delay, postponed) in [(1, 50, 80), (2, 50, 20)] {
        let begin = queue.shared.origin.elapsed();
        add_after(&queue, key, ms(delay));
        let mut claimer = PollTask::new(queue.claim()).sleeps();
        assert_eq!(queue.postpone(&key, ms(postponed)), ChangeOutcome::Done);
        drop(claimer.poll());
        let claim = timeout(ms(1000), claimer.future).await.expect("nobody oversleeps").unwrap();
        assert_eq!((*claim.key(), queue.shared.origin.elapsed() - begin), (key, ms(postponed)));
        claim.finish(Next::Done);
    }
}

/// T3: keys come in due order, even if the clock jumps past all of them.
#[tokio::test(start_paused = true)]
async fn after_one_long_jump_keys_come_in_due_order() {
    let queue = queue();
    for (key, delay) in [(3, 1000), (2, 500), (1, 250)] {
        add_after(&queue, key, ms(delay));
    }
    let mut claimer = PollTask::new(queue.claim()).sleeps();
    advance(ms(5000)).await;
    let Poll::Ready(Some(first)) = claimer.poll() else { panic!("a key is due") };
    assert_eq!((*first.key(), first.queued_for()), (1, ms(4750)));
    assert_eq!([run(&queue, Next::Done), run(&queue, Next::Done)], [2, 3]);
}

/// C4: a suspended controller keeps events as keys and runs none.
#[tokio::test(start_paused = true)]
async fn a_key_that_came_due_during_a_suspension_runs_on_resume() {
    let queue = queue();
    let worker = queue.clone();
    let task = tokio::spawn(async move { worker.claim().await.map(|claim| *claim.key()) });
    add_after(&queue, 1, ms(50));
    queue.suspend();
    advance(ms(60)).await;
    queue.resume();
    assert_eq!(timeout(ms(10_000), task).await.expect("nobody oversleeps").unwrap(), Some(1));
    assert_eq!(queue.shared.origin.elapsed(), ms(60));
}

/// B3, B5: jitter stays within its band; a failure is retried with backoff, and a success clears the
/// failures.
#[tokio::test(start_paused = true)]
async fn the_queue_draws_its_own_jitter() {
    let backoff = Backoff { base: ms(1000), jitter: 0.5, ..Backoff::default() };
    let queue = Queue::new(Options { backoff, seed: Some(1), ..Options::default() });
    let mut waits = Vec::new();
    for key in 0..50 {
        add(&queue, key);
        let finished = queue.try_claim().unwrap().finish(Next::Retry { at_least: None, error: "no".into() });
        waits.push(finished.due_in.unwrap());
    }
    assert!(waits.iter().all(|wait| *wait > ms(500) && *wait <= ms(1000)));
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 45, "they are spread");
}
