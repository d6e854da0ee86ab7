//! Shares the processors out among the controllers: nothing of a controller runs but in its turn.
//!
//! A turn is one poll of one task. A worker stops for breath when [`TURN`] has passed, and a guest that computes for longer gives way at
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

use habit::Habit;
use shares::{Length, Shares};

/// How long a worker goes on from key to key before it lets others have a turn: long enough that giving way costs it a hundredth of its
/// time, and a quarter of what a guest may take that computes.
const TURN: Duration = Duration::from_micros(250);

/// How long it goes on in a turn that was expected to be brief.
const BRIEF: Duration = Duration::from_micros(50);

/// How often a task that is not brief lets others go first, while every thread is busy: as many steps as lead from a socket to a worker
/// through tasks of the host.
const PASSES: u8 = 8;

/// The turns of one host.
pub(crate) struct Turns {
    state: Mutex<State>,
    origin: Instant,
    processor: processor::Clock,
}

struct State {
    shares: Shares<usize>,
    tasks: Vec<Option<Entry>>,
    vacant: Vec<usize>,
}

/// What is known of one task.
struct Entry {
    account: usize,
    phase: Phase,
    habit: Habit,
    /// What its turn was expected to be when it asked for it.
    asked: Length,
    /// How often it still lets others go first before its next turn.
    passes: u8,
    /// Makes tokio poll it.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Waits for something of its own.
    Idle,
    /// Could go on, and waits for a turn.
    Asked,
    /// Has a turn, and tokio was told.
    Granted,
    /// Is being polled; `again` when it was woken meanwhile.
    Running { again: bool },
}

/// A controller's share of the turns. Its clones are the same; it ends with the last of them.
#[derive(Clone)]
pub(crate) struct Account(Arc<Opened>);

struct Opened {
    turns: Arc<Turns>,
    number: usize,
}

/// The turn that a task has while it is polled.
#[derive(Clone)]
pub(crate) struct Turn(Arc<Task>);

struct Task {
    account: Account,
    number: usize,
    /// When its turn is over, in nanoseconds from the origin of all turns.
    over_ns: AtomicU64,
}

/// A future that is polled in its account's turns alone.
pub(crate) struct InTurns<F> {
    future: Pin<Box<F>>,
    task: Arc<Task>,
    waker: Waker,
}

impl Turns {
    /// Returns turns for `threads` threads.
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        Self::with(threads, processor::clock)
    }

    fn with(threads: usize, processor: processor::Clock) -> Arc<Self> {
        let state = State { shares: Shares::new(threads), tasks: Vec::new(), vacant: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), origin: Instant::now(), processor })
    }

    /// Opens an account for a controller.
    pub(crate) fn account(self: &Arc<Self>) -> Account {
        let number = self.state.lock().shares.open();
        Account(Arc::new(Opened { turns: self.clone(), number }))
    }

    fn ns_at(&self, moment: Instant) -> u64 {
        u64::try_from(moment.duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.turns.state.lock().shares.close(self.number);
    }
}

impl Account {
    /// Runs what `make` returns in turns of this account.
    pub(crate) fn run<F: Future>(&self, make: impl FnOnce(Turn) -> F) -> InTurns<F> {
        let number = self.0.turns.state.lock().enter(self.0.number);
        let task = Arc::new(Task { account: self.clone(), number, over_ns: AtomicU64::new(0) });
        InTurns { future: Box::pin(make(Turn(task.clone()))), waker: task.clone().into(), task }
    }
}

impl Turn {
    /// Returns whether it has lasted as long as it may at `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.0.turns().ns_at(now) >= self.0.over_ns.load(Ordering::Relaxed)
    }

    /// Lets the others have a turn, if this one is over.
    ///
    /// *Cancel safety*: it takes nothing.
    pub(crate) async fn pause_when_over(&self) {
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
    fn turns(&self) -> &Turns {
        &self.account.0.turns
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let granted = self.turns().state.lock().woken(self.number);
        if let Some(waker) = granted {
            waker.wake();
        }
    }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, task, waker } = &mut *self;
        let turns = task.turns();
        let may_last = match turns.state.lock().begin(task.number, context.waker()) {
            Begun::Runs { may_last } => may_last,
            Begun::Passes => {
                // To the end of the thread's line: before it comes up again, tokio looks after sockets and timers, and what they wake runs.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Begun::Waits => return Poll::Pending,
        };
        let (began, computed) = (Instant::now(), (turns.processor)());
        task.over_ns.store(turns.ns_at(began + may_last), Ordering::Relaxed);
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        let cost = processor::cost(began.elapsed(), computed, turns.processor);
        let cost_ns = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let Ended { again, next } = turns.state.lock().end(task.number, cost_ns, polled.is_ready());
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

impl<F> Drop for InTurns<F> {
    fn drop(&mut self) {
        let next = self.task.turns().state.lock().leave(self.task.number);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// What comes of a task that could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// It has a turn, and is to pause after this long if it has more to do.
    Runs { may_last: Duration },
    /// It has one, and lets others go first.
    Passes,
    /// It has none.
    Waits,
}

/// What the end of a turn led to.
struct Ended {
    /// The same task has another turn.
    again: bool,
    /// Another one has a turn now.
    next: Option<Waker>,
}

/// **Invariant.** No turn is free while somebody waits for one.
impl State {
    fn enter(&mut self, account: usize) -> usize {
        let entry = Some(Entry {
            account,
            phase: Phase::Idle,
            habit: Habit::default(),
            asked: Length::Brief,
            passes: 0,
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
    fn begin(&mut self, number: usize, waker: &Waker) -> Begun {
        let entry = self.entry(number);
        match &mut entry.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        let granted = match entry.phase {
            Phase::Granted => true,
            Phase::Idle => self.ask(number).is_some(),
            Phase::Asked | Phase::Running { .. } => false,
        };
        if !granted {
            return Begun::Waits;
        }
        let all_are_out = self.shares.are_out();
        let entry = self.entry(number);
        if all_are_out && entry.passes > 0 && entry.asked != Length::Brief {
            entry.passes -= 1;
            return Begun::Passes;
        }
        entry.phase = Phase::Running { again: false };
        Begun::Runs { may_last: if entry.asked == Length::Brief { BRIEF } else { TURN } }
    }

    /// Notes that a task can go on, and returns how to tell tokio if it may at once.
    fn woken(&mut self, number: usize) -> Option<Waker> {
        // A waker may outlive its task.
        let entry = self.tasks.get_mut(number)?.as_mut()?;
        match &mut entry.phase {
            Phase::Idle => self.ask(number).and_then(|granted| self.entry(granted).waker.clone()),
            Phase::Running { again } => {
                *again = true;
                None
            }
            Phase::Asked | Phase::Granted => None,
        }
    }

    /// Ends a task's turn.
    fn end(&mut self, number: usize, cost_ns: u64, done: bool) -> Ended {
        let entry = self.entry(number);
        let (account, length) = (entry.account, entry.asked);
        let again = !done && entry.phase == Phase::Running { again: true };
        entry.phase = if again { Phase::Asked } else { Phase::Idle };
        entry.habit.note(cost_ns, again);
        entry.passes = PASSES;
        self.shares.end(account, cost_ns, length);
        if again {
            self.stand(number);
        }
        let mut ended = Ended { again: false, next: None };
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
        match entry.phase {
            Phase::Idle => return None,
            Phase::Asked => self.shares.withdraw(entry.account, &number, entry.asked),
            Phase::Granted | Phase::Running { .. } => self.shares.end(entry.account, 0, entry.asked),
        }
        self.grant().and_then(|granted| self.entry(granted).waker.clone())
    }

    /// Puts a task in line. One of a controller that has more in line is not brief, whatever it was before: workers that wake up to a long
    /// queue are many.
    fn stand(&mut self, number: usize) {
        let entry = self.entry(number);
        let (account, length) = (entry.account, entry.habit.length());
        let is_one_of_many = length == Length::Brief && self.shares.is_in_line(account);
        let asked = if is_one_of_many { Length::Short } else { length };
        self.entry(number).asked = asked;
        self.shares.ask(account, number, asked);
    }

    /// Puts a task that is idle in line, and returns it if it has a turn at once.
    fn ask(&mut self, number: usize) -> Option<usize> {
        let entry = self.entry(number);
        entry.phase = Phase::Asked;
        self.stand(number);
        self.grant()
    }

    fn grant(&mut self) -> Option<usize> {
        let granted = self.shares.grant()?;
        self.entry(granted).phase = Phase::Granted;
        Some(granted)
    }

    fn entry(&mut self, number: usize) -> &mut Entry {
        self.tasks[number].as_mut().expect("a task is known until it leaves")
    }
}

#[cfg(test)]
mod tests;
