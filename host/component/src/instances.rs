//! How many guests run at once, and whose turn it is when all places are taken.
//!
//! A guest may hold its place for long: it waits for a network, say. So no controller gets the last quarter of the places, and those
//! that wait are served one controller after the other, however many calls each of them has.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The places of one engine.
pub(crate) struct Instances {
    state: Mutex<State>,
    /// How many calls wait. Changes with the state alone, and is read without its lock.
    waiting: AtomicUsize,
    /// The most that one controller may have.
    per_controller_max: u32,
}

struct State {
    free: u32,
    holders: HashMap<Arc<str>, Holder>,
    /// The controllers that wait and may have one more place, the next one first.
    ring: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Holder {
    held: u32,
    waiting: VecDeque<oneshot::Sender<Permit>>,
    in_ring: bool,
}

/// Leave to run one guest, until it is dropped.
pub(crate) struct Permit {
    instances: Arc<Instances>,
    controller: Arc<str>,
    /// Whether somebody has it, so that its end is to be told.
    is_held: bool,
}

impl Instances {
    pub(crate) fn new(instances_max: u32) -> Arc<Self> {
        let each_max = (instances_max - instances_max.div_ceil(4)).max(1);
        let state = State { free: instances_max, holders: HashMap::new(), ring: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state), waiting: AtomicUsize::new(0), per_controller_max: each_max })
    }

    /// Waits until one more guest of this controller may run.
    ///
    /// *Cancel safety*: a place that was given to who does not wait any more goes to the next.
    pub(crate) async fn acquire(self: &Arc<Self>, controller: &Arc<str>) -> Permit {
        let given = match self.try_acquire(controller) {
            Ok(()) => return self.new_permit(controller),
            Err(given) => given,
        };
        given.await.expect("who waits is served before its controller is forgotten")
    }

    /// Returns how many guests could be started now without waiting, by controllers that have none.
    pub(crate) fn free(&self) -> usize {
        self.state.lock().free as usize
    }

    /// Takes a place at once, or stands in line for one.
    fn try_acquire(&self, controller: &Arc<str>) -> Result<(), oneshot::Receiver<Permit>> {
        let mut state = self.state.lock();
        let State { free, holders, ring } = &mut *state;
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

    /// Takes a place back, and gives it to whose turn it is.
    fn release(self: &Arc<Self>, controller: &Arc<str>) {
        let mut from = controller.clone();
        loop {
            let next = self.state.lock().hand_over(&from, self.per_controller_max);
            let Some((next, give)) = next else { return };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            // Outside of the lock. Who does not wait any more leaves the place to the next, without one more call for each of them.
            let Err(mut refused) = give.send(self.new_permit(&next)) else { return };
            refused.is_held = false;
            from = next;
        }
    }
}

/// **Invariant.** A controller is in the ring exactly when it waits and has less than it may. While there is one, no place is free.
impl State {
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
    /// Returns whether somebody waits for a place, of whichever controller: then nobody keeps one from call to call.
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

#[cfg(test)]
mod tests;
