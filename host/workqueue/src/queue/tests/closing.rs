use tokio::time::{advance, sleep};

use super::*;

/// Q9: a stop wakes all waiting workers and drops queued keys.
#[tokio::test(start_paused = true)]
async fn stop_wakes_every_waiting_claimer_with_closed() {
    let queue = queue();
    let mut claimers = sleepers(&queue, 3);
    let report = queue.stop();
    assert_eq!(woken(&claimers), [1, 1, 1]);
    for claimer in &mut claimers {
        assert!(matches!(claimer.poll(), Poll::Ready(None)));
    }
    assert_eq!(queue.stop(), report);
    assert!(queue.claim().await.is_none() && queue.try_claim().is_none());
}

/// Q8: a closed queue refuses every key with an error.
#[tokio::test(start_paused = true)]
async fn adds_after_close_say_so() {
    let queue = queue();
    queue.stop();
    assert_eq!(queue.add(1, Priority::NORMAL), Err(AddError::Closed));
    assert_eq!(queue.add_after(1, ms(5), Priority::NORMAL), Err(AddError::Closed));
    assert_eq!(queue.add_all(0..1000, Priority::NORMAL), Err(AddError::Closed));
    assert_eq!(queue.add_without_event(1, Priority::NORMAL, true), Err(AddError::Closed));
    assert_eq!((queue.counters(), queue.len(), queue.is_empty()), (Counters::default(), 0, true));
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_ready_and_running_keys_and_those_that_become_dirty() {
    let queue = queue();
    queue.add_all(0..4, Priority::NORMAL).unwrap();
    add_after(&queue, 9, ms(5));
    let claim = queue.try_claim().unwrap();
    let worker = queue.clone();
    let task = tokio::spawn(async move {
        let mut ran = Vec::new();
        while let Some(claim) = worker.claim().await {
            sleep(ms(10)).await;
            ran.push(*claim.key());
            claim.finish(Next::Done);
        }
        ran
    });
    let drainer = queue.clone();
    let drain = tokio::spawn(async move { drainer.drain(ms(1000)).await });
    sleep(ms(15)).await;
    assert_eq!(add(&queue, 0), AddOutcome::Dirty);
    claim.finish(Next::Done);
    assert_eq!(drain.await.unwrap(), CloseReport { finished: 5, dropped: vec![9], running: vec![] });
    assert_eq!(task.await.unwrap(), [1, 2, 3, 0]);
    assert_eq!(queue.shared.origin.elapsed(), ms(40), "no longer than it takes");
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[tokio::test(start_paused = true)]
async fn a_drain_keeps_its_deadline_and_reports_the_keys_left() {
    let queue = queue();
    queue.add_all([1, 2], Priority::NORMAL).unwrap();
    let claim = queue.try_claim().unwrap();
    let report = queue.drain(ms(100)).await;
    assert_eq!(report, CloseReport { finished: 0, dropped: vec![2], running: vec![1] });
    assert_eq!((queue.shared.origin.elapsed(), queue.phase()), (ms(100), ShutdownPhase::Stopped));
    claim.finish(Next::Again);
    assert_eq!(queue.drain(ms(100)).await, CloseReport { finished: 1, dropped: vec![2, 1], running: vec![] });
    assert_eq!(queue.shared.origin.elapsed(), ms(100), "a closed queue is drained at once");
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[tokio::test(start_paused = true)]
async fn abort_ends_a_blocked_drain_and_interrupts_the_workers() {
    let queue = queue();
    add(&queue, 1);
    let worker = queue.clone();
    let task = tokio::spawn(async move {
        let claim = worker.claim().await.unwrap();
        worker.aborted().await;
        drop(claim);
    });
    let drainer = queue.clone();
    let drain = tokio::spawn(async move { drainer.drain(Duration::MAX).await });
    advance(ms(50)).await;
    assert!(!task.is_finished() && !drain.is_finished());
    assert_eq!(queue.abort().running, [1]);
    drain.await.unwrap();
    task.await.unwrap();
    assert_eq!((queue.abort().dropped, queue.phase()), (vec![1], ShutdownPhase::Aborted));
    queue.aborted().await;
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[tokio::test(start_paused = true)]
async fn a_stop_interrupts_no_worker_and_ends_a_drain() {
    let queue = queue();
    add(&queue, 1);
    let claim = queue.try_claim().unwrap();
    let mut aborted = PollTask::new(queue.aborted()).sleeps();
    let mut drain = PollTask::new(queue.drain(Duration::MAX)).sleeps();
    queue.stop();
    assert!(aborted.poll().is_pending() && drain.poll().is_ready());
    claim.finish(Next::Done);
}

/// Q10: a drain waits for ready, running and dirty keys, until its deadline.
#[tokio::test(start_paused = true)]
async fn a_drain_that_is_given_up_goes_on_without_a_deadline() {
    let queue = queue();
    add(&queue, 1);
    drop(PollTask::new(queue.drain(ms(10))).sleeps());
    sleep(ms(50)).await;
    assert_eq!(queue.phase(), ShutdownPhase::Draining);
    run(&queue, Next::Done);
    assert_eq!(queue.phase(), ShutdownPhase::Stopped);
}

/// Q13: a dropped claim returns its key.
#[tokio::test(start_paused = true)]
async fn a_panic_and_a_cancelled_task_return_their_keys_with_failures_kept() {
    let queue = queue();
    add(&queue, 1);
    run(&queue, Next::Retry { at_least: None, error: "no".into() });
    let worker = queue.clone();
    let panicked = tokio::spawn(async move {
        let claim = worker.claim().await;
        assert!(claim.is_none(), "this panics on purpose, holding the claim");
    });
    assert!(panicked.await.is_err());
    assert_eq!(queue.state(&1), Some(KeyState::Ready));

    let worker = queue.clone();
    let cancelled = tokio::spawn(async move {
        let _claim = worker.claim().await;
        std::future::pending::<()>().await;
    });
    sleep(ms(1)).await;
    assert_eq!(queue.state(&1), Some(KeyState::Running));
    cancelled.abort();
    assert!(cancelled.await.is_err());
    assert_eq!(queue.try_claim().unwrap().failures(), 1);
    assert_eq!(queue.counters().finished.returned, 3);
}

/// Q7: the same through the public interface, in every state of a key.
#[tokio::test(start_paused = true)]
async fn length_and_state_are_right_in_every_state_of_a_key() {
    let queue = queue();
    let seen = |queue: &Queue<u32>| (queue.state(&1), queue.len(), queue.is_empty(), queue.inspect(9).len());
    assert_eq!(seen(&queue), (None, 0, true, 0));
    add_after(&queue, 1, ms(5));
    assert_eq!(seen(&queue), (Some(KeyState::Waiting), 0, true, 1));
    advance(ms(5)).await;
    assert_eq!(seen(&queue), (Some(KeyState::Ready), 1, false, 1));
    let claim = queue.try_claim().unwrap();
    assert_eq!(seen(&queue), (Some(KeyState::Running), 0, true, 1));
    add(&queue, 1);
    assert_eq!(seen(&queue), (Some(KeyState::Dirty), 0, true, 1));
    assert_eq!(queue.cancel(&1), ChangeOutcome::Done);
    claim.finish(Next::Park { error: "no".into() });
    assert_eq!(seen(&queue), (Some(KeyState::Parked), 0, true, 1));
    assert_eq!(queue.entry(&1), queue.inspect(9).pop());
    assert_eq!(queue.cancel(&1), ChangeOutcome::Done);
    assert_eq!((seen(&queue), queue.entry(&1)), ((None, 0, true, 0), None));
}

#[tokio::test]
async fn aborted_resolves_when_the_queue_is_gone() {
    let queue = queue();
    let aborted = queue.aborted();
    drop(queue);
    aborted.await;
}
