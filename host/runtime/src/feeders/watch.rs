//! Lists a kind, then follows its changes, and turns both into keys of the managed kind.
//!
//! What is remembered of each watched resource is its revision and the keys that it led to: with them, the owner that was left is told,
//! and what changed or vanished while nobody watched, or while there was no room for its keys, is noticed by listing again. Where changes
//! of the status alone do not count, a hash of everything else is remembered too.
//!
//! Of what the grants do not let the controller be told of, nothing is remembered and nothing told. They stay the same for as long as this
//! feeder is wanted; where they are about to change, or differ between the versions that are tried, the intake asks again for each key.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{Changes, Disclosure, Grants, Mapping};
use homeostat_store::{Error, EventType, Key, Kind, Resource, Revision};
use homeostat_workqueue::Priority;
use parking_lot::Mutex;
use serde_json::Value;

use super::guest_map::GuestMap;
use super::missed::{UndeliveredKey, UndeliveredKeys};
use super::{Capacity, DeletionState, Feeder, FeederError, Intake, IntakeError, RoomWait, SharedWatches};
use crate::context::for_each_listed;
use crate::mapping::{self, ManagedKind};

pub(crate) struct WatchFeeder {
    name: String,
    watches: Arc<SharedWatches>,
    kind: Kind,
    manages: ManagedKind,
    mapper: KeyMapper,
    changes: Changes,
    /// What it may tell of.
    grants: Grants,
    tracked: Mutex<BTreeMap<Key, TrackedResource>>,
    undelivered: UndeliveredKeys,
}

/// What is remembered of one watched resource, as it was when it counted last.
#[derive(Clone)]
struct TrackedResource {
    revision: Revision,
    /// Its fingerprint, where changes of the status alone do not count.
    fingerprint: Option<u64>,
    /// The keys that this revision led to; of no use where the guest is asked.
    led_to: Vec<Key>,
}

/// Whether listing again leads to the keys of a change once more.
enum RelistCoverage {
    /// The resource is there, and is found.
    Covered,
    /// Nothing that is listed leads to them.
    Lost,
}

/// How a change becomes keys.
pub(crate) enum KeyMapper {
    /// The watched kind is the managed one.
    Identity,
    /// By what stands in the document.
    Declared(Mapping),
    /// By asking the guest, apart from the watch.
    Guest(GuestMap),
}

impl WatchFeeder {
    pub(crate) fn new(
        name: &str,
        watches: Arc<SharedWatches>,
        kind: Kind,
        manages: ManagedKind,
        how: KeyMapper,
        changes: Changes,
        grants: Grants,
    ) -> Self {
        let (name, seen, missed) = (format!("watch {name}"), Mutex::default(), UndeliveredKeys::default());
        Self { name, watches, kind, manages, mapper: how, changes, grants, tracked: seen, undelivered: missed }
    }

    /// Says how much room there is for what a change leads to, and how much is used.
    fn places(&self, intake: &Intake) -> Vec<Capacity> {
        let mut places = vec![intake.place()];
        if let KeyMapper::Guest(map) = &self.mapper {
            places.extend(map.places());
        }
        places
    }
}

impl KeyMapper {
    fn reveals(&self) -> Disclosure {
        match self {
            Self::Identity => Disclosure::Key,
            Self::Declared(mapping) => mapping.disclosure(),
            Self::Guest(_) => Mapping::Guest.disclosure(),
        }
    }
}

#[async_trait]
impl Feeder for WatchFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    fn lists_first(&self) -> bool {
        true
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let asking = async {
            match &self.mapper {
                // Boxed: the call of a guest is large, and most watches make none.
                KeyMapper::Guest(map) => Box::pin(map.run(intake)).await,
                KeyMapper::Identity | KeyMapper::Declared(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = self.list_and_watch(intake) => ended,
            () = asking => Ok(()),
        }
    }
}

impl WatchFeeder {
    async fn list_and_watch(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut turns = intake.deletions.subscribe();
        loop {
            let revision = self.list(intake).await?;
            let let_through = *turns.borrow_and_update();
            self.release_deleted_keys(intake, let_through).await?;
            intake.listed();
            let mut watch = self.watches.watch(&self.kind, revision);
            let mut waiting: Option<RoomWait> = None;
            loop {
                if waiting.is_none() && self.undelivered.needs_relist() {
                    intake.report_full();
                    waiting = Some(RoomWait::begin());
                }
                let event = tokio::select! {
                    biased;
                    event = watch.next() => Some(event),
                    // The sender lives as long as the intake.
                    Ok(()) = turns.changed() => None,
                    // What found no room is found by listing again.
                    () = RoomWait::wait_if_some(waiting.as_mut(), || self.places(intake)) => {
                        intake.mark_healthy();
                        break;
                    }
                };
                let Some(event) = event else {
                    let let_through = *turns.borrow_and_update();
                    self.release_deleted_keys(intake, let_through).await?;
                    continue;
                };
                match event {
                    Ok(event) if self.shows(event.resource.key()) => {
                        self.handle_change(intake, &event.resource, event.kind);
                    }
                    Ok(_) => {}
                    // What was missed is found by listing again.
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Tells of every resource that is new or has changed since it was seen last, and of those that were there and are gone.
    async fn list(&self, intake: &Intake) -> Result<Revision, FeederError> {
        for UndeliveredKey { of, key } in self.undelivered.take() {
            self.add(intake, &of, vec![key], RelistCoverage::Lost);
        }
        let mut gone: BTreeMap<Key, TrackedResource> = self.tracked.lock().clone();
        let revision =
            for_each_listed(&**self.watches.store(), &self.kind, |resource| match gone.remove(resource.key()) {
                None if !self.shows(resource.key()) => {}
                None => self.handle_listed(intake, resource),
                Some(seen) if seen.revision == resource.revision() => {}
                Some(_) => self.handle_change(intake, resource, EventType::Modified),
            })
            .await?;
        for (key, seen) in gone {
            self.tracked.lock().remove(&key);
            self.record_deletion(intake, &key, revision, DeletionState::Deleted);
            if let KeyMapper::Guest(map) = &self.mapper {
                self.add(intake, &key, map.forget(&key), RelistCoverage::Lost);
            }
            self.add(intake, &key, seen.led_to, RelistCoverage::Lost);
        }
        Ok(revision)
    }

    /// Lets those keys through that were queued for resources which are gone, if deletions are let through.
    ///
    /// What comes after is told by the watch, in order: a key that is made anew is held back again.
    async fn release_deleted_keys(&self, intake: &Intake, let_through: bool) -> Result<(), FeederError> {
        if !let_through || !matches!(self.mapper, KeyMapper::Identity) {
            return Ok(());
        }
        for key in intake.deletions.held_back_keys(|key| self.tracked.lock().contains_key(key)) {
            // It may have been made after what was seen last.
            match self.watches.store().get(&key).await {
                Ok(_) => {}
                Err(Error::NotFound { .. }) => intake.deletions.mark_deleted(&key),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes note of what becomes of a resource of the managed kind.
    fn record_deletion(&self, intake: &Intake, key: &Key, revision: Revision, fate: DeletionState) {
        if matches!(self.mapper, KeyMapper::Identity) {
            intake.record_deletion(key, revision, fate);
        }
    }

    /// Takes note of a resource that was there before this watch. That is no event: it cuts no delay short.
    fn handle_listed(&self, intake: &Intake, resource: &Arc<Resource>) {
        self.record_deletion(intake, resource.key(), resource.revision(), deletion_state(resource, false));
        let Ok(led_to) = self.map_keys(resource, false, Priority::LOW) else {
            return self.undelivered.require_relist();
        };
        let known = self.visible_keys(intake, resource.key(), led_to.clone());
        let refused: Vec<Key> =
            known.filter(|key| intake.resync(key.clone(), Priority::LOW) == Err(IntakeError::Full)).collect();
        if !refused.is_empty() && !self.undelivered.add(resource.key(), refused) {
            // It stays unseen, and is found again.
            return;
        }
        let seen = self.seen_now(resource, led_to);
        self.tracked.lock().insert(resource.key().clone(), seen);
    }

    fn handle_change(&self, intake: &Intake, resource: &Arc<Resource>, kind: EventType) {
        let deleted = kind == EventType::Deleted;
        if !deleted && self.is_of_status_alone(resource) {
            return;
        }
        self.record_deletion(intake, resource.key(), resource.revision(), deletion_state(resource, deleted));
        let before = self.tracked.lock().get(resource.key()).map(|seen| seen.led_to.clone()).unwrap_or_default();
        let led_to = match self.map_keys(resource, deleted, Priority::NORMAL) {
            Ok(led_to) => led_to,
            Err(owed) => return self.undelivered.add_deleted(intake, resource.key(), owed),
        };
        let left = before.into_iter().filter(|key| !led_to.contains(key));
        let keys: Vec<Key> = left.chain(led_to.iter().cloned()).collect();
        let fits = self.add(
            intake,
            resource.key(),
            keys,
            if deleted { RelistCoverage::Lost } else { RelistCoverage::Covered },
        );
        if deleted {
            self.tracked.lock().remove(resource.key());
        } else if fits {
            self.tracked.lock().insert(resource.key().clone(), self.seen_now(resource, led_to));
        }
        // Else what was known stays as it was, so that listing again finds a change.
    }

    /// Returns whether everything but the status is as it was when it counted last. `false` where every change counts.
    fn is_of_status_alone(&self, resource: &Resource) -> bool {
        let fingerprint = self.fingerprint(resource);
        fingerprint.is_some()
            && self.tracked.lock().get(resource.key()).is_some_and(|seen| seen.fingerprint == fingerprint)
    }

    fn seen_now(&self, resource: &Resource, led_to: Vec<Key>) -> TrackedResource {
        TrackedResource { revision: resource.revision(), fingerprint: self.fingerprint(resource), led_to }
    }

    fn fingerprint(&self, resource: &Resource) -> Option<u64> {
        match self.changes {
            Changes::All => None,
            Changes::ButStatus => Some(fingerprint(resource)),
        }
    }

    /// Returns the keys that a resource leads to; none where the guest is asked, which takes its time.
    ///
    /// # Errors
    /// The keys that are owed where there is no room to ask the guest.
    fn map_keys(&self, resource: &Arc<Resource>, deleted: bool, priority: Priority) -> Result<Vec<Key>, Vec<Key>> {
        match &self.mapper {
            KeyMapper::Identity => Ok(vec![resource.key().clone()]),
            KeyMapper::Declared(mapping) => Ok(mapping::keys(mapping, &self.manages, resource)),
            KeyMapper::Guest(map) => map.changed(resource, deleted, priority).map(|()| Vec::new()),
        }
    }

    /// Adds keys to which a change of `of` led, or remembers those for which there is no room. Returns whether that was done with all.
    fn add(&self, intake: &Intake, of: &Key, keys: Vec<Key>, trace: RelistCoverage) -> bool {
        let is_refused = |key: &Key| intake.add(key.clone(), Priority::NORMAL) == Err(IntakeError::Full);
        let refused: Vec<Key> = self.visible_keys(intake, of, keys).filter(is_refused).collect();
        match trace {
            _ if refused.is_empty() => true,
            RelistCoverage::Covered => self.undelivered.add(of, refused),
            RelistCoverage::Lost => {
                self.undelivered.add_deleted(intake, of, refused);
                true
            }
        }
    }

    /// Returns whether the controller may be told that this resource has changed.
    fn shows(&self, changed: &Key) -> bool {
        self.grants.discloses(changed, self.mapper.reveals())
    }

    /// Returns those of the keys to which a change of `of` led whose version may learn of it.
    fn visible_keys(&self, intake: &Intake, of: &Key, keys: Vec<Key>) -> impl Iterator<Item = Key> {
        let reveals = self.mapper.reveals();
        keys.into_iter().filter(move |key| intake.may_learn(key, of, reveals))
    }
}

fn deletion_state(resource: &Resource, deleted: bool) -> DeletionState {
    match (deleted, resource.is_deleting()) {
        (true, _) => DeletionState::Deleted,
        (false, true) => DeletionState::Deleting,
        (false, false) => DeletionState::Live,
    }
}

/// What of the metadata changes with every write, whatever was written.
const BOOKKEEPING: [&str; 2] = ["resourceVersion", "managedFields"];

/// Returns a hash of everything in a resource but its status. That of a resource made anew differs: its uid does.
///
/// A change that two in 2^64 would hide is found by the next second look.
fn fingerprint(resource: &Resource) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, value) in fields(resource.document()).filter(|(name, _)| *name != "status") {
        name.hash(&mut hasher);
        if name == "metadata" {
            let lasting = fields(value).filter(|(name, _)| !BOOKKEEPING.contains(&name.as_str()));
            lasting.for_each(|field| field.hash(&mut hasher));
        } else {
            value.hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests;
