//! The watch feeder: lists a kind, watches its changes, and maps both to keys of the managed kind.
//!
//! For each watched resource it remembers the revision and the keys it mapped to. With them, the previous
//! owner gets its key too. Changes and deletions that were missed, or whose keys found no room, are found by
//! listing again. If status changes do not count, it also remembers a hash of everything else.
//!
//! Resources that the grants do not cover are neither remembered nor reported. The grants of a feeder do not
//! change. While grants are about to change, or differ between the stable version and a canary, the intake
//! checks each key again.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use homeostat_component::{Changes, Disclosure, Grants, Mapping, Severity};
use homeostat_store::{Error, EventType, Key, Kind, Resource, Revision, View};
use homeostat_workqueue::Priority;
use parking_lot::Mutex;
use serde_json::Value;

use super::guest_map::GuestMap;
use super::undelivered::{UndeliveredKey, UndeliveredKeys};
use super::{Capacity, DeletionState, Feeder, FeederError, Intake, IntakeError, RoomWait};
use crate::listing::for_each_listed;
use crate::mapping::{self, ManagedKind, MappedKeys};
use crate::shared_watches::SharedWatches;

pub(crate) struct WatchFeeder {
    name: String,
    watches: Arc<SharedWatches>,
    kind: Kind,
    manages: ManagedKind,
    mapper: KeyMapper,
    changes: Changes,
    /// The grants that bound the resources it reports.
    grants: Grants,
    tracked: Mutex<BTreeMap<Key, TrackedResource>>,
    undelivered: UndeliveredKeys,
}

/// The state of one watched resource at its last change that counted.
#[derive(Clone)]
struct TrackedResource {
    revision: Revision,
    /// Its fingerprint, if status changes do not count.
    fingerprint: Option<u64>,
    /// The keys that this revision mapped to, if the mapping is declared: a managed resource maps to its own key, and
    /// a guest remembers what it mapped.
    led_to: Box<[Key]>,
}

/// Whether listing again leads to the same keys.
enum RelistCoverage {
    /// The resource exists, so a list finds it.
    Covered,
    /// No listed resource leads to the keys.
    Lost,
}

/// How a change is mapped to keys.
pub(crate) enum KeyMapper {
    /// The watched kind is the managed one.
    Identity,
    /// By the content of the document.
    Declared(Mapping),
    /// By the guest's `map`, on a queue of its own.
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

    /// Returns the free and used room for the keys of a change.
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
                // Boxed: the future of a guest call is large, and most watches make none.
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
        // Guests of this controller read the kind, too.
        let _cached = self.watches.store().subscribe(&self.kind, View::Whole);
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
                    // Refused keys are found by listing again.
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
                    // Missed changes are found by listing again.
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Reports every resource that is new or has changed since it was last seen, and every resource that is
    /// gone.
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
            let led_to = match &self.mapper {
                KeyMapper::Identity => vec![key.clone()],
                KeyMapper::Declared(_) => seen.led_to.into(),
                KeyMapper::Guest(map) => map.forget(&key),
            };
            self.add(intake, &key, led_to, RelistCoverage::Lost);
            self.mark_deleted(intake, &key);
        }
        Ok(revision)
    }

    /// Releases queued keys of resources that are gone, while only deletions may run.
    ///
    /// The watch reports later changes in order: the key of a recreated resource is held back again.
    async fn release_deleted_keys(&self, intake: &Intake, let_through: bool) -> Result<(), FeederError> {
        if !let_through || !matches!(self.mapper, KeyMapper::Identity) {
            return Ok(());
        }
        for key in intake.deletions.held_back_keys(|key| self.tracked.lock().contains_key(key)) {
            // It may have been created after the last event seen.
            match self.watches.store().get(&key).await {
                Ok(_) => {}
                Err(Error::NotFound { .. }) => intake.deletions.mark_deleted(&key),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Records the deletion state of a resource of the managed kind.
    fn record_deletion(&self, intake: &Intake, key: &Key, revision: Revision, fate: DeletionState) {
        if matches!(self.mapper, KeyMapper::Identity) {
            intake.record_deletion(key, revision, fate);
        }
    }

    /// Releases the key of a resource of the managed kind that is gone.
    fn mark_deleted(&self, intake: &Intake, key: &Key) {
        if matches!(self.mapper, KeyMapper::Identity) {
            intake.mark_deleted(key);
        }
    }

    /// Handles a listed resource that is not tracked yet. That is no event, so it cuts no delay short.
    fn handle_listed(&self, intake: &Intake, resource: &Arc<Resource>) {
        self.record_deletion(intake, resource.key(), resource.revision(), deletion_state(resource, false));
        let Ok(led_to) = self.map_keys(intake, resource, false, Priority::LOW) else {
            return self.undelivered.require_relist();
        };
        let known = self.visible_keys(intake, resource.key(), led_to.clone());
        let refused: Vec<Key> =
            known.filter(|key| intake.resync(key.clone(), Priority::LOW) == Err(IntakeError::Full)).collect();
        if !refused.is_empty() && !self.undelivered.add(resource.key(), refused) {
            // It stays untracked and is found by the next list.
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
        let led_to = match self.map_keys(intake, resource, deleted, Priority::NORMAL) {
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
            self.mark_deleted(intake, resource.key());
        } else if fits {
            self.tracked.lock().insert(resource.key().clone(), self.seen_now(resource, led_to));
        }
        // Otherwise the tracked state stays, so that the next list finds a change.
    }

    /// Returns whether only the status has changed since the last change that counted. Always `false` if
    /// status changes count.
    fn is_of_status_alone(&self, resource: &Resource) -> bool {
        let fingerprint = self.fingerprint(resource);
        fingerprint.is_some()
            && self.tracked.lock().get(resource.key()).is_some_and(|seen| seen.fingerprint == fingerprint)
    }

    fn seen_now(&self, resource: &Resource, led_to: Vec<Key>) -> TrackedResource {
        let led_to = match self.mapper {
            KeyMapper::Declared(_) => led_to.into(),
            KeyMapper::Identity | KeyMapper::Guest(_) => Box::default(),
        };
        TrackedResource { revision: resource.revision(), fingerprint: self.fingerprint(resource), led_to }
    }

    fn fingerprint(&self, resource: &Resource) -> Option<u64> {
        match self.changes {
            Changes::All => None,
            Changes::ButStatus => Some(fingerprint(resource)),
        }
    }

    /// Returns the keys that a resource maps to, and reports values that can be no key. Empty if the guest maps,
    /// which happens later.
    ///
    /// # Errors
    /// The undelivered keys, if there is no room to queue the change for the guest.
    fn map_keys(
        &self,
        intake: &Intake,
        resource: &Arc<Resource>,
        deleted: bool,
        priority: Priority,
    ) -> Result<Vec<Key>, Vec<Key>> {
        match &self.mapper {
            KeyMapper::Identity => Ok(vec![resource.key().clone()]),
            KeyMapper::Declared(mapping) => {
                let MappedKeys { keys, refusal } = mapping::keys(mapping, &self.manages, resource);
                if let Some(refusal) = refusal {
                    let message = format!("the mapping of the {} found {refusal}: it is dropped", self.name);
                    intake.emit_event(Severity::Warning, "KeyRefused", &message);
                }
                Ok(keys)
            }
            KeyMapper::Guest(map) => map.changed(resource, deleted, priority).map(|()| Vec::new()),
        }
    }

    /// Adds keys that a change of `of` led to, and remembers those that the queue refused. Returns whether
    /// all were added or remembered.
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

    /// Returns whether the grants let the controller learn of a change of this resource.
    fn shows(&self, changed: &Key) -> bool {
        self.grants.discloses(changed, self.mapper.reveals())
    }

    /// Returns the keys whose version may learn of a change of `of`.
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

/// Metadata fields that change with every write.
const BOOKKEEPING: [&str; 2] = ["resourceVersion", "managedFields"];

/// Returns a hash of everything in a resource except its status. A recreated resource differs by its uid.
///
/// The next resync finds a change hidden by a collision, which has a chance of 1 in 2^64.
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
