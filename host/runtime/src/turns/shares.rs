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

/// Shares a number of turns out among accounts. `T` names what waits for one.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    free: usize,
    accounts: Vec<Account<T>>,
    vacant: Vec<usize>,
    /// The accounts that wait, the one whose turn it is first.
    line: BTreeSet<Place>,
    /// What the account had used that went last.
    floor_ns: u64,
    /// Counts the places that were given out.
    places: u64,
}

#[derive(Debug)]
struct Account<T> {
    used_ns: u64,
    place: Option<Place>,
    waiting: VecDeque<T>,
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
        let (accounts, vacant, line) = (Vec::new(), Vec::new(), BTreeSet::new());
        // Far enough from zero for a credit.
        Self { free: turns, accounts, vacant, line, floor_ns: CREDIT_NS, places: 0 }
    }

    /// Opens an account and returns its number.
    pub(crate) fn open(&mut self) -> usize {
        let account = Account { used_ns: 0, place: None, waiting: VecDeque::new() };
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
    pub(crate) fn ask(&mut self, account: usize, waiter: T) {
        let floor_ns = self.floor_ns;
        let own = &mut self.accounts[account];
        own.waiting.push_back(waiter);
        if own.place.is_none() {
            own.used_ns = own.used_ns.max(floor_ns.saturating_sub(CREDIT_NS));
            self.stand(account);
        }
    }

    /// Takes one that waits out of the line of its account.
    pub(crate) fn withdraw(&mut self, account: usize, waiter: &T) {
        let own = &mut self.accounts[account];
        own.waiting.retain(|other| other != waiter);
        if own.waiting.is_empty()
            && let Some(place) = own.place.take()
        {
            self.line.remove(&place);
        }
    }

    /// Gives a free turn to whom it is due; `None` when none is free, or nobody waits.
    pub(crate) fn grant(&mut self) -> Option<T> {
        if self.free == 0 {
            return None;
        }
        let place = self.line.pop_first()?;
        self.floor_ns = self.floor_ns.max(place.used_ns);
        let own = &mut self.accounts[place.account];
        own.place = None;
        let waiter = own.waiting.pop_front().expect("who stands in line has somebody waiting");
        if !own.waiting.is_empty() {
            self.stand(place.account);
        }
        self.free -= 1;
        Some(waiter)
    }

    /// Takes a turn back that has cost this much.
    pub(crate) fn end(&mut self, account: usize, cost_ns: u64) {
        self.free += 1;
        let own = &mut self.accounts[account];
        own.used_ns = own.used_ns.saturating_add(cost_ns.max(COST_NS_MIN));
        if let Some(place) = own.place.take() {
            self.line.remove(&place);
            self.stand(account);
        }
    }

    /// Puts an account at the end of those that have used as much as it has.
    fn stand(&mut self, account: usize) {
        self.places += 1;
        let own = &mut self.accounts[account];
        let place = Place { used_ns: own.used_ns, number: self.places, account };
        own.place = Some(place);
        self.line.insert(place);
    }
}

#[cfg(test)]
mod tests;
