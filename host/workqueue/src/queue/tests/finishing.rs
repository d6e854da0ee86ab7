use tokio::time::advance;

use super::*;

/// Adds keys, and claims the first.
fn first_of(queue: &Queue<u32>, keys: impl IntoIterator<Item = u32>) -> Claim<u32> {
    queue.add_all(keys, Priority::NORMAL).unwrap();
    queue.try_claim().expect("a key is ready")
}

/// Q1: a worker takes key after key, in order and once each.
#[tokio::test(start_paused = true)]
async fn finishing_and_claiming_runs_through_the_queue() {
    let queue = queue();
    let (mut held, mut ran) = (Some(first_of(&queue, 0..5)), Vec::new());
    while let Some(claim) = held {
        ran.push(*claim.key());
        let finished;
        (finished, held) = claim.finish_and_claim(Next::Done);
        assert_eq!((finished.state, queue.counts().running), (None, usize::from(held.is_some())));
    }
    assert_eq!((ran, queue.counts()), (vec![0, 1, 2, 3, 4], KeyCounts::default()));
    assert_eq!((queue.counters().claims, queue.counters().finished.done), (5, 5));
}

/// Q4, B7, Q14: a key that runs again at once queues behind the others, and comes back if it is alone.
#[tokio::test(start_paused = true)]
async fn a_key_that_runs_again_at_once_lets_the_others_go_first() {
    let queue = queue();
    let (finished, held) = first_of(&queue, [1, 2]).finish_and_claim(Next::Again);
    assert_eq!(finished.state, Some(KeyState::Ready));
    let held = held.unwrap();
    assert_eq!(*held.key(), 2);
    let (_, held) = held.finish_and_claim(Next::Done);
    let (_, held) = held.unwrap().finish_and_claim(Next::Again);
    assert_eq!(*held.unwrap().key(), 1);
}

/// P1, B1: the next claim describes its own key, not the one before.
#[tokio::test(start_paused = true)]
async fn the_following_claim_is_of_the_highest_band_and_describes_its_key() {
    let queue = queue();
    let held = first_of(&queue, [1, 2]);
    let failed = Next::Retry { at_least: None, error: "no".into() };
    let (finished, held) = held.finish_and_claim(failed);
    assert_eq!((finished.failures, finished.due_in, finished.state), (1, Some(ms(10)), Some(KeyState::Waiting)));
    queue.add(3, Priority::HIGH).unwrap();
    advance(ms(10)).await;
    let held = held.unwrap().finish_and_claim(Next::Done).1.unwrap();
    assert_eq!((*held.key(), held.priority(), held.failures(), held.queued_for()), (3, Priority::HIGH, 0, ms(10)));
    let held = held.finish_and_claim(Next::Done).1.expect("what came due at this very moment is there");
    assert_eq!((*held.key(), held.priority(), held.failures(), held.queued_for()), (1, Priority::NORMAL, 1, ms(0)));
}

/// Q9, C4: it hands out no key that a claim would not get.
#[tokio::test(start_paused = true)]
async fn no_claim_follows_when_no_key_may_be_handed_out() {
    let queue = queue();
    assert!(first_of(&queue, [1]).finish_and_claim(Next::After(ms(5))).1.is_none(), "no key is ready");
    let held = first_of(&queue, [2, 3]);
    queue.suspend();
    assert!(held.finish_and_claim(Next::Done).1.is_none());
    queue.resume();
    let held = first_of(&queue, [4]);
    assert_eq!(queue.stop().running, [3]);
    assert!(held.finish_and_claim(Next::Done).1.is_none());
    let mut report = queue.stop();
    report.dropped.sort_unstable();
    assert_eq!(report, CloseReport { finished: 1, dropped: vec![1, 4], running: vec![] });
}

/// Q10: a drain ends with the last key, also if that was finished this way.
#[tokio::test(start_paused = true)]
async fn the_last_key_finished_this_way_ends_a_drain() {
    let queue = queue();
    let held = first_of(&queue, [1, 2]);
    let mut drain = PollTask::new(queue.drain(Duration::MAX)).sleeps();
    let held = held.finish_and_claim(Next::Done).1.expect("a drain still runs what is ready");
    assert!(drain.poll().is_pending());
    assert!(held.finish_and_claim(Next::Done).1.is_none());
    assert!(matches!(drain.poll(), Poll::Ready(CloseReport { finished: 2, .. })));
}

/// Q13: the following claim is an ordinary claim.
#[tokio::test(start_paused = true)]
async fn dropping_the_claim_that_follows_returns_its_key() {
    let queue = queue();
    let held = first_of(&queue, [1, 2]);
    drop(held.finish_and_claim(Next::Done));
    assert_eq!((queue.state(&1), queue.state(&2)), (None, Some(KeyState::Ready)));
    assert_eq!(queue.counters().finished.returned, 1);
}

/// B13: the queue time counts from the first add, also for a running key. Any number of adds counts once. The
/// depth counts the claimable keys.
#[tokio::test(start_paused = true)]
async fn counts_and_state_of_one_key_are_right_through_its_life() {
    const MICROS: Duration = Duration::from_micros(1);
    let queue = queue();
    let figures = |queue: &Queue<u32>| {
        let (counters, counts) = (queue.counters(), queue.counts());
        (counters.adds, counts.ready, counts.dirty, queue.ages().unfinished_work)
    };
    add(&queue, 1);
    assert_eq!(figures(&queue), (1, 1, 0, ms(0)));
    advance(50 * MICROS).await;
    assert_eq!(queue.ages().oldest_ready, Some(50 * MICROS));
    let claim = queue.try_claim().unwrap();
    assert_eq!((claim.queued_for(), figures(&queue)), (50 * MICROS, (1, 0, 0, ms(0))));

    for _ in 0..5 {
        add(&queue, 1);
    }
    assert_eq!((figures(&queue), queue.counters().merges), ((2, 0, 1, ms(0)), 4));
    advance(25 * MICROS).await;
    assert_eq!((figures(&queue), queue.ages().longest_running), ((2, 0, 1, 25 * MICROS), Some(25 * MICROS)));
    claim.finish(Next::Done);
    assert_eq!(figures(&queue), (2, 1, 0, ms(0)));
    let claim = queue.try_claim().unwrap();
    assert_eq!(claim.queued_for(), 25 * MICROS, "from the first add during the run, not from its end");

    advance(ms(1)).await;
    let ages = queue.ages();
    assert_eq!((ages.unfinished_work, ages.longest_running, ages.oldest_ready), (ms(1), Some(ms(1)), None));
    claim.finish(Next::Done);
    assert_eq!((queue.ages(), queue.counts()), (Ages::default(), KeyCounts::default()));
}

/// T6, B13: an add of a ready key reads no clock. It still neither hides a due key nor distorts its figures.
#[tokio::test(start_paused = true)]
async fn an_add_that_merges_leaves_the_age_of_the_key_alone() {
    let queue = queue();
    add(&queue, 1);
    add_after(&queue, 2, ms(3));
    advance(ms(5)).await;
    assert_eq!(add(&queue, 1), AddOutcome::Merged);
    assert_eq!(queue.len(), 2);
    let claim = queue.try_claim().unwrap();
    assert_eq!((*claim.key(), claim.queued_for()), (1, ms(5)));
}
