use std::sync::atomic::AtomicUsize;

use tokio::sync::Notify;
use tokio::task::yield_now;

use super::*;

/// Goes on for ever, and counts its polls.
async fn hog(polls: Arc<AtomicUsize>) {
    loop {
        polls.fetch_add(1, Ordering::SeqCst);
        again().await;
    }
}

/// Gives its turn back, and asks for another one.
async fn again() {
    let mut first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// P5
#[tokio::test]
async fn one_that_wakes_up_runs_before_a_hundred_that_never_stop() {
    let turns = Turns::new(1);
    let (busy, seldom) = (turns.account(), turns.account());
    let polls = Arc::new(AtomicUsize::new(0));
    let hogs: Vec<_> = (0..100).map(|_| tokio::spawn(busy.run(|_| hog(polls.clone())))).collect();
    let (wake, seen) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let sleeper = tokio::spawn(seldom.run(|_| {
        let (wake, seen, polls) = (wake.clone(), seen.clone(), polls.clone());
        async move {
            loop {
                wake.notified().await;
                seen.lock().push(polls.load(Ordering::SeqCst));
            }
        }
    }));
    while polls.load(Ordering::SeqCst) < 1000 {
        yield_now().await;
    }
    for times in 1..=50 {
        let before = polls.load(Ordering::SeqCst);
        wake.notify_one();
        while seen.lock().len() < times {
            yield_now().await;
        }
        let others = seen.lock()[times - 1] - before;
        assert!(others <= 2, "{others} turns of the hogs went before");
    }
    hogs.iter().for_each(tokio::task::JoinHandle::abort);
    sleeper.abort();
}

#[tokio::test]
async fn a_task_that_ends_or_is_dropped_leaves_its_turn_to_the_next() {
    let turns = Turns::new(1);
    let account = turns.account();
    for _ in 0..3 {
        drop(account.run(|_| std::future::pending::<()>()));
        assert_eq!(tokio::spawn(account.run(|_| async { 7 })).await.unwrap(), 7);
    }
    // Dropped while it waits for its turn, and while it has one.
    let first = tokio::spawn(account.run(|_| hog(Arc::default())));
    yield_now().await;
    let second = tokio::spawn(account.run(|_| hog(Arc::default())));
    yield_now().await;
    first.abort();
    second.abort();
    let (_, _) = (first.await, second.await);
    tokio::spawn(account.run(|_| async {})).await.unwrap();
    assert_eq!(turns.state.lock().tasks.iter().flatten().count(), 0);
}

#[tokio::test]
async fn a_task_that_panics_leaves_its_turn_to_the_next() {
    let turns = Turns::new(1);
    let account = turns.account();
    let panicked = tokio::spawn(account.run(|_| async {
        again().await;
        panic!("on purpose")
    }));
    assert!(panicked.await.unwrap_err().is_panic());
    tokio::spawn(account.run(|_| async {})).await.unwrap();
}

#[tokio::test]
async fn a_wake_up_during_a_turn_is_not_lost() {
    let turns = Turns::new(2);
    let account = turns.account();
    let task = account.run(|_| async {
        for _ in 0..100 {
            again().await;
        }
    });
    tokio::spawn(task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_pauses_when_its_turn_is_over_and_not_before() {
    let turns = Turns::new(1);
    let (first, second) = (turns.account(), turns.account());
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = [(&first, "first"), (&second, "second")]
        .into_iter()
        .map(|(account, name)| {
            let order = order.clone();
            tokio::spawn(account.run(|turn| async move {
                for _ in 0..2 {
                    order.lock().push(name);
                    turn.pause_when_over().await;
                    order.lock().push(name);
                    // As if the key had taken that long.
                    tokio::time::advance(TURN).await;
                    turn.pause_when_over().await;
                }
            }))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().clone();
    assert_eq!(order.len(), 8);
    assert!(order.chunks(2).all(|pair| pair[0] == pair[1]), "a turn that is not over goes on: {order:?}");
}

#[test]
fn an_account_that_is_closed_is_used_again() {
    let turns = Turns::new(1);
    let first = turns.account().0.number;
    assert_eq!(turns.account().0.number, first);
    let kept = turns.account();
    assert_ne!(turns.account().0.number, kept.0.number);
}

/// P5: whoever computes on and on never has the last turn.
#[tokio::test(start_paused = true)]
async fn a_task_whose_turns_are_long_again_and_again_leaves_one_turn_to_the_others() {
    let turns = Turns::new(2);
    let (busy, seldom) = (turns.account(), turns.account());
    let computes = || {
        std::future::poll_fn(|context| {
            let _: Poll<()> = pin!(tokio::time::advance(Duration::from_millis(1))).poll(context);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        })
    };
    // Each of them asks for its next turn when one ends, and has it until it is polled again.
    let mut hogs = [busy.run(|_| computes()), busy.run(|_| computes())];
    let mut runs = |hog: usize| {
        let before = Instant::now();
        assert!(Pin::new(&mut hogs[hog]).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        Instant::now() > before
    };
    for _ in 0..LONG_TURNS {
        assert!(runs(0) && runs(1), "both threads, for some milliseconds");
    }
    assert!(!runs(1), "both compute on");
    let other = pin!(seldom.run(|_| std::future::ready(())));
    assert!(other.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(runs(0) && runs(1), "one after the other");
}
