//! Changes that the guest itself turns into keys. They wait on a queue of their own: a `map` that fails is tried again alone, and
//! holds back no other change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use homeostat_component::{Disclosure, Severity, Watch};
use homeostat_store::{Key, Resource};
use homeostat_workqueue::{AddError, Claim, Next, Priority, Queue};
use parking_lot::Mutex;

use super::{Capacity, Intake, IntakeError, add_answered};
use crate::context::Context;
use crate::slot::{CallTarget, LoadedVersion, Slot};

/// Keys that are remembered of one resource, at most, while there is no room for all that its versions led to.
const MAPPED_KEYS_OF_RESOURCE_MAX: usize = 20_000;
/// Keys that are remembered of all resources of one watch, at most. Above it, whoever a resource leaves is found by the next second look.
pub(crate) const MAPPED_KEYS_MAX: usize = 250_000;
/// Bytes of documents that wait to be mapped, of one watch, but always one of them. What is above is found by listing again.
pub(crate) const WAITING_BYTES_MAX: u64 = 32 << 20;

pub(crate) struct GuestMap {
    watch: Box<Watch>,
    guest: Arc<dyn Guest>,
    changes: Queue<Key>,
    seen: Mutex<PendingChanges>,
}

/// What is known of the watched resources.
#[derive(Default)]
struct PendingChanges {
    by_key: BTreeMap<Key, TrackedChange>,
    waiting_bytes: u64,
    led_to: usize,
}

/// What is known of one watched resource.
#[derive(Default)]
struct TrackedChange {
    /// As it is now, or was last when it is gone, until the guest has been asked about it: documents are kept no longer than that.
    waiting: Option<Arc<Resource>>,
    deleted: bool,
    /// What the version led to about which the guest was asked last.
    led_to: Vec<Key>,
}

/// Who is asked.
#[async_trait]
pub(crate) trait Guest: Send + Sync + 'static {
    /// Asks which keys a change matters to. `None`: nobody is asked, as nobody wants the watch any more, or the grants of whoever does no
    /// longer let it read the resource.
    ///
    /// # Errors
    /// Why there is no answer. It is asked again after a while.
    async fn map(&self, watch: &Watch, changed: &Resource) -> Option<Result<Vec<Key>, String>>;

    /// Takes note of a key of its answer that is dropped.
    fn refused(&self, message: &str);
}

/// What a slot holds: the version for which the watch was begun.
pub(crate) struct SlotGuest {
    pub(crate) controller: Arc<str>,
    pub(crate) slot: Arc<Slot>,
    /// The candidate for which it was begun.
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
    /// Changes what is known of one, and keeps the sums.
    fn change<R>(&mut self, key: &Key, change: impl FnOnce(&mut TrackedChange) -> R) -> R {
        let seen = self.by_key.entry(key.clone()).or_default();
        let before = (seen.waiting_bytes(), seen.led_to.len());
        let changed = change(seen);
        self.waiting_bytes = self.waiting_bytes - before.0 + seen.waiting_bytes();
        self.led_to = self.led_to - before.1 + seen.led_to.len();
        changed
    }

    /// Forgets one, and returns the keys that it led to.
    fn forget(&mut self, key: &Key) -> Vec<Key> {
        let seen = self.by_key.remove(key).unwrap_or_default();
        self.waiting_bytes -= seen.waiting_bytes();
        self.led_to -= seen.led_to.len();
        seen.led_to
    }

    /// Says whether there is room for one more document that waits, in the place of what is known of it.
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
    /// `changes`: an empty queue, where changes wait for the guest. As many can wait as it has room for.
    pub(crate) fn new(watch: Box<Watch>, guest: Arc<dyn Guest>, changes: Queue<Key>) -> Self {
        Self { watch, guest, changes, seen: Mutex::default() }
    }

    /// Puts a change in line.
    ///
    /// # Errors
    /// There is no room for one more: what was known before stays as it was. Of what is deleted it is forgotten, and returned are the keys
    /// that it led to.
    pub(crate) fn changed(&self, resource: &Arc<Resource>, deleted: bool, priority: Priority) -> Result<(), Vec<Key>> {
        let mut seen = self.seen.lock();
        // A closed queue means that the controller stops.
        if !seen.fits(resource) || self.changes.add(resource.key().clone(), priority) == Err(AddError::Full) {
            return Err(if deleted { seen.forget(resource.key()) } else { Vec::new() });
        }
        // Its text alone: the document takes several times as much.
        seen.change(resource.key(), |seen| (seen.waiting, seen.deleted) = (Some(resource.without_document()), deleted));
        drop(seen);
        Ok(())
    }

    /// Notes the disappearance of a resource, found by listing again. Returns the keys that it led to, unless the guest is still to be
    /// asked about its last version.
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

    /// Says how much room there is for changes that wait: for their keys and for their documents.
    pub(crate) fn places(&self) -> [Capacity; 2] {
        let used = self.seen.lock().waiting_bytes;
        let keys = Capacity { room: self.changes.remaining_capacity(), used: self.changes.counts().keys() as u64 };
        [keys, Capacity { room: WAITING_BYTES_MAX.saturating_sub(used), used }]
    }

    /// Asks the guest about one change after another, while there is room for the keys that it answers.
    pub(crate) async fn run(&self, intake: &Intake) {
        while let Some(claim) = self.changes.claim().await {
            if !self.map(intake, claim).await {
                intake.wait_for_room().await;
            }
        }
    }

    /// Returns whether there was room for what it led to.
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
                // Asked again, it answers for the resource as it is then.
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

    /// Adds the keys of this version and of the one before, and keeps those of this one. Returns whether there was room for all; if there was
    /// not, what the version before led to stays known.
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
            // Some of both have run, and others will: whoever is left by the next version is among these.
            (false, both) if both <= MAPPED_KEYS_OF_RESOURCE_MAX => Some(left.into_iter().chain(keys).collect()),
            (false, _) => None,
        };
        let too_many = led_to.as_ref().is_some_and(|led_to| others + led_to.len() > MAPPED_KEYS_MAX);
        let is_latest = all.change(key, |seen| {
            let is_latest = seen.waiting.as_ref().is_none_or(|waiting| Arc::ptr_eq(waiting, mapped));
            // A version that came while the guest was asked is in line already.
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
                "limit mapped-keys: {asked} has led to {MAPPED_KEYS_MAX} keys that are remembered; whoever a resource leaves is told by the next second look at every key"
            );
            intake.emit_event(Severity::Warning, "LimitExceeded", &message);
        }
        fits
    }
}

#[cfg(test)]
mod tests;
