//! The way of the keys of a declared feeder to the intake: which keys, when due, in which band.

use std::sync::Arc;

use homeostat_component::Severity;
use homeostat_store::{Error, Key, Query, Resource, ResourcePages, Store};

use super::webhook::WebhookError;
use super::{Capacity, FeederError, Intake, IntakeError};
use crate::feeder_definition::{FeederDefinition, FeederKeys, ListedKey};

/// Adds the keys of one declared feeder.
pub(crate) struct KeyAdder {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) definition: FeederDefinition,
}

impl KeyAdder {
    /// Adds the keys that the manifest names. While the queue is full, waits and goes on with the rest.
    ///
    /// *Cancel safety*: keys that were added stay; a later call adds all keys again.
    ///
    /// # Errors
    /// Those of the store, for all keys of a kind.
    pub(crate) async fn add_all(&self, intake: &Intake) -> Result<(), FeederError> {
        match &self.definition.keys {
            FeederKeys::Listed(keys) => {
                for ListedKey { namespace, name } in keys {
                    // A dropped key is reported, and a closed queue takes none.
                    let _ = self.add(intake, &Key::new(intake.manages().clone(), namespace, name)).await;
                }
                Ok(())
            }
            FeederKeys::All => self.add_stored(intake).await,
            // Its feeder adds each key by itself.
            FeederKeys::OfMessage(_) => Ok(()),
        }
    }

    /// Adds one key. While the queue is full, waits.
    ///
    /// *Cancel safety*: the key is added or not.
    ///
    /// # Errors
    /// Those of [`Intake::add`], without [`IntakeError::Full`].
    pub(crate) async fn add(&self, intake: &Intake, key: &Key) -> Result<(), IntakeError> {
        loop {
            match self.try_add(intake, key) {
                Err(IntakeError::Full) => {
                    intake.report_full();
                    intake.wait_for_room().await;
                }
                added => return added,
            }
        }
    }

    /// Adds one key, unless the queue is full. A key that no managed resource can have, or that no grant
    /// covers, is dropped with an event.
    ///
    /// # Errors
    /// Those of [`Intake::add`].
    pub(crate) fn try_add(&self, intake: &Intake, key: &Key) -> Result<(), IntakeError> {
        let priority = self.definition.priority;
        let added = match self.definition.delay {
            None => intake.add(key.clone(), priority),
            Some(delay) => intake.add_delayed(key.clone(), delay, priority),
        };
        if added == Err(IntakeError::OtherKind)
            && let Some(refusal) = intake.refusal(key)
        {
            let message = format!("the feeder {:?} has {refusal}: it is dropped", self.definition.name);
            intake.emit_event(Severity::Warning, "KeyRefused", &message);
        }
        added
    }

    /// Adds the keys of a message, all of which this host has. Waits for nothing.
    ///
    /// # Errors
    /// [`WebhookError`]. The keys before the refused one stay.
    pub(crate) fn add_message(&self, intake: &Intake, keys: &[Key]) -> Result<(), WebhookError> {
        let has_all = || if keys.iter().all(|key| intake.has(key)) { Ok(()) } else { Err(WebhookError::NotHolder) };
        has_all()?;
        let full = || {
            intake.report_full();
            WebhookError::Full
        };
        let Capacity { room, used } = intake.place();
        // A repeated request starts over with its first key, so it begins only if all of its keys find room. A request
        // of more keys than the queue can hold fits only while others are reconciled.
        let count = keys.len() as u64;
        if count > room && count <= room.saturating_add(used) {
            intake.note_full();
            return Err(full());
        }
        for key in keys {
            self.try_add(intake, key).map_err(|refused| match refused {
                IntakeError::OtherKind => WebhookError::BadRequest("no managed resource can have the key".to_owned()),
                IntakeError::Closed => WebhookError::NotHolder,
                IntakeError::Full => full(),
            })?;
        }
        // A host that lost the lease meanwhile has dropped the keys.
        has_all()
    }

    /// Adds the key of every stored resource. Remembers the keys of one page.
    async fn add_stored(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut last = None;
        loop {
            let before = last.clone();
            match self.add_pages(intake, &mut last).await {
                // The store has forgotten the moment of the list while keys waited for room: the rest is listed anew.
                Err(Error::Expired { .. }) if last != before => {}
                ended => return Ok(ended?),
            }
        }
    }

    /// Adds the keys behind `last`, which becomes the last one that was added. Lists are in the order of namespace and
    /// name.
    async fn add_pages(&self, intake: &Intake, last: &mut Option<(String, String)>) -> homeostat_store::Result<()> {
        let kind = intake.manages().clone();
        let view = self.store.watched_view(&kind);
        let mut pages = ResourcePages::new(&*self.store, Query { view, ..Query::all(kind.clone()) });
        while let Some(page) = pages.next_page().await? {
            let names =
                |resource: &Arc<Resource>| (resource.key().namespace().to_owned(), resource.key().name().to_owned());
            let names: Vec<(String, String)> = page.iter().map(names).collect();
            drop(page);
            for name in names {
                if last.as_ref().is_some_and(|last| name <= *last) {
                    continue;
                }
                // A dropped key is reported, and a closed queue takes none.
                let _ = self.add(intake, &Key::new(kind.clone(), &name.0, &name.1)).await;
                *last = Some(name);
            }
        }
        Ok(())
    }
}
