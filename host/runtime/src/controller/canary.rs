//! How a running controller tries a canary: on some keys, then on more, then on all, or on none again.
//!
//! As with a swap, the queue stays the same: failures, due times and suspensions survive promotion and
//! rollback. A claim picks one version, and no other worker has the key meanwhile.

use std::sync::Arc;

use homeostat_store::{Key, Kind, LabelRequirement, Query, Resource, Selector};

use super::Controller;
use super::change::{KeyFilter, ResetParked, SwapReport};
use crate::rollout::{
    CanaryPlan, CanaryStep, DEALT_MAX, Deal, Gate, KeySplit, PinnedKeys, Share, Track, even_salt, key_hash,
};
use crate::slot::LoadedVersion;
use crate::{Definition, Error};

/// Page size when listing the resources that labels select.
const PAGE_ITEMS: usize = 500;

impl Controller {
    /// Prepares a canary without keys: makes every check that can refuse it, runs its start hook, and starts
    /// its watches.
    ///
    /// `part` decides its keys once it has a share. A canary that is a shadow first runs its start hook
    /// later, in [`Controller::end_canary_shadow`], because no effect of a shadow is applied.
    ///
    /// # Errors
    /// As for a swap. The stable version keeps running.
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

    /// Sets the canary's share of the keys, in addition to its pinned keys, and requeues the keys that it
    /// gains. `deal` replaces the split of the keys before the canary has its first key. Does nothing without
    /// a canary.
    pub(crate) async fn set_canary_share(&self, share: Share, deal: Option<Deal>, gate: Gate) {
        let changing = self.changing.lock().await;
        let Some(before) = self.slot.canary() else { return };
        let was = before.split.clone();
        let Deal { salt, pinned } = deal.unwrap_or_else(|| Deal { salt: was.salt, pinned: was.pinned.clone() });
        let now = KeySplit { share: Some(share), pinned, salt };
        self.slot.set_canary(Some(Arc::new(before.next(now.clone(), gate))));
        // Also requeues the keys that the canary already had, so that both versions get the same share of
        // resyncs.
        let look = KeyFilter::at(move |key| match (was.track_of(key), now.track_of(key)) {
            (Track::Stable, Track::Canary) => Some(ResetParked::Yes),
            (Track::Canary, Track::Canary) => Some(ResetParked::No),
            _ => now.is_in_control_group(key).then_some(ResetParked::No),
        });
        self.resync(look).await;
        drop(changing);
    }

    /// Runs the canary as a shadow for all keys, and requeues them. Does nothing without a canary.
    ///
    /// # Errors
    /// As for a swap.
    pub(crate) async fn start_canary_shadow(self: &Arc<Self>) -> Result<(), Error> {
        let Some(trial) = self.slot.canary() else { return Ok(()) };
        self.begin_shadow(trial.loaded.definition.clone()).await?;
        self.resync_canary().await;
        Ok(())
    }

    /// Ends the canary's shadow before it gets keys: runs its start hook and starts its feeders.
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
        // A swap may have replaced the canary meanwhile.
        if self.slot.canary().is_some_and(|now| Arc::ptr_eq(&now, &trial)) {
            self.slot.set_canary(Some(Arc::new(trial.after_shadow())));
            self.feeders.sync_feeders();
        }
        drop(changing);
        Ok(())
    }

    /// Requeues the canary's keys and as many keys of the control group; all keys while the canary is a
    /// shadow.
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

    /// Promotes the canary to stable and requeues the keys that it did not have. Returns `None` if there is
    /// no canary or it has failed meanwhile.
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

    /// Rolls back: takes all keys from the canary and requeues those that it had. Returns `false` if a swap
    /// has already removed it.
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

    /// Deals the keys of the stored resources evenly to the canary and the stable version. Keys whose
    /// resources have the labels now are pinned to the canary, within the bound. Kinds without stored
    /// resources have no known keys.
    ///
    /// Reads resources until [`DEALT_MAX`] keys are known, and with labels all that match.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn deal(&self, canary: &CanaryPlan, revision: u64) -> homeostat_store::Result<Deal> {
        let manages = self.slot.current().component().describe().manages.clone();
        if manages.keys_only {
            return Ok(Deal { salt: even_salt(revision, &canary.steps, &[]), pinned: PinnedKeys::default() });
        }
        let labels = canary.labels.iter().map(|(name, value)| LabelRequirement::Equals(name.clone(), value.clone()));
        let chosen = Some(Selector { labels: labels.collect(), ..Selector::default() });
        let chosen = chosen.filter(|selector| !selector.labels.is_empty());
        let salt = even_salt(revision, &canary.steps, &self.keys_to_deal(&manages.kind, chosen.as_ref()).await?);
        let pinned = match chosen {
            Some(selector) => self.pinned_keys(manages.kind, selector, salt).await?,
            None => PinnedKeys::default(),
        };
        Ok(Deal { salt, pinned })
    }

    /// Returns the first [`DEALT_MAX`] keys that both versions may receive and labels do not pin.
    async fn keys_to_deal(&self, kind: &Kind, chosen: Option<&Selector>) -> homeostat_store::Result<Vec<Key>> {
        let (current, trial) = (self.slot.current(), self.slot.canary());
        let is_dealt = |resource: &Resource| {
            let key = resource.key();
            let may_get = |loaded: &LoadedVersion| loaded.definition.may_get(key);
            may_get(&current)
                && trial.as_ref().is_none_or(|trial| may_get(&trial.loaded))
                && !chosen.is_some_and(|selector| selector.matches(resource))
        };
        let (mut keys, mut query) = (Vec::new(), Query { limit: Some(PAGE_ITEMS), ..Query::all(kind.clone()) });
        loop {
            let page = self.context.store.list(&query).await?;
            let room = DEALT_MAX - keys.len();
            keys.extend(
                page.items.iter().filter(|resource| is_dealt(resource)).take(room).map(|item| item.key().clone()),
            );
            match page.next.filter(|_| keys.len() < DEALT_MAX) {
                Some(next) => query.from = Some(next),
                None => return Ok(keys),
            }
        }
    }

    /// Returns the keys whose resources match the selector now, within the bound.
    async fn pinned_keys(&self, kind: Kind, selector: Selector, salt: u64) -> homeostat_store::Result<PinnedKeys> {
        let mut chosen = PinnedKeys::default();
        let mut query = Query { selector, limit: Some(PAGE_ITEMS), ..Query::all(kind) };
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
