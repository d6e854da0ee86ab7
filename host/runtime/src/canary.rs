//! How a running controller tries a candidate: some keys take it, then more, then all, or none again.
//!
//! As with a swap the queue is the same all the time: failures, due times and holds stay whatever becomes of the candidate. A claim takes
//! one side, and nobody else has the key meanwhile.

use std::sync::Arc;

use homeostat_store::{Key, LabelRequirement, Query, Selector};

use crate::change::{KeyFilter, ResetParked, SwapReport};
use crate::controller::Controller;
use crate::rollout::{CanaryPlan, Gate, KeySplit, PinnedKeys, Share, Track, key_hash};
use crate::trial::CanaryStep;
use crate::{Definition, Error};

/// Keys asked for at once.
const PAGE_ITEMS: usize = 500;

impl Controller {
    /// Prepares a definition to be tried: everything that can refuse it is done, its start hook too, and its watches begin. It has no key.
    ///
    /// `part` decides which keys it gets when it has a share. One that is a shadow first has its start hook to come
    /// ([`Controller::end_canary_shadow`]): nothing of a shadow is done.
    ///
    /// # Errors
    /// As those of a swap. What runs goes on.
    pub(crate) async fn start_canary(
        self: &Arc<Self>,
        definition: Definition,
        gate: Gate,
        part: KeySplit,
        is_shadow: bool,
    ) -> Result<Arc<CanaryStep>, Error> {
        let changing = self.changing.lock().await;
        if self.is_stopping() {
            return Err(Error::UnknownController(self.name.to_string()));
        }
        let before = self.slot.current();
        let loaded = match is_shadow {
            true => self.load(&before, definition, false).await?,
            false => self.prepare(&before, definition, false).await?,
        };
        let trial = Arc::new(CanaryStep::begin(loaded, part, gate, is_shadow, before.past()));
        self.slot.set_canary(Some(trial.clone()));
        self.apply_suspension();
        self.feeders.sync_feeders();
        drop(changing);
        Ok(trial)
    }

    /// Gives the candidate this share of the keys, beside those that were chosen where it says which, and looks again at those that it gets.
    /// Without a candidate nothing happens.
    pub(crate) async fn set_canary_share(&self, share: Share, chosen: Option<PinnedKeys>, gate: Gate) {
        let changing = self.changing.lock().await;
        let Some(before) = self.slot.canary() else { return };
        let was = before.split.clone();
        let now = KeySplit { share: Some(share), pinned: chosen.unwrap_or_else(|| was.pinned.clone()), salt: was.salt };
        self.slot.set_canary(Some(Arc::new(before.next(now.clone(), gate))));
        // Of those that it had, too: both sides are to be looked at alike.
        let look = KeyFilter::at(move |key| match (was.track_of(key), now.track_of(key)) {
            (Track::Stable, Track::Canary) => Some(ResetParked::Yes),
            (Track::Canary, Track::Canary) => Some(ResetParked::No),
            _ => now.is_in_control_group(key).then_some(ResetParked::No),
        });
        self.resync(look).await;
        drop(changing);
    }

    /// Tries the candidate as a shadow for all keys, and looks at those again. Without a candidate nothing happens.
    ///
    /// # Errors
    /// As those of a swap.
    pub(crate) async fn start_canary_shadow(self: &Arc<Self>) -> Result<(), Error> {
        let Some(trial) = self.slot.canary() else { return Ok(()) };
        self.begin_shadow(trial.loaded.definition.clone()).await?;
        self.resync_canary().await;
        Ok(())
    }

    /// Ends the shadow of a candidate that is to have keys: its start hook runs, and its feeders begin.
    ///
    /// # Errors
    /// [`Error::StartHook`].
    pub(crate) async fn end_canary_shadow(&self) -> Result<(), Error> {
        self.end_shadow();
        let Some(trial) = self.slot.canary() else { return Ok(()) };
        if trial.loaded.generation != self.slot.current().generation {
            self.run_start_hook(&trial.loaded).await.map_err(Error::StartHook)?;
        }
        let changing = self.changing.lock().await;
        // A swap may have come in between.
        if self.slot.canary().is_some_and(|now| Arc::ptr_eq(&now, &trial)) {
            self.slot.set_canary(Some(Arc::new(trial.after_shadow())));
            self.feeders.sync_feeders();
        }
        drop(changing);
        Ok(())
    }

    /// Looks once more at the keys of the candidate, and at as many others; while it is a shadow, at all.
    pub(crate) async fn resync_canary(&self) {
        if self.shadow.load().is_some() {
            self.resync(KeyFilter::at(|_| Some(ResetParked::No))).await;
            return;
        }
        let Some(trial) = self.slot.canary() else { return };
        let part = trial.split.clone();
        let is_meant = move |key: &Key| part.track_of(key) == Track::Canary || part.is_in_control_group(key);
        self.resync(KeyFilter::at(move |key| is_meant(key).then_some(ResetParked::No))).await;
    }

    /// Gives the candidate all keys: it is what runs. Looks again at those that it did not have. Returns `None` when there is none, or when
    /// it has failed meanwhile.
    pub(crate) async fn promote(self: &Arc<Self>) -> Option<SwapReport> {
        let changing = self.changing.lock().await;
        let trial = self.slot.canary().filter(|trial| trial.failure().is_none())?;
        let before = self.slot.current();
        self.install(trial.loaded.clone());
        let part = trial.split.clone();
        let keys = self
            .resync(KeyFilter::at(move |key| (part.track_of(key) == Track::Stable).then_some(ResetParked::Yes)))
            .await;
        let (from, to) = (before.component().digest().to_string(), trial.loaded.component().digest().to_string());
        let swapped = SwapReport { generation: trial.loaded.generation, from, to, keys };
        if swapped.generation != before.generation {
            self.report_swap(&swapped);
        }
        drop(changing);
        Some(swapped)
    }

    /// Takes all keys from the candidate, and looks again at those that it had. Returns `false` when there is none: something else was put in.
    pub(crate) async fn roll_back(&self) -> bool {
        let changing = self.changing.lock().await;
        let Some(trial) = self.slot.canary() else { return false };
        trial.finish();
        self.end_shadow();
        self.slot.set_canary(None);
        self.apply_suspension();
        self.feeders.sync_feeders();
        let part = trial.split.clone();
        self.resync(KeyFilter::at(move |key| (part.track_of(key) == Track::Canary).then_some(ResetParked::Yes))).await;
        drop(changing);
        true
    }

    /// Returns the keys whose resources have the labels now, within their bound. Where nothing is stored, there are none.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn pinned_keys(&self, canary: &CanaryPlan, salt: u64) -> homeostat_store::Result<PinnedKeys> {
        let manages = self.slot.current().component().describe().manages.clone();
        let mut chosen = PinnedKeys::default();
        if manages.keys_only || canary.labels.is_empty() {
            return Ok(chosen);
        }
        let labels = canary.labels.iter().map(|(name, value)| LabelRequirement::Equals(name.clone(), value.clone()));
        let selector = Selector { labels: labels.collect(), ..Selector::default() };
        let mut query = Query { selector, limit: Some(PAGE_ITEMS), ..Query::all(manages.kind) };
        loop {
            let page = self.context.store.list(&query).await?;
            chosen = chosen.and(page.items.iter().map(|resource| key_hash(resource.key(), salt)));
            match page.next {
                Some(next) => query.from = Some(next),
                None => return Ok(chosen),
            }
        }
    }
}
