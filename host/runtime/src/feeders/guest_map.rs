//! Changes that the guest itself turns into keys. They wait on a queue of their own: a `map` that fails is tried again alone, and
//! holds back no other change.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use homeostat_component::{Reveals, Severity, Watch};
use homeostat_store::{Key, Resource};
use homeostat_workqueue::{Claim, Next, Options, Priority, Queue};
use parking_lot::Mutex;

use super::{Intake, add_answered};
use crate::context::Context;
use crate::slot::{Asked, Loaded, Slot};

pub(crate) struct GuestMap {
    watch: Box<Watch>,
    guest: Arc<dyn Guest>,
    changes: Queue<Key>,
    seen: Mutex<BTreeMap<Key, Seen>>,
}

/// What is known of one watched resource.
struct Seen {
    /// As it is now; as it was last, when it is gone.
    resource: Arc<Resource>,
    deleted: bool,
    /// What its version before led to.
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
pub(crate) struct OfSlot {
    pub(crate) controller: Arc<str>,
    pub(crate) slot: Arc<Slot>,
    /// The candidate for which it was begun.
    pub(crate) whose: Option<Weak<Loaded>>,
    pub(crate) context: Arc<Context>,
}

#[async_trait]
impl Guest for OfSlot {
    async fn map(&self, watch: &Watch, changed: &Resource) -> Option<Result<Vec<Key>, String>> {
        let Asked { loaded, trial } = self.slot.asked(self.whose.as_ref());
        let is_wanted = loaded.component().describe().watches.contains(watch);
        if !is_wanted || !loaded.definition.grants.shows(changed.key(), Reveals::Content) {
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

impl GuestMap {
    /// `seed`: what the jitter of its retries comes from; `None`: from the operating system.
    pub(crate) fn new(watch: Box<Watch>, guest: Arc<dyn Guest>, seed: Option<u64>) -> Self {
        let changes = Queue::new(Options { seed, ..Options::default() });
        Self { watch, guest, changes, seen: Mutex::default() }
    }

    /// Puts a change in line.
    pub(crate) fn changed(&self, resource: &Arc<Resource>, deleted: bool, priority: Priority) {
        let mut seen = self.seen.lock();
        let led_to = seen.remove(resource.key()).map(|seen| seen.led_to).unwrap_or_default();
        seen.insert(resource.key().clone(), Seen { resource: resource.clone(), deleted, led_to });
        drop(seen);
        // A closed queue means that the controller stops.
        let _ = self.changes.add(resource.key().clone(), priority);
    }

    /// Puts the disappearance of a resource in line, found by listing again.
    pub(crate) fn forget(&self, key: &Key) {
        let mut seen = self.seen.lock();
        let Some(seen) = seen.get_mut(key) else { return };
        seen.deleted = true;
        let _ = self.changes.add(key.clone(), Priority::NORMAL);
    }

    /// Asks the guest about one change after another.
    pub(crate) async fn run(&self, intake: &Intake) {
        while let Some(claim) = self.changes.claim().await {
            self.map(intake, claim).await;
        }
    }

    async fn map(&self, intake: &Intake, claim: Claim<Key>) {
        let current = {
            let seen = self.seen.lock();
            seen.get(claim.key()).map(|seen| (seen.resource.clone(), seen.deleted))
        };
        let Some((resource, deleted)) = current else {
            claim.finish(Next::Done);
            return;
        };
        let next = match self.guest.map(&self.watch, &resource).await {
            Some(Ok(keys)) => {
                self.lead_to(intake, claim.key(), keys, deleted);
                Next::Done
            }
            Some(Err(error)) => Next::Retry { at_least: None, error: error.into() },
            // This watch is about to end.
            None => Next::Done,
        };
        claim.finish(next);
    }

    /// Adds the keys of this version and of the one before, and keeps those of this one.
    fn lead_to(&self, intake: &Intake, changed: &Key, keys: Vec<Key>, deleted: bool) {
        let mut all = self.seen.lock();
        let before = match all.get_mut(changed) {
            // A version that came while the guest was asked is in line already.
            Some(seen) if seen.deleted == deleted => std::mem::replace(&mut seen.led_to, keys.clone()),
            Some(seen) => seen.led_to.clone(),
            None => Vec::new(),
        };
        if deleted && all.get(changed).is_some_and(|seen| seen.deleted) {
            all.remove(changed);
        }
        drop(all);
        let left: Vec<Key> = before.into_iter().filter(|key| !keys.contains(key)).collect();
        let asked = format!("map of the watch {}", self.watch.name);
        add_answered(intake, keys, Some(changed), &asked, |message| self.guest.refused(message));
        for key in left.into_iter().filter(|key| intake.may_learn(key, changed, Reveals::Content)) {
            intake.add(key, Priority::NORMAL);
        }
    }
}
