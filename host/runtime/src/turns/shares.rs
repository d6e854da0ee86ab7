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
pub(crate) enum Length {
    /// It ends soon.
    Short,
    /// It lasts as long as a turn can.
    Long,
}

/// Shares a number of turns out among accounts. `T` names what waits for one.
///
/// Long turns never have all of them, unless there is but one: whoever needs little finds a free one at any time.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    free: usize,
    /// How many more long ones may be out.
    free_for_long: usize,
    accounts: Vec<Account<T>>,
    vacant: Vec<usize>,
    /// The accounts that wait for a turn of each length, the one whose turn it is first.
    lines: Both<BTreeSet<Place>>,
    /// What the account had used that went last.
    floor_ns: u64,
    /// Counts the places that were given out.
    places: u64,
}

#[derive(Debug)]
struct Account<T> {
    used_ns: u64,
    waiting: Both<Waiting<T>>,
}

/// Who of an account waits, and where the first of them stands in the line.
#[derive(Debug)]
struct Waiting<T> {
    waiters: VecDeque<T>,
    place: Option<Place>,
}

/// One thing for each length.
#[derive(Debug, Default)]
struct Both<T> {
    short: T,
    long: T,
}

/// Where an account stands in the line. Of those that have used the same, the one that has stood there longest goes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Place {
    used_ns: u64,
    number: u64,
    account: usize,
}

impl<T: PartialEq> Shares<T> {
    /// Returns shares of `turns` turns at a time.
    pub(crate) fn new(turns: usize) -> Self {
        let (accounts, vacant, lines) = (Vec::new(), Vec::new(), Both::default());
        let free_for_long = turns.saturating_sub(1).max(1);
        // Far enough from zero for a credit.
        Self { free: turns, free_for_long, accounts, vacant, lines, floor_ns: CREDIT_NS, places: 0 }
    }

    /// Opens an account and returns its number.
    pub(crate) fn open(&mut self) -> usize {
        let account = Account { used_ns: 0, waiting: Both::default() };
        match self.vacant.pop() {
            Some(number) => {
                self.accounts[number] = account;
                number
            }
            None => {
                self.accounts.push(account);
                self.accounts.len() - 1
            }
        }
    }

    /// Closes an account that neither waits nor has a turn.
    pub(crate) fn close(&mut self, account: usize) {
        self.vacant.push(account);
    }

    /// Puts one more in the line of its account.
    pub(crate) fn ask(&mut self, account: usize, waiter: T, length: Length) {
        let floor_ns = self.floor_ns;
        let own = &mut self.accounts[account];
        if own.waiting.short.place.is_none() && own.waiting.long.place.is_none() {
            own.used_ns = own.used_ns.max(floor_ns.saturating_sub(CREDIT_NS));
        }
        let waiting = own.waiting.of(length);
        waiting.waiters.push_back(waiter);
        if waiting.place.is_none() {
            self.stand(account, length);
        }
    }

    /// Takes one that waits out of the line of its account.
    pub(crate) fn withdraw(&mut self, account: usize, waiter: &T, length: Length) {
        let waiting = self.accounts[account].waiting.of(length);
        waiting.waiters.retain(|other| other != waiter);
        if waiting.waiters.is_empty()
            && let Some(place) = waiting.place.take()
        {
            self.lines.of(length).remove(&place);
        }
    }

    /// Gives a free turn to whom it is due; `None` when none is free, or nobody waits who may have it.
    pub(crate) fn grant(&mut self) -> Option<T> {
        if self.free == 0 {
            return None;
        }
        let short = self.lines.short.first().map(|place| (*place, Length::Short));
        let long = self.lines.long.first().map(|place| (*place, Length::Long)).filter(|_| self.free_for_long > 0);
        let (place, length) = short.into_iter().chain(long).min_by_key(|(place, _)| *place)?;
        self.lines.of(length).remove(&place);
        self.floor_ns = self.floor_ns.max(place.used_ns);
        let waiting = self.accounts[place.account].waiting.of(length);
        waiting.place = None;
        let waiter = waiting.waiters.pop_front().expect("who stands in line has somebody waiting");
        if !waiting.waiters.is_empty() {
            self.stand(place.account, length);
        }
        self.free -= 1;
        self.free_for_long -= usize::from(length == Length::Long);
        Some(waiter)
    }

    /// Takes a turn back that was asked for with this length, and has cost this much.
    pub(crate) fn end(&mut self, account: usize, cost_ns: u64, length: Length) {
        self.free += 1;
        self.free_for_long += usize::from(length == Length::Long);
        let own = &mut self.accounts[account];
        own.used_ns = own.used_ns.saturating_add(cost_ns.max(COST_NS_MIN));
        for length in [Length::Short, Length::Long] {
            if let Some(place) = self.accounts[account].waiting.of(length).place.take() {
                self.lines.of(length).remove(&place);
                self.stand(account, length);
            }
        }
    }

    /// Returns how many wait, how many turns are out of `turns`, and whether somebody waits who could have one.
    #[cfg(test)]
    pub(crate) fn standing(&self, turns: usize) -> (usize, usize, bool) {
        let waiting = self.accounts.iter().flat_map(|account| [&account.waiting.short, &account.waiting.long]);
        let for_long = self.free_for_long > 0 && !self.lines.long.is_empty();
        let in_vain = self.free > 0 && (for_long || !self.lines.short.is_empty());
        (waiting.map(|waiting| waiting.waiters.len()).sum(), turns - self.free, in_vain)
    }

    /// Puts an account at the end of those that have used as much as it has.
    fn stand(&mut self, account: usize, length: Length) {
        self.places += 1;
        let own = &mut self.accounts[account];
        let place = Place { used_ns: own.used_ns, number: self.places, account };
        own.waiting.of(length).place = Some(place);
        self.lines.of(length).insert(place);
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { waiters: VecDeque::new(), place: None }
    }
}

impl<T> Both<T> {
    fn of(&mut self, length: Length) -> &mut T {
        match length {
            Length::Short => &mut self.short,
            Length::Long => &mut self.long,
        }
    }
}

#[cfg(test)]
mod tests;
