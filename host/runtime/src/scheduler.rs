//! The fair scheduler: shares the processors among the controllers. All their tasks run under it.
//!
//! Each poll of a task is one quantum. A worker yields after [`QUANTUM`], and a computing guest at the next
//! tick of the epoch clock, so a quantum takes at most a millisecond. There are as many slots for quanta as
//! threads. Tasks without a slot wait here, not in tokio's queue, and the tenant with the least processor
//! time goes next ([`cost`], [`fair_queue`]). So a tenant with little work waits for one quantum
//! to end, however many keys and workers others have. Short tasks have their own slots ([`TaskClassifier`]).
//! Batch tasks, whose guests keep computing, never occupy the last slot: a computing thread serves neither
//! sockets nor timers, and the thread that interrupts it needs a processor itself.
//!
//! Feeders of the host, the API and the store are not tenants; tokio runs them directly. While every thread
//! is busy, a quantum that is not interactive first yields to them. Otherwise a request from outside, which
//! passes through several of them, would wait at each step.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

mod fair_queue;

use fair_queue::{FairQueue, TaskClass};

/// The time after which a worker yields. Long enough that yielding costs a hundredth of it, and a quarter of
/// a computing guest's quantum.
const QUANTUM: Duration = Duration::from_micros(250);

/// The time after which a worker yields in an interactive quantum.
const QUANTUM_INTERACTIVE: Duration = Duration::from_micros(50);

/// How often a task that is not interactive yields to the host's own tasks while every thread is busy: the
/// number of tasks from a socket to a worker.
const YIELDS_MAX: u8 = 8;

/// Processor time of a quantum that only the epoch clock has ended: more than that of a yielding worker, less
/// than a tick.
const BATCH_QUANTUM_NS: u64 = 600_000;

/// CPU score above which a task counts as batch. A guest may compute for some milliseconds on every thread,
/// but not keep on computing.
const BATCH_CPU_NS_MIN: u64 = 5_000_000;

/// Maximum CPU score.
const CPU_SCORE_NS_MAX: u64 = 20_000_000;

/// Minimum decay of the CPU score per short quantum. It is small, so that a guest that interleaves tiny calls
/// with computation still counts as batch, and a worker that has computed once recovers within some thousand
/// short quanta.
const DECAY_NS_MIN: u64 = 10_000;

/// A shorter quantum costs its wall time: another system call would cost more than the possible error.
const TAKEN: Duration = Duration::from_micros(500);

/// The scheduler of one host.
pub(crate) struct Scheduler {
    state: Mutex<State>,
    origin: Instant,
    processor: CpuClock,
}

struct State {
    queue: FairQueue<usize>,
    tasks: Vec<Option<Entry>>,
    vacant: Vec<usize>,
}

/// The state of one task.
struct Entry {
    tenant: usize,
    state: TaskState,
    classifier: TaskClassifier,
    /// The class of the requested quantum.
    class: TaskClass,
    /// Remaining yields before its next quantum.
    yields_left: u8,
    /// Makes tokio poll the task.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TaskState {
    /// Waits for something else.
    Idle,
    /// Ready, and waiting for a quantum.
    Queued,
    /// Has a quantum, and tokio was woken.
    Granted,
    /// Is being polled; `again` if it was woken meanwhile.
    Running { again: bool },
}

/// A controller as tenant of the scheduler. Clones are the same tenant, which ends with the last of them.
#[derive(Clone)]
pub(crate) struct Tenant(Arc<TenantHandle>);

struct TenantHandle {
    scheduler: Arc<Scheduler>,
    number: usize,
}

/// The quantum of a task while it is polled.
#[derive(Clone)]
pub(crate) struct Quantum(Arc<Task>);

struct Task {
    tenant: Tenant,
    number: usize,
    /// The end of the quantum, in nanoseconds since the scheduler's origin.
    over_ns: AtomicU64,
}

/// A future that is polled only in quanta of its tenant.
pub(crate) struct ScheduledFuture<F> {
    future: Pin<Box<F>>,
    task: Arc<Task>,
    waker: Waker,
}

impl Scheduler {
    /// Returns a scheduler for `threads` threads.
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        Self::with(threads, thread_cpu_time)
    }

    fn with(threads: usize, processor: CpuClock) -> Arc<Self> {
        let state = State { queue: FairQueue::new(threads), tasks: Vec::new(), vacant: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), origin: Instant::now(), processor })
    }

    /// Adds a tenant.
    pub(crate) fn tenant(self: &Arc<Self>) -> Tenant {
        let number = self.state.lock().queue.add_tenant();
        Tenant(Arc::new(TenantHandle { scheduler: self.clone(), number }))
    }

    fn ns_at(&self, moment: Instant) -> u64 {
        u64::try_from(moment.duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Drop for TenantHandle {
    fn drop(&mut self) {
        self.scheduler.state.lock().queue.remove_tenant(self.number);
    }
}

impl Tenant {
    /// Wraps the future of `make`, which runs in quanta of this tenant.
    pub(crate) fn run<F: Future>(&self, make: impl FnOnce(Quantum) -> F) -> ScheduledFuture<F> {
        let number = self.0.scheduler.state.lock().enter(self.0.number);
        let task = Arc::new(Task { tenant: self.clone(), number, over_ns: AtomicU64::new(0) });
        ScheduledFuture { future: Box::pin(make(Quantum(task.clone()))), waker: task.clone().into(), task }
    }
}

impl Quantum {
    /// Returns whether the quantum has expired at `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.scheduler().ns_at(now) >= self.0.over_ns.load(Ordering::Relaxed)
    }

    /// Yields if the quantum has expired.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn yield_if_expired(&self) {
        let mut over = self.is_over(Instant::now());
        std::future::poll_fn(|context| {
            if !std::mem::take(&mut over) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Task {
    fn scheduler(&self) -> &Scheduler {
        &self.tenant.0.scheduler
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let granted = self.scheduler().state.lock().wake_task(self.number);
        if let Some(waker) = granted {
            waker.wake();
        }
    }
}

impl<F: Future> Future for ScheduledFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, task, waker } = &mut *self;
        let turns = task.scheduler();
        let may_last = match turns.state.lock().try_start(task.number, context.waker()) {
            StartDecision::Run { may_last } => may_last,
            StartDecision::Yield => {
                // To the end of the thread's queue: tokio first serves sockets and timers, and the tasks that
                // they wake.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            StartDecision::Wait => return Poll::Pending,
        };
        let (began, computed) = (Instant::now(), (turns.processor)());
        task.over_ns.store(turns.ns_at(began + may_last), Ordering::Relaxed);
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        let cost = cost(began.elapsed(), computed, turns.processor);
        let cost_ns = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let QuantumEnd { again, next } = turns.state.lock().end(task.number, cost_ns, polled.is_ready());
        if let Some(next) = next {
            next.wake();
        }
        if again {
            // Runs again at once, but tokio first serves sockets and timers.
            let _: Poll<()> = pin!(tokio::task::yield_now()).poll(context);
        }
        polled
    }
}

impl<F> Drop for ScheduledFuture<F> {
    fn drop(&mut self) {
        let next = self.task.scheduler().state.lock().leave(self.task.number);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// The decision for a ready task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartDecision {
    /// It has a quantum, and should yield after this long.
    Run { may_last: Duration },
    /// It has a quantum, but yields to others first.
    Yield,
    /// It has no quantum yet.
    Wait,
}

/// The effect of a quantum's end.
struct QuantumEnd {
    /// The same task has another quantum.
    again: bool,
    /// The waker of another task that has a quantum now.
    next: Option<Waker>,
}

/// **Invariant.** No slot is free while a task waits for it.
impl State {
    fn enter(&mut self, account: usize) -> usize {
        let entry = Some(Entry {
            tenant: account,
            state: TaskState::Idle,
            classifier: TaskClassifier::default(),
            class: TaskClass::Interactive,
            yields_left: 0,
            waker: None,
        });
        match self.vacant.pop() {
            Some(number) => {
                self.tasks[number] = entry;
                number
            }
            None => {
                self.tasks.push(entry);
                self.tasks.len() - 1
            }
        }
    }

    /// Starts a quantum, if the task has one or can get one at once.
    fn try_start(&mut self, number: usize, waker: &Waker) -> StartDecision {
        let entry = self.entry(number);
        match &mut entry.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        let granted = match entry.state {
            TaskState::Granted => true,
            TaskState::Idle => self.request(number).is_some(),
            TaskState::Queued | TaskState::Running { .. } => false,
        };
        if !granted {
            return StartDecision::Wait;
        }
        let all_are_out = self.queue.is_exhausted();
        let entry = self.entry(number);
        if all_are_out && entry.yields_left > 0 && entry.class != TaskClass::Interactive {
            entry.yields_left -= 1;
            return StartDecision::Yield;
        }
        entry.state = TaskState::Running { again: false };
        StartDecision::Run {
            may_last: if entry.class == TaskClass::Interactive { QUANTUM_INTERACTIVE } else { QUANTUM },
        }
    }

    /// Records that a task is ready. Returns its waker if it gets a quantum at once.
    fn wake_task(&mut self, number: usize) -> Option<Waker> {
        // A waker may outlive its task.
        let entry = self.tasks.get_mut(number)?.as_mut()?;
        match &mut entry.state {
            TaskState::Idle => self.request(number).and_then(|granted| self.entry(granted).waker.clone()),
            TaskState::Running { again } => {
                *again = true;
                None
            }
            TaskState::Queued | TaskState::Granted => None,
        }
    }

    /// Ends a task's quantum.
    fn end(&mut self, number: usize, cost_ns: u64, done: bool) -> QuantumEnd {
        let entry = self.entry(number);
        let (account, length) = (entry.tenant, entry.class);
        let again = !done && entry.state == TaskState::Running { again: true };
        entry.state = if again { TaskState::Queued } else { TaskState::Idle };
        entry.classifier.record(cost_ns, again);
        entry.yields_left = YIELDS_MAX;
        self.queue.end(account, cost_ns, length);
        if again {
            self.enqueue(number);
        }
        let mut ended = QuantumEnd { again: false, next: None };
        // At most two: when a batch quantum ends and its task requests a normal one, both that and another
        // batch quantum may start.
        while let Some(granted) = self.grant() {
            if granted == number {
                ended.again = true;
            } else {
                ended.next = self.entry(granted).waker.clone();
            }
        }
        ended
    }

    /// Removes a task. Returns the waker of the task that gets its quantum.
    fn leave(&mut self, number: usize) -> Option<Waker> {
        let entry = self.tasks[number].take().expect("a task leaves once");
        self.vacant.push(number);
        match entry.state {
            TaskState::Idle => return None,
            TaskState::Queued => self.queue.withdraw(entry.tenant, &number, entry.class),
            TaskState::Granted | TaskState::Running { .. } => self.queue.end(entry.tenant, 0, entry.class),
        }
        self.grant().and_then(|granted| self.entry(granted).waker.clone())
    }

    /// Queues a task. A task of a tenant with more queued tasks is not interactive, regardless of its
    /// history: workers that wake up to a long queue are many.
    fn enqueue(&mut self, number: usize) {
        let entry = self.entry(number);
        let (account, length) = (entry.tenant, entry.classifier.class());
        let is_one_of_many = length == TaskClass::Interactive && self.queue.is_in_line(account);
        let asked = if is_one_of_many { TaskClass::Normal } else { length };
        self.entry(number).class = asked;
        self.queue.enqueue(account, number, asked);
    }

    /// Queues an idle task, and returns the task that gets a quantum at once.
    fn request(&mut self, number: usize) -> Option<usize> {
        let entry = self.entry(number);
        entry.state = TaskState::Queued;
        self.enqueue(number);
        self.grant()
    }

    fn grant(&mut self) -> Option<usize> {
        let granted = self.queue.grant()?;
        self.entry(granted).state = TaskState::Granted;
        Some(granted)
    }

    fn entry(&mut self, number: usize) -> &mut Entry {
        self.tasks[number].as_mut().expect("a task is known until it leaves")
    }
}

/// Classifies a task by its past quanta.
#[derive(Debug, Default)]
struct TaskClassifier {
    /// The CPU score: processor time of long quanta, minus decay by short ones.
    computed_ns: u64,
    /// The last quantum took its full time, or a full interactive one with more work left.
    lasted: bool,
}

impl TaskClassifier {
    /// Records the end of a quantum, and whether the task goes on at once.
    fn record(&mut self, cost_ns: u64, goes_on: bool) {
        self.computed_ns = if cost_ns >= BATCH_QUANTUM_NS {
            self.computed_ns.saturating_add(cost_ns).min(CPU_SCORE_NS_MAX)
        } else {
            self.computed_ns.saturating_sub(cost_ns.max(DECAY_NS_MIN))
        };
        self.lasted = Duration::from_nanos(cost_ns) >= if goes_on { QUANTUM_INTERACTIVE } else { QUANTUM };
    }

    /// Returns the expected class of the next quantum.
    fn class(&self) -> TaskClass {
        match self {
            Self { computed_ns: BATCH_CPU_NS_MIN.., .. } => TaskClass::Batch,
            Self { lasted: true, .. } => TaskClass::Normal,
            Self { .. } => TaskClass::Interactive,
        }
    }
}

/// Returns the processor time of the calling thread; `None` if the system does not report it.
type CpuClock = fn() -> Option<Duration>;

/// Reads the thread's CPU clock.
#[cfg(target_os = "linux")]
fn thread_cpu_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok()
}

#[cfg(not(target_os = "linux"))]
fn thread_cpu_time() -> Option<Duration> {
    None
}

/// Returns the cost of a quantum: the processor time of its thread, not the wall time. A thread also waits
/// for a processor, when the machine is busy or the host's CPU quota is used up. A tenant that happens to
/// have the quantum must not pay for that with many milliseconds of its share.
///
/// The quantum had the wall time `took`; `before` is the processor time at its start.
fn cost(took: Duration, before: Option<Duration>, clock: CpuClock) -> Duration {
    if took <= TAKEN {
        return took;
    }
    let computed = before.and_then(|before| Some(clock()?.saturating_sub(before)));
    computed.map_or(took, |computed| computed.min(took))
}

#[cfg(test)]
mod tests;
