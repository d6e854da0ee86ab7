//! How a running controller tries a candidate: some keys take it, then more, then all, or none again.
//!
//! As with a swap the queue is the same all the time: failures, due times and holds stay whatever becomes of the candidate. A claim takes
//! one side, and nobody else has the key meanwhile.

use std::sync::Arc;

use homeostat_store::{Key, LabelRequirement, Query, Selector};

use crate::change::{Fresh, Look, Swapped};
use crate::controller::Controller;
use crate::rollout::{Canary, Chosen, Gate, Part, Share, Side, hash};
use crate::trial::Trial;
use crate::{Definition, Error};

/// Keys asked for at once.
const PAGE_ITEMS: usize = 500;

impl Controller {
    /// Prepares a definition to be tried: everything that can refuse it is done, its start hook too, and its watches begin. It has no key.
    ///
    /// `part` decides which keys it gets when it has a share. One that is a shadow first has its start hook to come
    /// ([`Controller::end_shadow_of_trial`]): nothing of a shadow is done.
    ///
    /// # Errors
    /// As those of a swap. What runs goes on.
    pub(crate) async fn try_out(
        self: &Arc<Self>,
        definition: Definition,
        gate: Gate,
        part: Part,
        is_shadow: bool,
    ) -> Result<Arc<Trial>, Error> {
        let changing = self.changing.lock().await;
        if self.is_stopping() {
            return Err(Error::UnknownController(self.name.to_string()));
        }
        let before = self.slot.current();
        let loaded = match is_shadow {
            true => self.load(&before, definition, false).await?,
            false => self.prepare(&before, definition, false).await?,
        };
        let trial = Arc::new(Trial::begin(loaded, part, gate, is_shadow, before.past()));
        self.slot.try_out(Some(trial.clone()));
        self.apply_suspension();
        self.feeding.follow_slot();
        drop(changing);
        Ok(trial)
    }

    /// Gives the candidate this share of the keys, beside those that were chosen where it says which, and looks again at those that it gets.
    /// Without a candidate nothing happens.
    pub(crate) async fn widen(&self, share: Share, chosen: Option<Chosen>, gate: Gate) {
        let changing = self.changing.lock().await;
        let Some(before) = self.slot.trial() else { return };
        let was = before.part.clone();
        let now = Part { share: Some(share), chosen: chosen.unwrap_or_else(|| was.chosen.clone()), salt: was.salt };
        self.slot.try_out(Some(Arc::new(before.next(now.clone(), gate))));
        // Of those that it had, too: both sides are to be looked at alike.
        let look = Look::at(move |key| match (was.side(key), now.side(key)) {
            (Side::Old, Side::New) => Some(Fresh::Yes),
            (Side::New, Side::New) => Some(Fresh::No),
            _ => now.is_control(key).then_some(Fresh::No),
        });
        self.look_again(look).await;
        drop(changing);
    }

    /// Tries the candidate as a shadow for all keys, and looks at those again. Without a candidate nothing happens.
    ///
    /// # Errors
    /// As those of a swap.
    pub(crate) async fn shadow_trial(self: &Arc<Self>) -> Result<(), Error> {
        let Some(trial) = self.slot.trial() else { return Ok(()) };
        self.begin_shadow(trial.loaded.definition.clone()).await?;
        self.look_at_trial().await;
        Ok(())
    }

    /// Ends the shadow of a candidate that is to have keys: its start hook runs, and its feeders begin.
    ///
    /// # Errors
    /// [`Error::StartHook`].
    pub(crate) async fn end_shadow_of_trial(&self) -> Result<(), Error> {
        self.end_shadow();
        let Some(trial) = self.slot.trial() else { return Ok(()) };
        if trial.loaded.generation != self.slot.current().generation {
            self.run_start_hook(&trial.loaded).await.map_err(Error::StartHook)?;
        }
        let changing = self.changing.lock().await;
        // A swap may have come in between.
        if self.slot.trial().is_some_and(|now| Arc::ptr_eq(&now, &trial)) {
            self.slot.try_out(Some(Arc::new(trial.after_shadow())));
            self.feeding.follow_slot();
        }
        drop(changing);
        Ok(())
    }

    /// Looks once more at the keys of the candidate, and at as many others; while it is a shadow, at all.
    pub(crate) async fn look_at_trial(&self) {
        if self.shadow.load().is_some() {
            self.look_again(Look::at(|_| Some(Fresh::No))).await;
            return;
        }
        let Some(trial) = self.slot.trial() else { return };
        let part = trial.part.clone();
        let is_meant = move |key: &Key| part.side(key) == Side::New || part.is_control(key);
        self.look_again(Look::at(move |key| is_meant(key).then_some(Fresh::No))).await;
    }

    /// Gives the candidate all keys: it is what runs. Looks again at those that it did not have. Returns `None` when there is none, or when
    /// it has failed meanwhile.
    pub(crate) async fn promote(self: &Arc<Self>) -> Option<Swapped> {
        let changing = self.changing.lock().await;
        let trial = self.slot.trial().filter(|trial| trial.failed().is_none())?;
        let before = self.slot.current();
        self.put(trial.loaded.clone());
        let part = trial.part.clone();
        let keys = self.look_again(Look::at(move |key| (part.side(key) == Side::Old).then_some(Fresh::Yes))).await;
        let (from, to) = (before.component().digest().to_string(), trial.loaded.component().digest().to_string());
        let swapped = Swapped { generation: trial.loaded.generation, from, to, keys };
        if swapped.generation != before.generation {
            self.tell(&swapped);
        }
        drop(changing);
        Some(swapped)
    }

    /// Takes all keys from the candidate, and looks again at those that it had. Returns `false` when there is none: something else was put in.
    pub(crate) async fn go_back(&self) -> bool {
        let changing = self.changing.lock().await;
        let Some(trial) = self.slot.trial() else { return false };
        trial.end();
        self.end_shadow();
        self.slot.try_out(None);
        self.apply_suspension();
        self.feeding.follow_slot();
        let part = trial.part.clone();
        self.look_again(Look::at(move |key| (part.side(key) == Side::New).then_some(Fresh::Yes))).await;
        drop(changing);
        true
    }

    /// Returns the keys whose resources have the labels now, within their bound. Where nothing is stored, there are none.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn chosen(&self, canary: &Canary, salt: u64) -> homeostat_store::Result<Chosen> {
        let manages = self.slot.current().component().describe().manages.clone();
        let mut chosen = Chosen::default();
        if manages.keys_only || canary.labels.is_empty() {
            return Ok(chosen);
        }
        let labels = canary.labels.iter().map(|(name, value)| LabelRequirement::Equals(name.clone(), value.clone()));
        let selector = Selector { labels: labels.collect(), ..Selector::default() };
        let mut query = Query { selector, limit: Some(PAGE_ITEMS), ..Query::all(manages.kind) };
        loop {
            let page = self.context.store.list(&query).await?;
            chosen = chosen.and(page.items.iter().map(|resource| hash(resource.key(), salt)));
            match page.next {
                Some(next) => query.from = Some(next),
                None => return Ok(chosen),
            }
        }
    }
}
