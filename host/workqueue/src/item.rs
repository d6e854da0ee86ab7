//! The entry of one key.

use std::{sync::Arc, time::Duration};

use crate::{
    Entry, KeyState, Moment, Priority,
    bands::{Links, ListNode},
    index::Hash,
};

/// All data of one key in the queue.
pub(crate) struct Item<K> {
    pub(crate) key: K,
    pub(crate) hash: Hash,
    pub(crate) links: Links,
    pub(crate) priority: Priority,
    /// Only [`State::add_without_event`](crate::state::State::add_without_event) asked for its next run, or
    /// for the present one.
    pub(crate) without_event: bool,
    pub(crate) stage: ItemState,
    /// Boxed, because nearly every key has no failures. Without it an entry fits a cache line.
    last_failure: Option<Box<FailureRecord>>,
}

/// The failures of a key whose last run failed.
struct FailureRecord {
    failures: u32,
    /// End of the backoff after the last failure.
    backoff_until: Moment,
    error: Arc<str>,
    /// Bytes of the text that count against the capacity; 0 if the text was replaced for lack of capacity.
    error_bytes: u32,
}

/// The state of a key, with the data of that state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemState {
    /// In the timers.
    Waiting { due: Moment, order: u32 },
    /// In the list of its band.
    Ready { since: Moment },
    /// In the list of running keys.
    Running { since: Moment, dirty: Option<NextRun> },
    /// In the list of parked keys.
    Parked,
}

/// The run after the present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextRun {
    pub(crate) due: Moment,
    pub(crate) priority: Priority,
    /// Only an add without an event asked for it.
    pub(crate) without_event: bool,
}

impl<K> ListNode for Item<K> {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<K> Item<K> {
    #[inline]
    pub(crate) fn new(key: K, hash: Hash, priority: Priority) -> Item<K> {
        Item {
            key,
            hash,
            links: Links::default(),
            priority,
            without_event: false,
            stage: ItemState::Parked,
            last_failure: None,
        }
    }

    pub(crate) fn key_state(&self) -> KeyState {
        match self.stage {
            ItemState::Waiting { .. } => KeyState::Waiting,
            ItemState::Ready { .. } => KeyState::Ready,
            ItemState::Running { dirty: None, .. } => KeyState::Running,
            ItemState::Running { dirty: Some(_), .. } => KeyState::Dirty,
            ItemState::Parked => KeyState::Parked,
        }
    }

    /// Returns the failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.last_failure.as_ref().map_or(0, |trouble| trouble.failures)
    }

    /// Resets the failures.
    pub(crate) fn forget_failures(&mut self) {
        self.last_failure = None;
    }

    /// Records the failure of a run that started at `began`. It counts as one more in a row unless the run
    /// started within the backoff of the failure before.
    pub(crate) fn record_failure(&mut self, began: Moment, (error, error_bytes): (Arc<str>, u32)) {
        match &mut self.last_failure {
            Some(trouble) => {
                trouble.failures = trouble.failures.saturating_add(u32::from(began >= trouble.backoff_until));
                (trouble.error, trouble.error_bytes) = (error, error_bytes);
            }
            none => {
                *none = Some(Box::new(FailureRecord { failures: 1, backoff_until: Moment::ZERO, error, error_bytes }));
            }
        }
    }

    /// Returns the bytes of the last error text that count against the capacity.
    #[inline]
    pub(crate) fn error_bytes(&self) -> u32 {
        self.last_failure.as_ref().map_or(0, |trouble| trouble.error_bytes)
    }

    /// Sets the end of the backoff after the failure that was just [recorded](Item::record_failure).
    pub(crate) fn back_off(&mut self, until: Moment) {
        let trouble = self.last_failure.as_mut().expect("only a key that failed backs off");
        trouble.backoff_until = until;
    }
}

impl<K: Clone> Item<K> {
    pub(crate) fn entry(&self, now: Moment) -> Entry<K> {
        let (mut due_in, mut ready_for, mut running_for): (Option<Duration>, _, _) = (None, None, None);
        match self.stage {
            ItemState::Waiting { due, .. } => due_in = Some(due.since(now)),
            ItemState::Ready { since } => ready_for = Some(now.since(since)),
            ItemState::Running { since, dirty, .. } => {
                running_for = Some(now.since(since));
                due_in = dirty.filter(|dirty| dirty.due > now).map(|dirty| dirty.due.since(now));
            }
            ItemState::Parked => {}
        }
        Entry {
            key: self.key.clone(),
            state: self.key_state(),
            priority: self.priority,
            failures: self.failures(),
            due_in,
            ready_for,
            running_for,
            last_error: self.last_failure.as_ref().map(|trouble| Arc::clone(&trouble.error)),
        }
    }
}
