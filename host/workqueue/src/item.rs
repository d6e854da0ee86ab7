//! The entry of one key.

use std::{sync::Arc, time::Duration};

use crate::{
    Entry, KeyState, Moment, Priority,
    bands::{Links, ListNode},
    index::Hash,
};

/// Everything the queue knows of one key.
pub(crate) struct Item<K> {
    pub(crate) key: K,
    pub(crate) hash: Hash,
    pub(crate) links: Links,
    pub(crate) priority: Priority,
    /// Nothing but a second look asks for its run, or asked for the present one.
    pub(crate) without_event: bool,
    pub(crate) stage: ItemState,
    /// Elsewhere, because nearly every key has none, and then an entry is one line of the processor's cache.
    last_failure: Option<Box<FailureRecord>>,
}

/// What is known of a key whose last run failed.
struct FailureRecord {
    failures: u32,
    /// When the delay after the last failure is over.
    backoff_until: Moment,
    error: Arc<str>,
    /// The bytes of the text that count; none where another one stands in its place.
    error_bytes: u32,
}

/// Where a key is, with what only matters there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemState {
    /// In the timers.
    Waiting { due: Moment, order: u32 },
    /// In the line of its band.
    Ready { since: Moment },
    /// In the line of the running ones.
    Running { since: Moment, dirty: Option<NextRun> },
    /// In the line of the parked ones.
    Parked,
}

/// The run that follows the present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextRun {
    pub(crate) due: Moment,
    pub(crate) priority: Priority,
    /// Nothing but a second look asks for it.
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

    /// Its failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.last_failure.as_ref().map_or(0, |trouble| trouble.failures)
    }

    /// Forgets its failures.
    pub(crate) fn forget_failures(&mut self) {
        self.last_failure = None;
    }

    /// Notes the failure of a run that began then; it is one more in a row unless that was within the delay after the
    /// one before.
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

    /// The bytes of its last error's text that count.
    #[inline]
    pub(crate) fn error_bytes(&self) -> u32 {
        self.last_failure.as_ref().map_or(0, |trouble| trouble.error_bytes)
    }

    /// Notes until when it waits after the failure that was just [noted](Item::fail).
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
