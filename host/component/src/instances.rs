//! The right to run one guest: a permit, a machine with a running epoch clock, and the session that keeps
//! both between calls.
//!
//! **Permits** bound the number of guests that run at once. A guest may hold its permit for long, for example
//! while it waits for the network. So no controller gets more than three quarters of the permits, and waiting
//! controllers take turns, regardless of how many calls each has.
//!
//! **A session** exists because a permit, a running clock and code in memory each have a counter that all threads
//! share, and a cache line that two processors write in turn costs up to a microsecond per call. So a session
//! that calls repeatedly registers once. Other callers may wait for the permit that it holds: its owner must
//! drop the session before it waits for anything but a guest.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use wasmtime::Config;
use wasmtime::component::Linker;

use crate::call_context::State;
use crate::code::{Code, CodeTable, ReloadError, ResidentCode};
use crate::epoch_clock::{EpochClock, TickGuard};
use crate::error::Error;
use crate::imports;
use crate::tiered_code::TieredCode;

/// A session that calls guests on behalf of one controller, one at a time.
///
/// Between calls it keeps its permit, unless other callers wait for one, and the code of the last call, which
/// is not evicted meanwhile. Dropping the session releases both.
pub struct CallSession {
    /// A private copy, so that its reference count is not shared with other threads.
    controller: Arc<str>,
    permit: Option<ExecutionPermit>,
    code: CachedCode,
}

/// A permit to run guests on one machine, one at a time, until it is dropped.
pub(crate) struct ExecutionPermit {
    machine: Arc<Machine>,
    permit: Permit,
    _ticking: Option<TickGuard>,
}

/// The code of the last call, and its machine code, which is `None` until the code is called.
#[derive(Default)]
pub(crate) struct CachedCode(Option<(Arc<Code>, Option<Arc<ResidentCode>>)>);

impl std::fmt::Debug for CallSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caller").field(&self.controller).finish()
    }
}

impl CallSession {
    /// Creates a session that holds nothing yet.
    pub fn new(controller: &str) -> Self {
        Self { controller: controller.into(), permit: None, code: CachedCode::default() }
    }

    pub(crate) fn controller(&self) -> &Arc<str> {
        &self.controller
    }

    /// Returns a permit to call a component, and its code. Waits only if it holds no permit, or if others wait
    /// for the one it holds.
    pub(crate) async fn acquire(
        &mut self,
        code: &TieredCode,
        instances: &Arc<Instances>,
    ) -> (&ExecutionPermit, &mut CachedCode) {
        let Self { controller, permit: leave, code: hand } = self;
        let machine = &hand.choose(code).machine;
        let kept = leave.take().filter(|kept| Arc::ptr_eq(&kept.machine, machine) && !kept.permit.has_waiters());
        let kept = match kept {
            Some(kept) => kept,
            None => ExecutionPermit::acquire(machine, instances, controller).await,
        };
        (leave.insert(kept), hand)
    }

    /// Releases the permit if other callers wait for one.
    pub(crate) fn yield_permit(&mut self) {
        self.permit.take_if(|leave| leave.permit.has_waiters());
    }
}

impl ExecutionPermit {
    /// Waits for a permit to run one more guest on a machine.
    pub(crate) async fn acquire(machine: &Arc<Machine>, instances: &Arc<Instances>, controller: &Arc<str>) -> Self {
        let permit = instances.acquire(controller).await;
        Self { machine: Arc::clone(machine), permit, _ticking: machine.clock.as_ref().map(EpochClock::keep_ticking) }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl CachedCode {
    /// Keeps the code for the next call of a component, in place of any other code.
    fn choose(&mut self, code: &TieredCode) -> &Code {
        let kept = {
            let current = code.peek();
            match self.0.take().filter(|(kept, _)| Arc::ptr_eq(kept, &current)) {
                Some(kept) => kept,
                None => (Arc::clone(&current), None),
            }
        };
        let (code, _) = self.0.insert(kept);
        code
    }

    /// Returns the chosen code and its machine code.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(crate) fn ready(&mut self, codes: &CodeTable) -> Result<(&Arc<Code>, &ResidentCode), ReloadError> {
        let (code, ready) = self.0.as_mut().ok_or(ReloadError)?;
        let ready = match ready {
            Some(ready) => ready,
            None => ready.insert(code.ready(codes)?),
        };
        Ok((code, ready))
    }
}

/// The permits of one engine.
pub(crate) struct Instances {
    state: Mutex<Permits>,
    /// The number of waiting calls. Changes only together with the state, but is read without its lock.
    waiting: AtomicUsize,
    /// The maximum permits of one controller.
    per_controller_max: u32,
}

struct Permits {
    free: u32,
    holders: HashMap<Arc<str>, Holder>,
    /// The waiting controllers that may have another permit, in their order of turns.
    ring: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Holder {
    held: u32,
    waiting: VecDeque<oneshot::Sender<Permit>>,
    in_ring: bool,
}

/// A permit to run one guest, until it is dropped.
pub(crate) struct Permit {
    instances: Arc<Instances>,
    controller: Arc<str>,
    /// Whether a caller received it, so that dropping it releases it.
    is_held: bool,
}

impl Instances {
    pub(crate) fn new(instances_max: u32) -> Arc<Self> {
        let each_max = (instances_max - instances_max.div_ceil(4)).max(1);
        let state = Permits { free: instances_max, holders: HashMap::new(), ring: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state), waiting: AtomicUsize::new(0), per_controller_max: each_max })
    }

    /// Waits for a permit to run one more guest of this controller.
    ///
    /// *Cancel safety*: safe; a permit sent to a cancelled waiter goes to the next one.
    pub(crate) async fn acquire(self: &Arc<Self>, controller: &Arc<str>) -> Permit {
        let given = match self.try_acquire(controller) {
            Ok(()) => return self.new_permit(controller),
            Err(given) => given,
        };
        given.await.expect("who waits is served before its controller is forgotten")
    }

    /// Returns how many guests could start now without waiting, if their controllers have none.
    pub(crate) fn free(&self) -> usize {
        self.state.lock().free as usize
    }

    /// Takes a permit, or joins the queue for one.
    fn try_acquire(&self, controller: &Arc<str>) -> Result<(), oneshot::Receiver<Permit>> {
        let mut state = self.state.lock();
        let Permits { free, holders, ring } = &mut *state;
        let holder = match holders.get_mut(controller) {
            Some(holder) => holder,
            None => holders.entry(controller.clone()).or_default(),
        };
        if *free > 0 && holder.held < self.per_controller_max {
            *free -= 1;
            holder.held += 1;
            return Ok(());
        }
        let (give, given) = oneshot::channel();
        holder.waiting.push_back(give);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if holder.held < self.per_controller_max && !holder.in_ring {
            holder.in_ring = true;
            ring.push_back(controller.clone());
        }
        drop(state);
        Err(given)
    }

    fn new_permit(self: &Arc<Self>, controller: &Arc<str>) -> Permit {
        Permit { instances: self.clone(), controller: controller.clone(), is_held: true }
    }

    /// Releases a permit, and hands it to the next waiter.
    fn release(self: &Arc<Self>, controller: &Arc<str>) {
        let mut from = controller.clone();
        loop {
            let next = self.state.lock().hand_over(&from, self.per_controller_max);
            let Some((next, give)) = next else { return };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            // Send outside of the lock. If the waiter was cancelled, the loop passes the permit on, instead
            // of a recursive drop for each waiter.
            let Err(mut refused) = give.send(self.new_permit(&next)) else { return };
            refused.is_held = false;
            from = next;
        }
    }
}

/// **Invariant.** A controller is in the ring exactly if it has waiting calls and less than its maximum of
/// permits. While the ring is not empty, no permit is free.
impl Permits {
    fn hand_over(&mut self, controller: &Arc<str>, each_max: u32) -> Option<(Arc<str>, oneshot::Sender<Permit>)> {
        self.free += 1;
        let holder = self.holders.get_mut(controller).expect("who has a place is known");
        holder.held -= 1;
        if !holder.waiting.is_empty() && !holder.in_ring {
            holder.in_ring = true;
            self.ring.push_back(controller.clone());
        }
        if holder.held == 0 && holder.waiting.is_empty() {
            self.holders.remove(controller);
        }
        let next = self.ring.pop_front()?;
        let holder = self.holders.get_mut(&next).expect("who waits is known");
        let give = holder.waiting.pop_front().expect("who is in the ring waits");
        self.free -= 1;
        holder.held += 1;
        holder.in_ring = holder.held < each_max && !holder.waiting.is_empty();
        if holder.in_ring {
            self.ring.push_back(next.clone());
        }
        Some((next, give))
    }
}

impl Permit {
    /// Returns whether any controller waits for a permit: then no session keeps one between calls.
    pub(crate) fn has_waiters(&self) -> bool {
        self.instances.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_held {
            self.instances.release(&self.controller);
        }
    }
}

/// A wasmtime engine with its linked imports and its epoch clock.
pub(crate) struct Machine {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    /// `None` if guests are not interrupted.
    pub(crate) clock: Option<EpochClock>,
}

impl Machine {
    pub(crate) fn start(config: &Config, preemption: bool) -> Result<Self, Error> {
        let engine = wasmtime::Engine::new(config).map_err(|error| Error::Engine(error.into()))?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker).map_err(|error| Error::Engine(error.into()))?;
        let clock = preemption.then(|| EpochClock::start(&engine)).transpose().map_err(Error::EpochClock)?;
        Ok(Self { engine, linker, clock })
    }
}

#[cfg(test)]
mod tests;
