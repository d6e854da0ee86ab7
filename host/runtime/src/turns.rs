//! Shares the processors out among the controllers: nothing of a controller runs but in its turn.
//!
//! A turn is one poll of one task. A worker stops for breath when [`QUANTUM`] has passed, and a guest that computes for longer gives way at
//! the next tick of the epoch clock, so a turn lasts a millisecond at most. As many turns are out at a time as there are threads; who
//! has none waits here, not in tokio's queue, and the controller that has used the least ([`processor`]) goes next ([`shares`]). So who has little to
//! do waits for one turn to end, however many keys and workers the others have. What ends at once waits for nothing but its like
//! ([`habit`]). A task whose turns are long again and again, because its guest computes, is kept away from the last turn: a thread that
//! computes sees neither sockets nor timers, and what makes it stop is a thread that waits for a processor itself.
//!
//! Feeders of the host's own, the API and the store are not controllers, and run as tokio sees fit. A turn that is not brief begins behind
//! them, where every thread has one: what comes in from outside passes through several of them on its way to a worker, and would wait at
//! each step.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

mod habit;
mod processor;
mod shares;

use habit::TaskClassifier;
use shares::{FairQueue, TaskClass};

/// How long a worker goes on from key to key before it lets others have a turn: long enough that giving way costs it a hundredth of its
/// time, and a quarter of what a guest may take that computes.
const QUANTUM: Duration = Duration::from_micros(250);

/// How long it goes on in a turn that was expected to be brief.
const QUANTUM_INTERACTIVE: Duration = Duration::from_micros(50);

/// How often a task that is not brief lets others go first, while every thread is busy: as many steps as lead from a socket to a worker
/// through tasks of the host.
const YIELDS_MAX: u8 = 8;

/// The turns of one host.
pub(crate) struct Scheduler {
    state: Mutex<State>,
    origin: Instant,
    processor: processor::CpuClock,
}

struct State {
    queue: FairQueue<usize>,
    tasks: Vec<Option<Entry>>,
    vacant: Vec<usize>,
}

/// What is known of one task.
struct Entry {
    tenant: usize,
    state: TaskState,
    classifier: TaskClassifier,
    /// What its turn was expected to be when it asked for it.
    class: TaskClass,
    /// How often it still lets others go first before its next turn.
    yields_left: u8,
    /// Makes tokio poll it.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TaskState {
    /// Waits for something of its own.
    Idle,
    /// Could go on, and waits for a turn.
    Queued,
    /// Has a turn, and tokio was told.
    Granted,
    /// Is being polled; `again` when it was woken meanwhile.
    Running { again: bool },
}

/// A controller's share of the turns. Its clones are the same; it ends with the last of them.
#[derive(Clone)]
pub(crate) struct Tenant(Arc<TenantHandle>);

struct TenantHandle {
    scheduler: Arc<Scheduler>,
    number: usize,
}

/// The turn that a task has while it is polled.
#[derive(Clone)]
pub(crate) struct Quantum(Arc<Task>);

struct Task {
    tenant: Tenant,
    number: usize,
    /// When its turn is over, in nanoseconds from the origin of all turns.
    over_ns: AtomicU64,
}

/// A future that is polled in its account's turns alone.
pub(crate) struct ScheduledFuture<F> {
    future: Pin<Box<F>>,
    task: Arc<Task>,
    waker: Waker,
}

impl Scheduler {
    /// Returns turns for `threads` threads.
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        Self::with(threads, processor::clock)
    }

    fn with(threads: usize, processor: processor::CpuClock) -> Arc<Self> {
        let state = State { queue: FairQueue::new(threads), tasks: Vec::new(), vacant: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), origin: Instant::now(), processor })
    }

    /// Opens an account for a controller.
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
    /// Runs what `make` returns in turns of this account.
    pub(crate) fn run<F: Future>(&self, make: impl FnOnce(Quantum) -> F) -> ScheduledFuture<F> {
        let number = self.0.scheduler.state.lock().enter(self.0.number);
        let task = Arc::new(Task { tenant: self.clone(), number, over_ns: AtomicU64::new(0) });
        ScheduledFuture { future: Box::pin(make(Quantum(task.clone()))), waker: task.clone().into(), task }
    }
}

impl Quantum {
    /// Returns whether it has lasted as long as it may at `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.scheduler().ns_at(now) >= self.0.over_ns.load(Ordering::Relaxed)
    }

    /// Lets the others have a turn, if this one is over.
    ///
    /// *Cancel safety*: it takes nothing.
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
                // To the end of the thread's line: before it comes up again, tokio looks after sockets and timers, and what they wake runs.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            StartDecision::Wait => return Poll::Pending,
        };
        let (began, computed) = (Instant::now(), (turns.processor)());
        task.over_ns.store(turns.ns_at(began + may_last), Ordering::Relaxed);
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        let cost = processor::cost(began.elapsed(), computed, turns.processor);
        let cost_ns = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let QuantumEnd { again, next } = turns.state.lock().end(task.number, cost_ns, polled.is_ready());
        if let Some(next) = next {
            next.wake();
        }
        if again {
            // It goes on at once, but first tokio looks after sockets and timers.
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

/// What comes of a task that could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartDecision {
    /// It has a turn, and is to pause after this long if it has more to do.
    Run { may_last: Duration },
    /// It has one, and lets others go first.
    Yield,
    /// It has none.
    Wait,
}

/// What the end of a turn led to.
struct QuantumEnd {
    /// The same task has another turn.
    again: bool,
    /// Another one has a turn now.
    next: Option<Waker>,
}

/// **Invariant.** No turn is free while somebody waits for one.
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

    /// Begins a turn, if the task has one or can have one at once.
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

    /// Notes that a task can go on, and returns how to tell tokio if it may at once.
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

    /// Ends a task's turn.
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
        // Two at most: where a long turn ends and the task asks for a short one, that and the long turn of another may begin.
        while let Some(granted) = self.grant() {
            if granted == number {
                ended.again = true;
            } else {
                ended.next = self.entry(granted).waker.clone();
            }
        }
        ended
    }

    /// Forgets a task, and returns whom its turn goes to if it had one.
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

    /// Puts a task in line. One of a controller that has more in line is not brief, whatever it was before: workers that wake up to a long
    /// queue are many.
    fn enqueue(&mut self, number: usize) {
        let entry = self.entry(number);
        let (account, length) = (entry.tenant, entry.classifier.class());
        let is_one_of_many = length == TaskClass::Interactive && self.queue.is_in_line(account);
        let asked = if is_one_of_many { TaskClass::Normal } else { length };
        self.entry(number).class = asked;
        self.queue.enqueue(account, number, asked);
    }

    /// Puts a task that is idle in line, and returns it if it has a turn at once.
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

#[cfg(test)]
mod tests;
