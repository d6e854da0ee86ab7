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
use super::missed::{Missed, Owed};
use super::{Fate, Feeder, FeederError, Intake, NotTaken, Place, Waiting, Watches};
use crate::context::for_each_listed;
use crate::mapping::{self, Managed};

pub(crate) struct WatchFeeder {
    name: String,
    watches: Arc<Watches>,
    kind: Kind,
    manages: Managed,
    how: How,
    changes: Changes,
    /// What it may tell of.
    grants: Grants,
    seen: Mutex<BTreeMap<Key, Seen>>,
    missed: Missed,
}

/// What is remembered of one watched resource, as it was when it counted last.
#[derive(Clone)]
struct Seen {
    revision: Revision,
    /// Its fingerprint, where changes of the status alone do not count.
    fingerprint: Option<u64>,
    /// The keys that this revision led to; of no use where the guest is asked.
    led_to: Vec<Key>,
}

/// Whether listing again leads to the keys of a change once more.
enum Trace {
    /// The resource is there, and is found.
    Listed,
    /// Nothing that is listed leads to them.
    Gone,
}

/// How a change becomes keys.
pub(crate) enum How {
    /// The watched kind is the managed one.
    Itself,
    /// By what stands in the document.
    Mapped(Mapping),
    /// By asking the guest, apart from the watch.
    Asked(GuestMap),
}

impl WatchFeeder {
    pub(crate) fn new(
        name: &str,
        watches: Arc<Watches>,
        kind: Kind,
        manages: Managed,
        how: How,
        changes: Changes,
        grants: Grants,
    ) -> Self {
        let (name, seen, missed) = (format!("watch {name}"), Mutex::default(), Missed::default());
        Self { name, watches, kind, manages, how, changes, grants, seen, missed }
    }

    /// Says how much room there is for what a change leads to, and how much is used.
    fn places(&self, intake: &Intake) -> Vec<Place> {
        let mut places = vec![intake.place()];
        if let How::Asked(map) = &self.how {
            places.extend(map.places());
        }
        places
    }
}

impl How {
    fn reveals(&self) -> Disclosure {
        match self {
            Self::Itself => Disclosure::Key,
            Self::Mapped(mapping) => mapping.disclosure(),
            Self::Asked(_) => Mapping::Guest.disclosure(),
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
            match &self.how {
                // Boxed: the call of a guest is large, and most watches make none.
                How::Asked(map) => Box::pin(map.run(intake)).await,
                How::Itself | How::Mapped(_) => std::future::pending().await,
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
        let mut turns = intake.deletions.turns();
        loop {
            let revision = self.list(intake).await?;
            let let_through = *turns.borrow_and_update();
            self.let_gone_through(intake, let_through).await?;
            intake.listed();
            let mut watch = self.watches.watch(&self.kind, revision);
            let mut waiting: Option<Waiting> = None;
            loop {
                if waiting.is_none() && self.missed.is_something() {
                    intake.full();
                    waiting = Some(Waiting::begin());
                }
                let event = tokio::select! {
                    biased;
                    event = watch.next() => Some(event),
                    // The sender lives as long as the intake.
                    Ok(()) = turns.changed() => None,
                    // What found no room is found by listing again.
                    () = Waiting::room_for(waiting.as_mut(), || self.places(intake)) => {
                        intake.well();
                        break;
                    }
                };
                let Some(event) = event else {
                    let let_through = *turns.borrow_and_update();
                    self.let_gone_through(intake, let_through).await?;
                    continue;
                };
                match event {
                    Ok(event) if self.shows(event.resource.key()) => {
                        self.changed(intake, &event.resource, event.kind);
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
        for Owed { of, key } in self.missed.take() {
            self.add(intake, &of, vec![key], Trace::Gone);
        }
        let mut gone: BTreeMap<Key, Seen> = self.seen.lock().clone();
        let revision =
            for_each_listed(&**self.watches.store(), &self.kind, |resource| match gone.remove(resource.key()) {
                None if !self.shows(resource.key()) => {}
                None => self.found(intake, resource),
                Some(seen) if seen.revision == resource.revision() => {}
                Some(_) => self.changed(intake, resource, EventType::Modified),
            })
            .await?;
        for (key, seen) in gone {
            self.seen.lock().remove(&key);
            self.note(intake, &key, revision, Fate::Gone);
            if let How::Asked(map) = &self.how {
                self.add(intake, &key, map.forget(&key), Trace::Gone);
            }
            self.add(intake, &key, seen.led_to, Trace::Gone);
        }
        Ok(revision)
    }

    /// Lets those keys through that were queued for resources which are gone, if deletions are let through.
    ///
    /// What comes after is told by the watch, in order: a key that is made anew is held back again.
    async fn let_gone_through(&self, intake: &Intake, let_through: bool) -> Result<(), FeederError> {
        if !let_through || !matches!(self.how, How::Itself) {
            return Ok(());
        }
        for key in intake.deletions.unknown(|key| self.seen.lock().contains_key(key)) {
            // It may have been made after what was seen last.
            match self.watches.store().get(&key).await {
                Ok(_) => {}
                Err(Error::NotFound { .. }) => intake.deletions.is_gone(&key),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes note of what becomes of a resource of the managed kind.
    fn note(&self, intake: &Intake, key: &Key, revision: Revision, fate: Fate) {
        if matches!(self.how, How::Itself) {
            intake.note(key, revision, fate);
        }
    }

    /// Takes note of a resource that was there before this watch. That is no event: it cuts no delay short.
    fn found(&self, intake: &Intake, resource: &Arc<Resource>) {
        self.note(intake, resource.key(), resource.revision(), fate(resource, false));
        let Ok(led_to) = self.leads_to(resource, false, Priority::LOW) else { return self.missed.note() };
        let known = self.known(intake, resource.key(), led_to.clone());
        let refused: Vec<Key> =
            known.filter(|key| intake.look_again(key.clone(), Priority::LOW) == Err(NotTaken::Full)).collect();
        if !refused.is_empty() && !self.missed.owe(resource.key(), refused) {
            // It stays unseen, and is found again.
            return;
        }
        let seen = self.seen_now(resource, led_to);
        self.seen.lock().insert(resource.key().clone(), seen);
    }

    fn changed(&self, intake: &Intake, resource: &Arc<Resource>, kind: EventType) {
        let deleted = kind == EventType::Deleted;
        if !deleted && self.is_of_status_alone(resource) {
            return;
        }
        self.note(intake, resource.key(), resource.revision(), fate(resource, deleted));
        let before = self.seen.lock().get(resource.key()).map(|seen| seen.led_to.clone()).unwrap_or_default();
        let led_to = match self.leads_to(resource, deleted, Priority::NORMAL) {
            Ok(led_to) => led_to,
            Err(owed) => return self.missed.owe_of_gone(intake, resource.key(), owed),
        };
        let left = before.into_iter().filter(|key| !led_to.contains(key));
        let keys: Vec<Key> = left.chain(led_to.iter().cloned()).collect();
        let fits = self.add(intake, resource.key(), keys, if deleted { Trace::Gone } else { Trace::Listed });
        if deleted {
            self.seen.lock().remove(resource.key());
        } else if fits {
            self.seen.lock().insert(resource.key().clone(), self.seen_now(resource, led_to));
        }
        // Else what was known stays as it was, so that listing again finds a change.
    }

    /// Returns whether everything but the status is as it was when it counted last. `false` where every change counts.
    fn is_of_status_alone(&self, resource: &Resource) -> bool {
        let fingerprint = self.fingerprint(resource);
        fingerprint.is_some()
            && self.seen.lock().get(resource.key()).is_some_and(|seen| seen.fingerprint == fingerprint)
    }

    fn seen_now(&self, resource: &Resource, led_to: Vec<Key>) -> Seen {
        Seen { revision: resource.revision(), fingerprint: self.fingerprint(resource), led_to }
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
    fn leads_to(&self, resource: &Arc<Resource>, deleted: bool, priority: Priority) -> Result<Vec<Key>, Vec<Key>> {
        match &self.how {
            How::Itself => Ok(vec![resource.key().clone()]),
            How::Mapped(mapping) => Ok(mapping::keys(mapping, &self.manages, resource)),
            How::Asked(map) => map.changed(resource, deleted, priority).map(|()| Vec::new()),
        }
    }

    /// Adds keys to which a change of `of` led, or remembers those for which there is no room. Returns whether that was done with all.
    fn add(&self, intake: &Intake, of: &Key, keys: Vec<Key>, trace: Trace) -> bool {
        let is_refused = |key: &Key| intake.add(key.clone(), Priority::NORMAL) == Err(NotTaken::Full);
        let refused: Vec<Key> = self.known(intake, of, keys).filter(is_refused).collect();
        match trace {
            _ if refused.is_empty() => true,
            Trace::Listed => self.missed.owe(of, refused),
            Trace::Gone => {
                self.missed.owe_of_gone(intake, of, refused);
                true
            }
        }
    }

    /// Returns whether the controller may be told that this resource has changed.
    fn shows(&self, changed: &Key) -> bool {
        self.grants.discloses(changed, self.how.reveals())
    }

    /// Returns those of the keys to which a change of `of` led whose version may learn of it.
    fn known(&self, intake: &Intake, of: &Key, keys: Vec<Key>) -> impl Iterator<Item = Key> {
        let reveals = self.how.reveals();
        keys.into_iter().filter(move |key| intake.may_learn(key, of, reveals))
    }
}

fn fate(resource: &Resource, deleted: bool) -> Fate {
    match (deleted, resource.is_deleting()) {
        (true, _) => Fate::Gone,
        (false, true) => Fate::Goes,
        (false, false) => Fate::Stays,
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
