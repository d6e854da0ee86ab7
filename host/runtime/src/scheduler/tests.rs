mod classifier;

use std::sync::atomic::AtomicUsize;

use homeostat_testing::Dice;
use homeostat_workqueue::{Next, Priority, Queue};
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::*;

/// The fewest batch quanta that make a task a batch task: one shorter quantum ends that.
const LONG_TURNS: u32 = 9;

/// Returns a scheduler with wall time as cost: time is virtual here, and threads compute for less than they
/// claim.
fn turns_of(threads: usize) -> Arc<Scheduler> {
    Scheduler::with(threads, || None)
}

/// Runs forever and counts its polls.
async fn hog(polls: Arc<AtomicUsize>) {
    loop {
        polls.fetch_add(1, Ordering::SeqCst);
        again().await;
    }
}

/// Computes for a tick in each of its quanta, forever.
async fn computes() {
    std::future::poll_fn(|context| {
        let _: Poll<()> = pin!(tokio::time::advance(Duration::from_millis(1))).poll(context);
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    })
    .await;
}

/// Starts a quantum, if this task can get one.
fn begins(state: &mut State, number: usize) -> bool {
    (0..=YIELDS_MAX).any(|_| matches!(state.try_start(number, Waker::noop()), StartDecision::Run { .. }))
}

/// Ends the quantum and asks for another one.
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

/// P5: a busy controller delays others by a bounded factor only.
#[tokio::test]
async fn a_woken_task_runs_before_a_hundred_busy_ones() {
    let turns = turns_of(1);
    let (busy, seldom) = (turns.tenant(), turns.tenant());
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
async fn a_task_that_ends_or_is_dropped_passes_its_slot_on() {
    let turns = turns_of(1);
    let account = turns.tenant();
    for _ in 0..3 {
        drop(account.run(|_| std::future::pending::<()>()));
        assert_eq!(tokio::spawn(account.run(|_| async { 7 })).await.unwrap(), 7);
    }
    // Dropped while it waits for a quantum, and while it has one.
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
async fn a_task_that_panics_passes_its_slot_on() {
    let turns = turns_of(1);
    let account = turns.tenant();
    let panicked = tokio::spawn(account.run(|_| async {
        again().await;
        panic!("on purpose")
    }));
    assert!(panicked.await.unwrap_err().is_panic());
    tokio::spawn(account.run(|_| async {})).await.unwrap();
}

#[tokio::test]
async fn a_wake_up_during_a_quantum_is_not_lost() {
    let turns = turns_of(2);
    let account = turns.tenant();
    let task = account.run(|_| async {
        for _ in 0..100 {
            again().await;
        }
    });
    tokio::spawn(task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_yields_when_its_quantum_is_over_and_not_before() {
    let turns = turns_of(1);
    let (first, second) = (turns.tenant(), turns.tenant());
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = [(&first, "first"), (&second, "second")]
        .into_iter()
        .map(|(account, name)| {
            let order = order.clone();
            tokio::spawn(account.run(|turn| async move {
                for _ in 0..2 {
                    order.lock().push(name);
                    turn.yield_if_expired().await;
                    order.lock().push(name);
                    // As if the key had taken this long.
                    tokio::time::advance(QUANTUM).await;
                    turn.yield_if_expired().await;
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
fn the_number_of_a_closed_tenant_is_used_again() {
    let turns = turns_of(1);
    let first = turns.tenant().0.number;
    assert_eq!(turns.tenant().0.number, first);
    let kept = turns.tenant();
    assert_ne!(turns.tenant().0.number, kept.0.number);
}

/// P5: a task that keeps computing never has the last slot.
#[tokio::test(start_paused = true)]
async fn a_task_that_keeps_computing_leaves_the_last_slot_to_others() {
    let turns = turns_of(2);
    let (busy, seldom) = (turns.tenant(), turns.tenant());
    // Each of them is queued again when a quantum ends, and keeps a granted one until it is polled.
    let mut hogs = [busy.run(|_| computes()), busy.run(|_| computes())];
    let mut runs = |hog: usize| {
        let before = Instant::now();
        (0..=YIELDS_MAX).any(|_| {
            assert!(Pin::new(&mut hogs[hog]).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            Instant::now() > before
        })
    };
    for _ in 0..5 {
        assert!(runs(0) && runs(1), "both threads, for some milliseconds");
    }
    assert!(!runs(1), "both compute on");
    let other = pin!(seldom.run(|_| std::future::ready(())));
    assert!(other.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(runs(0) && runs(1), "one after the other");
}

/// P5: a busy controller delays others by a bounded factor only.
#[tokio::test(start_paused = true)]
async fn interactive_quanta_do_not_wait_for_longer_ones() {
    let turns = turns_of(1);
    let (busy, seldom) = (turns.tenant(), turns.tenant());
    let mut hog = busy.run(|_| computes());
    // The class of a task is unknown before its first quantum.
    for _ in 0..2 {
        assert!(Pin::new(&mut hog).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(turns.state.lock().entry(hog.task.number).state, TaskState::Granted);
    let other = pin!(seldom.run(|_| std::future::ready(())));
    assert!(other.poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// P5: a request from outside passes through tasks of the host, and does not wait at each of them.
#[tokio::test(start_paused = true)]
async fn a_request_through_several_tasks_waits_for_one_quantum_only() {
    let turns = turns_of(1);
    let (busy, began) = (turns.tenant(), Instant::now());
    let hogs = [(); 2].map(|()| tokio::spawn(busy.run(|_| computes())));
    // The last one is this test, which tokio polls now and then.
    let steps: Vec<Arc<Notify>> = (0..=YIELDS_MAX).map(|_| Arc::default()).collect();
    let arrived_ms = Arc::new(AtomicU64::new(0));
    let now_ms = move || u64::try_from(began.elapsed().as_millis()).unwrap();
    for step in steps.windows(2) {
        let (step, next, arrived_ms) = (step[0].clone(), step[1].clone(), arrived_ms.clone());
        tokio::spawn(async move {
            loop {
                step.notified().await;
                arrived_ms.store(now_ms(), Ordering::SeqCst);
                next.notify_one();
            }
        });
    }
    // The class of a task is unknown before its first quantum.
    while now_ms() < 4 {
        yield_now().await;
    }
    for _ in 0..50 {
        let before_ms = now_ms();
        steps[0].notify_one();
        steps[usize::from(YIELDS_MAX)].notified().await;
        let waited_ms = arrived_ms.load(Ordering::SeqCst) - before_ms;
        assert!(waited_ms <= 1, "{waited_ms} ms");
    }
    hogs.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The end of a batch quantum makes room for another batch quantum, even if its task continues with a shorter
/// one.
#[test]
fn the_end_of_a_quantum_starts_all_tasks_that_fit() {
    let mut state = State { queue: FairQueue::new(2), tasks: Vec::new(), vacant: Vec::new() };
    let account = state.queue.add_tenant();
    let (first, second) = (state.enter(account), state.enter(account));
    for _ in 0..LONG_TURNS {
        for task in [first, second] {
            assert!(begins(&mut state, task));
            state.end(task, BATCH_QUANTUM_NS, false);
        }
    }
    assert!(begins(&mut state, first));
    assert!(!begins(&mut state, second), "one of two turns is for those that compute");
    drop(state.wake_task(first));
    let ended = state.end(first, BATCH_QUANTUM_NS - 1, false);
    assert!(ended.again && ended.next.is_some());
    assert!(begins(&mut state, first) && begins(&mut state, second));
}

/// For any order of operations: tasks with a quantum are counted, waiting tasks are queued, and no task waits
/// while its slot is free.
#[test]
fn task_states_match_the_queue_after_any_sequence_of_operations() {
    for seed in 0..300_u64 {
        let (threads, mut dice) = (1 + usize::try_from(seed % 3).unwrap(), Dice::new(seed));
        let mut state = State { queue: FairQueue::new(threads), tasks: Vec::new(), vacant: Vec::new() };
        let accounts = [state.queue.add_tenant(), state.queue.add_tenant()];
        for step in 0..2000 {
            let number = dice.index(6);
            let phase = state.tasks.get(number).and_then(|task| task.as_ref()).map(|task| task.state);
            match (dice.index(300), phase) {
                (_, None) => drop(state.enter(accounts[dice.index(2)])),
                (1, Some(_)) => drop(state.leave(number)),
                (2..120, Some(_)) => drop(state.wake_task(number)),
                (_, Some(TaskState::Running { .. })) => {
                    let cost_ns = [1, BATCH_QUANTUM_NS / 2, 10 * BATCH_QUANTUM_NS][dice.index(3)];
                    drop(state.end(number, cost_ns, dice.index(20) == 0));
                }
                (_, Some(_)) => _ = state.try_start(number, Waker::noop()),
            }
            let count = |is: fn(TaskState) -> bool| state.tasks.iter().flatten().filter(|task| is(task.state)).count();
            let out = count(|phase| matches!(phase, TaskState::Granted | TaskState::Running { .. }));
            let waiting = count(|phase| phase == TaskState::Queued);
            assert_eq!(state.queue.standing(threads), (waiting, out, false), "seed {seed}, step {step}");
        }
    }
}

/// P5: a tenant does not pay for a thread that waits for a processor.
#[test]
fn a_preempted_thread_does_not_charge_its_tenant() {
    let (short, long) = (Duration::from_micros(300), Duration::from_millis(30));
    let clock: CpuClock = || Some(Duration::from_micros(1200));
    let before = Some(Duration::from_micros(1000));
    assert_eq!(cost(short, before, || panic!("it is not asked")), short);
    assert_eq!(cost(long, before, clock), Duration::from_micros(200), "what it computed");
    assert_eq!(cost(long, before, || Some(Duration::from_secs(1))), long, "and never more than it took");
    assert_eq!(cost(long, None, clock), long);
    assert_eq!(cost(long, before, || None), long);
}

/// P5: a busy controller delays others by a bounded factor only.
#[tokio::test]
async fn a_tenant_with_a_preempted_thread_keeps_its_position() {
    // The first reading is at the start of its quantum, and its thread uses no processor time.
    let turns = Scheduler::with(1, || Some(Duration::ZERO));
    let (busy, seldom) = (turns.tenant(), turns.tenant());
    let polls = Arc::new(AtomicUsize::new(0));
    let hogs: Vec<_> = (0..10).map(|_| tokio::spawn(busy.run(|_| hog(polls.clone())))).collect();
    tokio::time::pause();
    let stood = tokio::spawn(seldom.run(|_| async {
        let mut moved = pin!(tokio::time::advance(Duration::from_millis(30)));
        std::future::poll_fn(|context| {
            let _: Poll<()> = moved.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        again().await;
    }));
    while !stood.is_finished() {
        yield_now().await;
        assert!(polls.load(Ordering::SeqCst) < 1000, "it waits for the others to have used as much");
    }
    hogs.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Duration of a key in virtual time. No thread computes for this long.
const KEY: Duration = Duration::from_micros(20);
/// Keys per burst of the controller with little work.
const BURST: u32 = 10;
const BURSTS: usize = 100;
/// Keys of the busy controller between two bursts: usually the burst comes within a quantum.
const BUSY_KEYS: usize = 523;
/// Maximum factor by which a key waits longer, at the 99th percentile, beside a controller with any number of
/// ready keys.
const FACTOR_MAX: u32 = 3;

/// A controller with little work, and the waiting times of its keys.
struct Seldom {
    queue: Queue<u32>,
    added: Mutex<std::collections::BTreeMap<u32, Instant>>,
    waits: Mutex<Vec<Duration>>,
}

impl Seldom {
    fn new() -> Arc<Self> {
        Arc::new(Self { queue: Queue::default(), added: Mutex::default(), waits: Mutex::default() })
    }

    fn burst(&self) {
        for key in 0..BURST {
            self.added.lock().entry(key).or_insert_with(Instant::now);
            self.queue.add(key, Priority::NORMAL).unwrap();
        }
    }

    fn begins(&self, key: u32) {
        let added = self.added.lock().remove(&key).expect("it was added");
        self.waits.lock().push(added.elapsed());
    }

    fn is_idle(&self) -> bool {
        self.added.lock().is_empty()
    }

    fn p99(&self) -> Duration {
        let mut waits = self.waits.lock().clone();
        waits.sort_unstable();
        waits[waits.len() * 99 / 100 - 1]
    }
}

/// Runs keys like a worker, each for [`KEY`].
async fn works(queue: Queue<u32>, turn: Quantum, next: Next, began: impl Fn(u32)) {
    while let Some(claim) = queue.claim().await {
        let mut claimed = Some(claim);
        while let Some(claim) = claimed {
            began(*claim.key());
            std::future::poll_fn(|context| {
                let _: Poll<()> = pin!(tokio::time::advance(KEY)).poll(context);
                Poll::Ready(())
            })
            .await;
            claimed = if turn.is_over(Instant::now()) {
                claim.finish(next.clone());
                None
            } else {
                claim.finish_and_claim(next.clone()).1
            };
        }
        turn.yield_if_expired().await;
    }
}

/// Returns the 99th percentile of the waiting times of a controller with little work, beside one with this
/// many ready keys, on one thread.
async fn p99_beside(ready_keys: u32, is_shared: bool) -> Duration {
    let (turns, seldom) = (turns_of(1), Seldom::new());
    let (account, busy) = (turns.tenant(), Queue::default());
    let other = if is_shared { account.clone() } else { turns.tenant() };
    busy.add_all(0..ready_keys, Priority::NORMAL).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for _ in 0..4 {
        let its = seldom.clone();
        let work = |turn| works(seldom.queue.clone(), turn, Next::Done, move |key| its.begins(key));
        workers.push(tokio::spawn(account.run(work)));
        let (its, ran) = (seldom.clone(), ran.clone());
        let brings = move |_| {
            if ran.fetch_add(1, Ordering::SeqCst) % BUSY_KEYS == 0 {
                its.burst();
            }
        };
        workers.push(tokio::spawn(other.run(|turn| works(busy.clone(), turn, Next::Again, brings))));
    }
    while seldom.waits.lock().len() < BURSTS * BURST as usize {
        if ready_keys == 0 && seldom.is_idle() {
            seldom.burst();
        }
        yield_now().await;
    }
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    seldom.p99()
}

/// P5: in virtual time, so that only the order of quanta counts.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_ready_keys_triple_the_p99_of_another_controller_at_most() {
    let alone = p99_beside(0, false).await;
    assert!(alone > Duration::ZERO, "its keys wait for one another");
    let beside = p99_beside(100_000, false).await;
    assert!(beside <= alone * FACTOR_MAX, "{beside:?} instead of {alone:?}");
    // The control: with all workers in one tenant it does not hold.
    let in_line = p99_beside(100_000, true).await;
    assert!(in_line > alone * FACTOR_MAX, "{in_line:?} instead of {alone:?}");
}
