//! The fair queue: the tenant with the least processor time goes next.
//!
//! Pure: it knows neither tasks nor time, only the cost of finished quanta. A tenant that was idle keeps its
//! account, but falls at most [`CREDIT_NS`] behind the others: after an idle hour it may go first, but not
//! for an hour.
//!
//! Source: start-time fair queueing, by Goyal, Vin and Cheng, 1996.

use std::collections::{BTreeSet, VecDeque};

/// Maximum credit of a tenant that was idle: one quantum, enough to go before all busy tenants.
const CREDIT_NS: u64 = 1_000_000;

/// Minimum cost of a quantum, so that quanta too short for the clock are still shared evenly.
const COST_NS_MIN: u64 = 1;

/// The expected class of a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskClass {
    /// It ends at once.
    Interactive,
    /// It ends soon.
    Normal,
    /// It uses its full time.
    Batch,
}

/// Shares a number of slots among tenants, and as many interactive slots. `T` identifies a waiting task.
///
/// Interactive quanta wait only for each other. Batch quanta never occupy all slots, unless there is only
/// one: a tenant with little work finds a free slot at any time.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    /// Free slots for quanta that are not interactive.
    free: usize,
    free_for_interactive: usize,
    /// How many of these may go to batch quanta.
    free_for_batch: usize,
    tenants: Vec<TenantQueue<T>>,
    vacant: Vec<usize>,
    /// The waiting tenants of each class; the first one goes next.
    lines: PerClass<BTreeSet<QueuePosition>>,
    /// The processor time of the tenant that went last.
    floor_ns: u64,
    /// Counts the positions given out.
    places: u64,
}

#[derive(Debug)]
struct TenantQueue<T> {
    used_ns: u64,
    waiting: PerClass<WaitList<T>>,
}

/// The waiting tasks of a tenant, and the position of the first one.
#[derive(Debug)]
struct WaitList<T> {
    waiters: VecDeque<T>,
    place: Option<QueuePosition>,
}

/// One value for each class.
#[derive(Debug, Default)]
struct PerClass<T> {
    interactive: T,
    normal: T,
    batch: T,
}

/// The position of a tenant. Among tenants with equal processor time, the one that has waited longest goes
/// first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct QueuePosition {
    used_ns: u64,
    number: u64,
    account: usize,
}

impl<T: PartialEq> FairQueue<T> {
    /// Returns a queue for `turns` slots.
    pub(crate) fn new(turns: usize) -> Self {
        let (accounts, vacant, lines) = (Vec::new(), Vec::new(), PerClass::default());
        let free_for_long = turns.saturating_sub(1).max(1);
        // Far enough from zero for a credit.
        Self {
            free: turns,
            free_for_interactive: turns,
            free_for_batch: free_for_long,
            tenants: accounts,
            vacant,
            lines,
            floor_ns: CREDIT_NS,
            places: 0,
        }
    }

    /// Adds a tenant and returns its number.
    pub(crate) fn add_tenant(&mut self) -> usize {
        let account = TenantQueue { used_ns: 0, waiting: PerClass::default() };
        match self.vacant.pop() {
            Some(number) => {
                self.tenants[number] = account;
                number
            }
            None => {
                self.tenants.push(account);
                self.tenants.len() - 1
            }
        }
    }

    /// Removes a tenant that has neither waiting tasks nor quanta.
    pub(crate) fn remove_tenant(&mut self, account: usize) {
        self.vacant.push(account);
    }

    /// Queues a task of a tenant.
    pub(crate) fn enqueue(&mut self, account: usize, waiter: T, length: TaskClass) {
        let floor_ns = self.floor_ns;
        let own = &mut self.tenants[account];
        if TaskClass::ALL.iter().all(|length| own.waiting.of(*length).place.is_none()) {
            own.used_ns = own.used_ns.max(floor_ns.saturating_sub(CREDIT_NS));
        }
        let waiting = own.waiting.of(length);
        waiting.waiters.push_back(waiter);
        if waiting.place.is_none() {
            self.queue_tenant(account, length);
        }
    }

    /// Removes a waiting task.
    pub(crate) fn withdraw(&mut self, account: usize, waiter: &T, length: TaskClass) {
        let waiting = self.tenants[account].waiting.of(length);
        waiting.waiters.retain(|other| other != waiter);
        if waiting.waiters.is_empty()
            && let Some(place) = waiting.place.take()
        {
            self.lines.of(length).remove(&place);
        }
    }

    /// Grants a free slot to the next task; `None` if no slot is free for a waiting class.
    pub(crate) fn grant(&mut self) -> Option<T> {
        let next = |length| Some((*self.lines.get(length).first()?, length));
        let may_go = TaskClass::ALL.into_iter().filter(|length| self.is_free(*length));
        let (place, length) = may_go.filter_map(next).min_by_key(|(place, _)| *place)?;
        self.lines.of(length).remove(&place);
        self.floor_ns = self.floor_ns.max(place.used_ns);
        let waiting = self.tenants[place.account].waiting.of(length);
        waiting.place = None;
        let waiter = waiting.waiters.pop_front().expect("who stands in line has somebody waiting");
        if !waiting.waiters.is_empty() {
            self.queue_tenant(place.account, length);
        }
        *self.free_of(length) -= 1;
        self.free_for_batch -= usize::from(length == TaskClass::Batch);
        Some(waiter)
    }

    /// Returns whether a tenant has waiting tasks.
    pub(crate) fn is_in_line(&self, account: usize) -> bool {
        TaskClass::ALL.iter().any(|length| self.tenants[account].waiting.get(*length).place.is_some())
    }

    /// Returns whether all slots that are not interactive are in use.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free == 0
    }

    /// Releases the slot of a quantum with this class and cost.
    pub(crate) fn end(&mut self, account: usize, cost_ns: u64, length: TaskClass) {
        *self.free_of(length) += 1;
        self.free_for_batch += usize::from(length == TaskClass::Batch);
        let own = &mut self.tenants[account];
        own.used_ns = own.used_ns.saturating_add(cost_ns.max(COST_NS_MIN));
        for length in TaskClass::ALL {
            if let Some(place) = self.tenants[account].waiting.of(length).place.take() {
                self.lines.of(length).remove(&place);
                self.queue_tenant(account, length);
            }
        }
    }

    /// Returns the number of waiting tasks, the number of slots in use out of `turns` of both kinds, and
    /// whether a task waits in spite of a free slot.
    #[cfg(test)]
    pub(crate) fn standing(&self, turns: usize) -> (usize, usize, bool) {
        let waiting = |length| self.tenants.iter().map(move |account| account.waiting.get(length).waiters.len());
        let in_vain = TaskClass::ALL.iter().any(|length| self.is_free(*length) && !self.lines.get(*length).is_empty());
        (TaskClass::ALL.into_iter().flat_map(waiting).sum(), 2 * turns - self.free - self.free_for_interactive, in_vain)
    }

    /// Returns whether a slot for this class is free.
    fn is_free(&self, length: TaskClass) -> bool {
        match length {
            TaskClass::Interactive => self.free_for_interactive > 0,
            TaskClass::Normal => self.free > 0,
            TaskClass::Batch => self.free > 0 && self.free_for_batch > 0,
        }
    }

    fn free_of(&mut self, length: TaskClass) -> &mut usize {
        if length == TaskClass::Interactive { &mut self.free_for_interactive } else { &mut self.free }
    }

    /// Puts a tenant behind those with the same processor time.
    fn queue_tenant(&mut self, account: usize, length: TaskClass) {
        self.places += 1;
        let own = &mut self.tenants[account];
        let place = QueuePosition { used_ns: own.used_ns, number: self.places, account };
        own.waiting.of(length).place = Some(place);
        self.lines.of(length).insert(place);
    }
}

impl TaskClass {
    const ALL: [Self; 3] = [Self::Interactive, Self::Normal, Self::Batch];
}

impl<T> Default for WaitList<T> {
    fn default() -> Self {
        Self { waiters: VecDeque::new(), place: None }
    }
}

impl<T> PerClass<T> {
    fn get(&self, length: TaskClass) -> &T {
        match length {
            TaskClass::Interactive => &self.interactive,
            TaskClass::Normal => &self.normal,
            TaskClass::Batch => &self.batch,
        }
    }

    fn of(&mut self, length: TaskClass) -> &mut T {
        match length {
            TaskClass::Interactive => &mut self.interactive,
            TaskClass::Normal => &mut self.normal,
            TaskClass::Batch => &mut self.batch,
        }
    }
}

#[cfg(test)]
mod tests;
