//! Changes that the guest's `map` turns into keys. They wait on a queue of their own, so that a failing `map`
//! is retried alone and holds back no other change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use homeostat_component::{Disclosure, Severity, Watch};
use homeostat_store::{Key, Resource};
use homeostat_workqueue::{AddError, Claim, Next, Priority, Queue};
use parking_lot::Mutex;

use super::{Capacity, Intake, IntakeError, add_answered};
use crate::context::Context;
use crate::slot::LoadedVersion;
use crate::slot::{CallTarget, Slot};

/// Maximum number of keys remembered for one resource while the queue has no room for all keys of its
/// versions.
const MAPPED_KEYS_OF_RESOURCE_MAX: usize = 20_000;
/// Maximum number of keys remembered for all resources of one watch. Above it, keys that a resource no longer
/// maps to are found by the next resync.
pub(crate) const MAPPED_KEYS_MAX: usize = 250_000;
/// Maximum bytes of documents of one watch that wait for `map`, but always at least one document. Further
/// changes are found by listing again.
pub(crate) const WAITING_BYTES_MAX: u64 = 32 << 20;

pub(crate) struct GuestMap {
    watch: Box<Watch>,
    guest: Arc<dyn Guest>,
    changes: Queue<Key>,
    seen: Mutex<PendingChanges>,
}

/// The state of all watched resources.
#[derive(Default)]
struct PendingChanges {
    by_key: BTreeMap<Key, TrackedChange>,
    waiting_bytes: u64,
    led_to: usize,
}

/// The state of one watched resource.
#[derive(Default)]
struct TrackedChange {
    /// The current version, or the last one of a deleted resource, until the guest has mapped it. Documents
    /// are kept no longer than that.
    waiting: Option<Arc<Resource>>,
    deleted: bool,
    /// The keys of the last mapped version.
    led_to: Vec<Key>,
}

/// The guest's `map`.
#[async_trait]
pub(crate) trait Guest: Send + Sync + 'static {
    /// Maps a changed resource to keys. Returns `None` if no version needs the watch any more, or its grants
    /// no longer cover reading the resource.
    ///
    /// # Errors
    /// The reason of the failure. The call is retried with backoff.
    async fn map(&self, watch: &Watch, changed: &Resource) -> Option<Result<Vec<Key>, String>>;

    /// Reports a dropped key of an answer.
    fn refused(&self, message: &str);
}

/// The guest of a slot: the version that the watch was started for.
pub(crate) struct SlotGuest {
    pub(crate) controller: Arc<str>,
    pub(crate) slot: Arc<Slot>,
    /// The canary that it was started for.
    pub(crate) owner: Option<Weak<LoadedVersion>>,
    pub(crate) context: Arc<Context>,
}

#[async_trait]
impl Guest for SlotGuest {
    async fn map(&self, watch: &Watch, changed: &Resource) -> Option<Result<Vec<Key>, String>> {
        let CallTarget { loaded, canary: trial } = self.slot.call_target(self.owner.as_ref());
        let is_wanted = loaded.component().describe().watches.contains(watch);
        if !is_wanted || !loaded.definition.grants.discloses(changed.key(), Disclosure::Content) {
            return None;
        }
        let (limits, effects) = (&loaded.definition.limits, loaded.effects.clone());
        let report = loaded.component().map(&self.controller, &watch.name, changed, limits, effects).await;
        Some(report.result.map_err(|fault| {
            if let Some((trial, side)) = trial {
                trial.note_asked(side, &fault);
            }
            let message = format!("map of {} failed: {fault}", changed.key());
            self.context.event(&self.controller, None, Severity::Warning, "MapFailed", &message);
            fault.to_string()
        }))
    }

    fn refused(&self, message: &str) {
        self.context.event(&self.controller, None, Severity::Warning, "KeyRefused", message);
    }
}

impl PendingChanges {
    /// Changes the state of one resource and updates the sums.
    fn change<R>(&mut self, key: &Key, change: impl FnOnce(&mut TrackedChange) -> R) -> R {
        let seen = self.by_key.entry(key.clone()).or_default();
        let before = (seen.waiting_bytes(), seen.led_to.len());
        let changed = change(seen);
        self.waiting_bytes = self.waiting_bytes - before.0 + seen.waiting_bytes();
        self.led_to = self.led_to - before.1 + seen.led_to.len();
        changed
    }

    /// Forgets one resource and returns its keys.
    fn forget(&mut self, key: &Key) -> Vec<Key> {
        let seen = self.by_key.remove(key).unwrap_or_default();
        self.waiting_bytes -= seen.waiting_bytes();
        self.led_to -= seen.led_to.len();
        seen.led_to
    }

    /// Returns whether there is room for this document, which replaces an older one of the same resource.
    fn fits(&self, resource: &Resource) -> bool {
        let others = self.waiting_bytes - self.by_key.get(resource.key()).map_or(0, TrackedChange::waiting_bytes);
        others == 0 || others + resource.bytes() <= WAITING_BYTES_MAX
    }
}

impl TrackedChange {
    fn waiting_bytes(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |resource| resource.bytes())
    }
}

impl GuestMap {
    /// `changes` is an empty queue for the changes that wait for the guest; it bounds their number.
    pub(crate) fn new(watch: Box<Watch>, guest: Arc<dyn Guest>, changes: Queue<Key>) -> Self {
        Self { watch, guest, changes, seen: Mutex::default() }
    }

    /// Queues a change for the guest.
    ///
    /// # Errors
    /// There is no room. The earlier state stays; for a deletion it is dropped, and the keys that the
    /// resource mapped to are returned.
    pub(crate) fn changed(&self, resource: &Arc<Resource>, deleted: bool, priority: Priority) -> Result<(), Vec<Key>> {
        let mut seen = self.seen.lock();
        // A closed queue means that the controller stops.
        if !seen.fits(resource) || self.changes.add(resource.key().clone(), priority) == Err(AddError::Full) {
            return Err(if deleted { seen.forget(resource.key()) } else { Vec::new() });
        }
        // Only the text is kept: the parsed document takes several times as much.
        seen.change(resource.key(), |seen| (seen.waiting, seen.deleted) = (Some(resource.without_document()), deleted));
        drop(seen);
        Ok(())
    }

    /// Handles a resource that a new list no longer contains. Returns the keys that it mapped to, unless the
    /// guest has still to map its last version.
    pub(crate) fn forget(&self, key: &Key) -> Vec<Key> {
        let mut all = self.seen.lock();
        let waits = all.by_key.get_mut(key).filter(|seen| seen.waiting.is_some());
        if let Some(seen) = waits {
            seen.deleted = true;
            if self.changes.add(key.clone(), Priority::NORMAL) != Err(AddError::Full) {
                return Vec::new();
            }
        }
        all.forget(key)
    }

    /// Returns the free room for waiting changes: for their keys and for their documents.
    pub(crate) fn places(&self) -> [Capacity; 2] {
        let used = self.seen.lock().waiting_bytes;
        let keys = Capacity { room: self.changes.remaining_capacity(), used: self.changes.counts().keys() as u64 };
        [keys, Capacity { room: WAITING_BYTES_MAX.saturating_sub(used), used }]
    }

    /// Calls the guest for one change after the other, while the queue has room for the keys.
    pub(crate) async fn run(&self, intake: &Intake) {
        while let Some(claim) = self.changes.claim().await {
            if !self.map(intake, claim).await {
                intake.wait_for_room().await;
            }
        }
    }

    /// Returns whether the queue had room for the keys.
    async fn map(&self, intake: &Intake, claim: Claim<Key>) -> bool {
        let current = {
            let seen = self.seen.lock();
            seen.by_key.get(claim.key()).and_then(|seen| Some((seen.waiting.clone()?, seen.deleted)))
        };
        let Some((resource, deleted)) = current else {
            claim.finish(Next::Done);
            return true;
        };
        let next = match self.guest.map(&self.watch, &resource).await {
            Some(Ok(keys)) => match self.add_mapped_keys(intake, &resource, keys, deleted) {
                true => Next::Done,
                // The retry maps the resource as it is by then.
                false => Next::Again,
            },
            Some(Err(error)) => Next::Retry { at_least: None, error: error.into() },
            // This watch is about to end.
            None => {
                self.seen.lock().forget(claim.key());
                Next::Done
            }
        };
        let fits = !matches!(next, Next::Again);
        claim.finish(next);
        fits
    }

    /// Adds the keys of this version and of the previous one, and remembers those of this one. Returns
    /// whether the queue had room for all; if not, the keys of the previous version stay remembered too.
    fn add_mapped_keys(&self, intake: &Intake, mapped: &Arc<Resource>, keys: Vec<Key>, deleted: bool) -> bool {
        let key = mapped.key();
        let before = self.seen.lock().by_key.get(key).map(|seen| seen.led_to.clone()).unwrap_or_default();
        let now: BTreeSet<&Key> = keys.iter().collect();
        let (stay, left): (Vec<Key>, Vec<Key>) = before.into_iter().partition(|key| now.contains(key));
        let asked = format!("map of the watch {}", self.watch.name);
        let refuse = |message: &str| self.guest.refused(message);
        let mut fits = add_answered(intake, keys.iter().cloned(), Some(key), &asked, refuse);
        for left in left.iter().filter(|left| intake.may_learn(left, key, Disclosure::Content)) {
            fits &= intake.add(left.clone(), Priority::NORMAL) != Err(IntakeError::Full);
        }
        let mut all = self.seen.lock();
        if !all.by_key.contains_key(key) {
            return fits;
        }
        let others = all.led_to - stay.len() - left.len();
        let led_to = match (fits, left.len() + keys.len()) {
            (true, _) => Some(keys),
            // Some keys of both versions have run and others will, so both are remembered for the next
            // version.
            (false, both) if both <= MAPPED_KEYS_OF_RESOURCE_MAX => Some(left.into_iter().chain(keys).collect()),
            (false, _) => None,
        };
        let too_many = led_to.as_ref().is_some_and(|led_to| others + led_to.len() > MAPPED_KEYS_MAX);
        let is_latest = all.change(key, |seen| {
            let is_latest = seen.waiting.as_ref().is_none_or(|waiting| Arc::ptr_eq(waiting, mapped));
            // A newer version that arrived during the call is queued already.
            if seen.deleted == deleted {
                seen.led_to =
                    if too_many { Vec::new() } else { led_to.unwrap_or_else(|| std::mem::take(&mut seen.led_to)) };
            }
            if fits && is_latest {
                seen.waiting = None;
            }
            is_latest
        });
        if fits && deleted && is_latest {
            all.forget(key);
        }
        drop(all);
        if too_many {
            let message = format!(
                "limit mapped-keys: {asked} has returned the maximum of {MAPPED_KEYS_MAX} keys that are remembered; the next resync finds keys that a resource no longer maps to"
            );
            intake.emit_event(Severity::Warning, "LimitExceeded", &message);
        }
        fits
    }
}

#[cfg(test)]
mod tests;
