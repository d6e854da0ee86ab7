//! The entry of one key.

use std::{sync::Arc, time::Duration};

use crate::{
    Entry, KeyState, Moment, Priority,
    bands::{Linked, Links},
    index::Hash,
};

/// Everything the queue knows of one key.
pub(crate) struct Item<K> {
    pub(crate) key: K,
    pub(crate) hash: Hash,
    pub(crate) failures: u32,
    /// When the delay after the last failure is over. A run that starts before that does not count as a failure.
    pub(crate) backoff_until: Moment,
    pub(crate) last_error: Option<Arc<str>>,
    pub(crate) links: Links,
    pub(crate) priority: Priority,
    pub(crate) place: Place,
}

/// Where a key is, with what only matters there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the timers. `floor`: its last run or a person asked for this delay.
    Waiting { due: Moment, order: u32, floor: bool },
    /// In the line of its band.
    Ready { since: Moment },
    /// In the line of the running ones. `counts`: a failure of this run is one more for the backoff.
    Running { since: Moment, counts: bool, dirty: Option<Dirty> },
    /// In the line of the parked ones.
    Parked,
}

/// The run that follows the present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dirty {
    pub(crate) due: Moment,
    pub(crate) priority: Priority,
}

impl<K> Linked for Item<K> {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<K> Item<K> {
    pub(crate) fn new(key: K, hash: Hash, priority: Priority) -> Item<K> {
        Item {
            key,
            hash,
            failures: 0,
            backoff_until: Moment::ZERO,
            last_error: None,
            links: Links::default(),
            priority,
            place: Place::Parked,
        }
    }

    pub(crate) fn state(&self) -> KeyState {
        match self.place {
            Place::Waiting { .. } => KeyState::Waiting,
            Place::Ready { .. } => KeyState::Ready,
            Place::Running { dirty: None, .. } => KeyState::Running,
            Place::Running { dirty: Some(_), .. } => KeyState::Dirty,
            Place::Parked => KeyState::Parked,
        }
    }

    /// Forgets its failures.
    pub(crate) fn succeed(&mut self) {
        (self.failures, self.backoff_until, self.last_error) = (0, Moment::ZERO, None);
    }

    /// Notes a failure; it is one more in a row unless the run began within the delay after the one before.
    pub(crate) fn fail(&mut self, counts: bool, error: Arc<str>) {
        self.failures = self.failures.saturating_add(u32::from(counts));
        self.last_error = Some(error);
    }
}

impl<K: Clone> Item<K> {
    pub(crate) fn entry(&self, now: Moment) -> Entry<K> {
        let (mut due_in, mut ready_for, mut running_for): (Option<Duration>, _, _) = (None, None, None);
        match self.place {
            Place::Waiting { due, .. } => due_in = Some(due.since(now)),
            Place::Ready { since } => ready_for = Some(now.since(since)),
            Place::Running { since, dirty, .. } => {
                running_for = Some(now.since(since));
                due_in = dirty.filter(|dirty| dirty.due > now).map(|dirty| dirty.due.since(now));
            }
            Place::Parked => {}
        }
        Entry {
            key: self.key.clone(),
            state: self.state(),
            priority: self.priority,
            failures: self.failures,
            due_in,
            ready_for,
            running_for,
            last_error: self.last_error.clone(),
        }
    }
}
