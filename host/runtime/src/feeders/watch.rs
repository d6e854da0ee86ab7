//! Lists a kind, then follows its changes, and turns both into keys of the managed kind.
//!
//! What is remembered of each watched resource is its revision and the keys that it led to: with them, the owner that was left is told,
//! and what changed or vanished while nobody watched is noticed by listing again.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::Mapping;
use homeostat_store::{Error, EventType, Key, Kind, Resource, Revision, Scope, Store};
use homeostat_workqueue::Priority;
use parking_lot::Mutex;

use super::guest_map::GuestMap;
use super::{Feeder, FeederError, Intake};
use crate::context::for_each_listed;
use crate::mapping;

pub(crate) struct WatchFeeder {
    name: String,
    store: Arc<dyn Store>,
    kind: Kind,
    manages: Kind,
    how: How,
    seen: Mutex<HashMap<Key, Seen>>,
}

/// What is remembered of one watched resource.
#[derive(Clone)]
struct Seen {
    revision: Revision,
    /// The keys that this revision led to; of no use where the guest is asked.
    led_to: Vec<Key>,
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
    pub(crate) fn new(name: &str, store: Arc<dyn Store>, kind: Kind, manages: Kind, how: How) -> Self {
        Self { name: format!("watch {name}"), store, kind, manages, how, seen: Mutex::default() }
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
                How::Asked(map) => map.run(intake).await,
                How::Itself | How::Mapped(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = self.list_and_watch(intake) => ended,
            () = asking => Ok(()),
        }
    }
}

impl WatchFeeder {
    async fn list_and_watch(&self, intake: &Intake) -> Result<(), FeederError> {
        loop {
            let revision = self.list(intake).await?;
            intake.listed();
            let mut watch = self.store.watch(Scope::Kind(self.kind.clone()), revision).await?;
            loop {
                match watch.next().await {
                    Ok(event) => self.changed(intake, &event.resource, event.kind),
                    // What was missed is found by listing again.
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Tells of every resource that is new or has changed since it was seen last, and of those that were there and are gone.
    async fn list(&self, intake: &Intake) -> Result<Revision, FeederError> {
        let mut gone: HashMap<Key, Seen> = self.seen.lock().clone();
        let revision = for_each_listed(&*self.store, &self.kind, |resource| match gone.remove(resource.key()) {
            None => self.found(intake, resource),
            Some(seen) if seen.revision == resource.revision() => {}
            Some(_) => self.changed(intake, resource, EventType::Modified),
        })
        .await?;
        for (key, seen) in gone {
            self.seen.lock().remove(&key);
            if let How::Asked(map) = &self.how {
                map.forget(&key);
            }
            self.add(intake, seen.led_to);
        }
        Ok(revision)
    }

    /// Takes note of a resource that was there before this watch. That is no event: it cuts no delay short.
    fn found(&self, intake: &Intake, resource: &Arc<Resource>) {
        let led_to = self.leads_to(resource, false, Priority::LOW);
        let seen = Seen { revision: resource.revision(), led_to: led_to.clone() };
        self.seen.lock().insert(resource.key().clone(), seen);
        for key in led_to {
            intake.look_again(key, Priority::LOW);
        }
    }

    fn changed(&self, intake: &Intake, resource: &Arc<Resource>, kind: EventType) {
        let deleted = kind == EventType::Deleted;
        let led_to = self.leads_to(resource, deleted, Priority::NORMAL);
        let mut seen = self.seen.lock();
        let before = if deleted {
            seen.remove(resource.key())
        } else {
            let now = Seen { revision: resource.revision(), led_to: led_to.clone() };
            seen.insert(resource.key().clone(), now)
        };
        drop(seen);
        let before = before.map(|seen| seen.led_to).unwrap_or_default();
        self.add(intake, before.into_iter().filter(|key| !led_to.contains(key)).collect());
        self.add(intake, led_to);
    }

    /// Returns the keys that a resource leads to; none where the guest is asked, which takes its time.
    fn leads_to(&self, resource: &Arc<Resource>, deleted: bool, priority: Priority) -> Vec<Key> {
        match &self.how {
            How::Itself => vec![resource.key().clone()],
            How::Mapped(mapping) => mapping::keys(mapping, &self.manages, resource),
            How::Asked(map) => {
                map.changed(resource, deleted, priority);
                Vec::new()
            }
        }
    }

    fn add(&self, intake: &Intake, keys: Vec<Key>) {
        for key in keys {
            intake.add(key, Priority::NORMAL);
        }
    }
}

#[cfg(test)]
mod tests;
