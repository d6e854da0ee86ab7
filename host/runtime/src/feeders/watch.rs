//! Lists a kind, then follows its changes, and turns both into keys of the managed kind.
//!
//! What is remembered of each watched resource is the keys that it led to: with them, the owner that was left is told, and a resource
//! that vanished while nobody watched is noticed by listing again.

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
    /// For each resource seen, the keys it led to.
    led_to: Mutex<HashMap<Key, Vec<Key>>>,
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
        Self { name: format!("watch {name}"), store, kind, manages, how, led_to: Mutex::default() }
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
                    Ok(event) => self.changed(intake, &event.resource, event.kind, Priority::NORMAL),
                    // What was missed is found by listing again.
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Adds what every resource leads to, and what those lead to that were there before and are gone.
    async fn list(&self, intake: &Intake) -> Result<Revision, FeederError> {
        let mut gone: HashMap<Key, Vec<Key>> = self.led_to.lock().clone();
        let revision = for_each_listed(&*self.store, &self.kind, |resource| {
            gone.remove(resource.key());
            self.changed(intake, resource, EventType::Added, Priority::LOW);
        })
        .await?;
        for (key, led_to) in gone {
            self.led_to.lock().remove(&key);
            if let How::Asked(map) = &self.how {
                map.forget(&key);
            }
            self.add(intake, led_to, Priority::NORMAL);
        }
        Ok(revision)
    }

    fn changed(&self, intake: &Intake, resource: &Arc<Resource>, kind: EventType, priority: Priority) {
        let deleted = kind == EventType::Deleted;
        let leads_to = match &self.how {
            How::Itself => vec![Key::new(self.manages.clone(), resource.key().namespace(), resource.key().name())],
            How::Mapped(mapping) => mapping::keys(mapping, &self.manages, resource),
            How::Asked(map) => return map.changed(resource, deleted, priority),
        };
        let mut led_to = self.led_to.lock();
        let before = if deleted {
            led_to.remove(resource.key())
        } else {
            led_to.insert(resource.key().clone(), leads_to.clone())
        };
        drop(led_to);
        let before = before.unwrap_or_default().into_iter().filter(|key| !leads_to.contains(key)).collect();
        self.add(intake, leads_to, priority);
        self.add(intake, before, priority);
    }

    fn add(&self, intake: &Intake, keys: Vec<Key>, priority: Priority) {
        for key in keys {
            intake.add(key, priority);
        }
    }
}

#[cfg(test)]
mod tests;
