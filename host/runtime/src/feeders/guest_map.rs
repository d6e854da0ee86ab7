//! Changes that the guest itself turns into keys. They wait on a queue of their own: a `map` that fails is tried again alone, and
//! holds back no other change.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use homeostat_component::{Severity, Watch};
use homeostat_store::{Key, Resource};
use homeostat_workqueue::{Claim, Next, Options, Priority, Queue};
use parking_lot::Mutex;

use super::{Intake, add_answered};
use crate::context::Context;
use crate::slot::{Asked, Loaded, Slot};

pub(crate) struct GuestMap {
    watch: Box<Watch>,
    controller: Arc<str>,
    slot: Arc<Slot>,
    /// The candidate for which it was begun.
    whose: Option<Weak<Loaded>>,
    context: Arc<Context>,
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

impl GuestMap {
    pub(crate) fn new(
        watch: Box<Watch>,
        controller: Arc<str>,
        slot: Arc<Slot>,
        whose: Option<Weak<Loaded>>,
        context: Arc<Context>,
    ) -> Self {
        let changes = Queue::new(Options { seed: context.seed(&watch.name), ..Options::default() });
        Self { watch, controller, slot, whose, context, changes, seen: Mutex::default() }
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
        let Asked { loaded, trial } = self.slot.asked(self.whose.as_ref());
        if !loaded.component().describe().watches.contains(&self.watch) {
            // Nobody wants this watch any more: it is about to end.
            claim.finish(Next::Done);
            return;
        }
        let (limits, effects) = (&loaded.definition.limits, loaded.effects.clone());
        let report = loaded.component().map(&self.controller, &self.watch.name, &resource, limits, effects).await;
        match report.result {
            Ok(keys) => {
                self.lead_to(intake, claim.key(), keys, deleted);
                claim.finish(Next::Done);
            }
            Err(fault) => {
                if let Some((trial, side)) = trial {
                    trial.note_asked(side, &fault);
                }
                let message = format!("map of {} failed: {fault}", claim.key());
                self.context.event(&self.controller, None, Severity::Warning, "MapFailed", &message);
                claim.finish(Next::Retry { at_least: None, error: fault.to_string().into() });
            }
        }
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
        add_answered(intake, keys, &asked, &self.controller, &self.context);
        for key in left {
            intake.add(key, Priority::NORMAL);
        }
    }
}
