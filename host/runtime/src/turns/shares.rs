//! Who gets the next turn: the controller that has used the least of the processors.
//!
//! Pure: it knows neither tasks nor time, only what a turn has cost once it has ended. A controller that had nothing to do comes back
//! with what it had used, but never more than [`CREDIT_NS`] behind the others: who slept for an hour may go first, not for an hour.
//!
//! Source: start-time fair queueing, by Goyal, Vin and Cheng, 1996.

use std::collections::{BTreeSet, VecDeque};

/// How far behind the others a controller may be when it comes back. One turn: enough to go before all that are busy.
const CREDIT_NS: u64 = 1_000_000;

/// The least that a turn costs, so that turns too short for the clock are still shared out evenly.
const COST_NS_MIN: u64 = 1;

/// What a turn is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskClass {
    /// It ends at once.
    Interactive,
    /// It ends soon.
    Normal,
    /// It lasts as long as a turn can.
    Batch,
}

/// Shares a number of turns out among accounts, and as many brief ones. `T` names what waits for one.
///
/// Brief turns wait for one another alone. Long ones never have all turns, unless there is but one: whoever needs little finds a free one
/// at any time.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    /// How many more may be out that are not brief.
    free: usize,
    free_for_interactive: usize,
    /// How many more of the first may be long.
    free_for_batch: usize,
    tenants: Vec<TenantQueue<T>>,
    vacant: Vec<usize>,
    /// The accounts that wait for a turn of each length, the one whose turn it is first.
    lines: PerClass<BTreeSet<QueuePosition>>,
    /// What the account had used that went last.
    floor_ns: u64,
    /// Counts the places that were given out.
    places: u64,
}

#[derive(Debug)]
struct TenantQueue<T> {
    used_ns: u64,
    waiting: PerClass<WaitList<T>>,
}

/// Who of an account waits, and where the first of them stands in the line.
#[derive(Debug)]
struct WaitList<T> {
    waiters: VecDeque<T>,
    place: Option<QueuePosition>,
}

/// One thing for each length.
#[derive(Debug, Default)]
struct PerClass<T> {
    interactive: T,
    normal: T,
    batch: T,
}

/// Where an account stands in the line. Of those that have used the same, the one that has stood there longest goes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct QueuePosition {
    used_ns: u64,
    number: u64,
    account: usize,
}

impl<T: PartialEq> FairQueue<T> {
    /// Returns shares of `turns` turns at a time.
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

    /// Opens an account and returns its number.
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

    /// Closes an account that neither waits nor has a turn.
    pub(crate) fn remove_tenant(&mut self, account: usize) {
        self.vacant.push(account);
    }

    /// Puts one more in the line of its account.
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

    /// Takes one that waits out of the line of its account.
    pub(crate) fn withdraw(&mut self, account: usize, waiter: &T, length: TaskClass) {
        let waiting = self.tenants[account].waiting.of(length);
        waiting.waiters.retain(|other| other != waiter);
        if waiting.waiters.is_empty()
            && let Some(place) = waiting.place.take()
        {
            self.lines.of(length).remove(&place);
        }
    }

    /// Gives a free turn to whom it is due; `None` when none is free, or nobody waits who may have it.
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

    /// Returns whether somebody of an account waits.
    pub(crate) fn is_in_line(&self, account: usize) -> bool {
        TaskClass::ALL.iter().any(|length| self.tenants[account].waiting.get(*length).place.is_some())
    }

    /// Returns whether every turn is out that is not brief.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free == 0
    }

    /// Takes a turn back that was asked for with this length, and has cost this much.
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

    /// Returns how many wait, how many turns are out of `turns` and as many brief ones, and whether somebody waits who could have one.
    #[cfg(test)]
    pub(crate) fn standing(&self, turns: usize) -> (usize, usize, bool) {
        let waiting = |length| self.tenants.iter().map(move |account| account.waiting.get(length).waiters.len());
        let in_vain = TaskClass::ALL.iter().any(|length| self.is_free(*length) && !self.lines.get(*length).is_empty());
        (TaskClass::ALL.into_iter().flat_map(waiting).sum(), 2 * turns - self.free - self.free_for_interactive, in_vain)
    }

    /// Returns whether a turn of this length is free.
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

    /// Puts an account at the end of those that have used as much as it has.
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
