//! The canary of a running controller: it gets some keys, then more, then all, or none again.
//!
//! As with a swap, the queue stays the same: failures, due times and suspensions survive promotion and
//! rollback. A claim picks one version, and no other worker has the key meanwhile.

use std::sync::Arc;

use homeostat_store::{Key, Kind, LabelRequirement, Query, Resource, ResourcePages, Selector};

use super::deal::{DEALT_MAX, even_salt};
use super::shadow::ShadowSlot;
use super::{CanaryPlan, CanaryStep, Deal, Gate, KeySplit, PinnedKeys, Share, Track, key_hash};
use crate::controller::{Controller, KeyFilter, ResetParked, SwapReport};
use crate::slot::LoadedVersion;
use crate::{Definition, Error};

/// A canary, by the controller that runs it. Its step lies in the controller's slot.
pub(super) struct Canary {
    pub(super) controller: Arc<Controller>,
}

impl Canary {
    /// Prepares a canary without keys: makes every check that can refuse it, runs its start hook, and starts
    /// its watches.
    ///
    /// `split` decides its keys once it has a share. A canary that is a shadow first runs its start hook
    /// later, in [`Canary::end_shadow`], because no effect of a shadow is applied.
    ///
    /// # Errors
    /// As for a swap. The stable version keeps running.
    pub(super) async fn start(
        controller: Arc<Controller>,
        definition: Definition,
        gate: Gate,
        split: KeySplit,
        is_shadow: bool,
    ) -> Result<(Self, Arc<CanaryStep>), Error> {
        let changing = controller.lifecycle.changing.lock().await;
        if controller.is_stopping() {
            return Err(Error::UnknownController(controller.name.to_string()));
        }
        let before = controller.slot.current();
        let loaded = match is_shadow {
            true => controller.load(&before, definition, false).await?,
            false => controller.prepare(&before, definition, false).await?,
        };
        let step = Arc::new(CanaryStep::begin(loaded, split, gate, is_shadow, before.past()));
        controller.slot.set_canary(Some(step.clone()));
        controller.suspension.apply();
        controller.feeders.sync_feeders();
        drop(changing);
        Ok((Self { controller }, step))
    }

    /// Returns whether this controller runs it.
    pub(super) fn runs_in(&self, running: Option<Arc<Controller>>) -> bool {
        running.is_some_and(|running| Arc::ptr_eq(&running, &self.controller))
    }

    /// Returns its current step; `None` once a swap or a rollback has removed it.
    pub(super) fn step(&self) -> Option<Arc<CanaryStep>> {
        self.controller.slot.canary()
    }

    /// Sets the canary's share of the keys, in addition to its pinned keys, and requeues the keys that it
    /// gains. `deal` replaces the split of the keys before the canary has its first key. Does nothing without
    /// a canary.
    pub(super) async fn set_share(&self, share: Share, deal: Option<Deal>, gate: Gate) {
        let changing = self.controller.lifecycle.changing.lock().await;
        let Some(before) = self.step() else { return };
        let was = before.split.clone();
        let Deal { salt, pinned } = deal.unwrap_or_else(|| Deal { salt: was.salt, pinned: was.pinned.clone() });
        let now = KeySplit { share: Some(share), pinned, salt };
        self.controller.slot.set_canary(Some(Arc::new(before.next(now.clone(), gate))));
        // Also requeues the keys that the canary already had, so that both versions get the same share of
        // resyncs.
        let look = KeyFilter::at(move |key| match (was.track_of(key), now.track_of(key)) {
            (Track::Stable, Track::Canary) => Some(ResetParked::Yes),
            (Track::Canary, Track::Canary) => Some(ResetParked::No),
            _ => now.is_in_control_group(key).then_some(ResetParked::No),
        });
        self.controller.resync(look).await;
        drop(changing);
    }

    /// Runs the canary as a shadow for all keys, and requeues them. Does nothing without a canary.
    ///
    /// # Errors
    /// As for a swap.
    pub(super) async fn start_shadow(&self) -> Result<(), Error> {
        let Some(trial) = self.step() else { return Ok(()) };
        ShadowSlot::begin(&self.controller, trial.loaded.definition.clone()).await?;
        self.resync().await;
        Ok(())
    }

    /// Ends the canary's shadow before it gets keys: runs its start hook and starts its feeders.
    ///
    /// # Errors
    /// [`Error::StartHook`].
    pub(super) async fn end_shadow(&self) -> Result<(), Error> {
        self.controller.shadow.end();
        let Some(trial) = self.step() else { return Ok(()) };
        if trial.loaded.generation != self.controller.slot.current().generation {
            self.controller.run_hook_or_owe(&trial.loaded).await?;
        }
        let changing = self.controller.lifecycle.changing.lock().await;
        // A swap may have replaced the canary meanwhile.
        if self.step().is_some_and(|now| Arc::ptr_eq(&now, &trial)) {
            self.controller.slot.set_canary(Some(Arc::new(trial.after_shadow())));
            self.controller.feeders.sync_feeders();
        }
        drop(changing);
        Ok(())
    }

    /// Requeues the canary's keys and as many keys of the control group; all keys while the canary is a
    /// shadow.
    pub(super) async fn resync(&self) {
        if self.controller.shadow.is_on() {
            self.controller.resync(KeyFilter::at(|_| Some(ResetParked::No))).await;
            return;
        }
        let Some(trial) = self.step() else { return };
        let part = trial.split.clone();
        let is_meant = move |key: &Key| part.track_of(key) == Track::Canary || part.is_in_control_group(key);
        self.controller.resync(KeyFilter::at(move |key| is_meant(key).then_some(ResetParked::No))).await;
    }

    /// Promotes the canary to stable and requeues the keys that it did not have. Returns `None` if there is
    /// no canary or it has failed meanwhile. With `is_decided` a failure no longer counts: all hosts promote it.
    pub(super) async fn promote(&self, is_decided: bool) -> Option<SwapReport> {
        let changing = self.controller.lifecycle.changing.lock().await;
        let trial = self.step().filter(|trial| is_decided || trial.failure().is_none())?;
        let before = self.controller.slot.current();
        self.controller.install(trial.loaded.clone());
        let part = trial.split.clone();
        let keys = self
            .controller
            .resync(KeyFilter::at(move |key| (part.track_of(key) == Track::Stable).then_some(ResetParked::Yes)))
            .await;
        let (from, to) = (before.component().digest().to_string(), trial.loaded.component().digest().to_string());
        let swapped = SwapReport { generation: trial.loaded.generation, from, to, keys };
        if swapped.generation != before.generation {
            self.controller.report_swap(&swapped);
        }
        drop(changing);
        Some(swapped)
    }

    /// Rolls back: takes all keys from the canary and requeues those that it had. Returns `false` if a swap
    /// has already removed it.
    pub(super) async fn roll_back(&self) -> bool {
        let changing = self.controller.lifecycle.changing.lock().await;
        let Some(trial) = self.step() else { return false };
        trial.finish();
        self.controller.shadow.end();
        self.controller.slot.set_canary(None);
        self.controller.suspension.apply();
        self.controller.feeders.sync_feeders();
        let part = trial.split.clone();
        self.controller
            .resync(KeyFilter::at(move |key| (part.track_of(key) == Track::Canary).then_some(ResetParked::Yes)))
            .await;
        drop(changing);
        true
    }

    /// Deals the keys of the stored resources evenly to the canary and the stable version. Keys whose
    /// resources have the labels now are pinned to the canary, within the bound. Kinds without stored
    /// resources have no known keys. `dealt` is the salt with which another host has dealt them.
    ///
    /// Reads resources until [`DEALT_MAX`] keys are known, and with labels all that match.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn deal(
        &self,
        plan: &CanaryPlan,
        revision: u64,
        dealt: Option<u64>,
    ) -> homeostat_store::Result<Deal> {
        let manages = self.controller.slot.current().component().describe().manages.clone();
        if manages.keys_only {
            let salt = dealt.unwrap_or_else(|| even_salt(revision, &plan.steps, &[]));
            return Ok(Deal { salt, pinned: PinnedKeys::default() });
        }
        let labels = plan.labels.iter().map(|(name, value)| LabelRequirement::Equals(name.clone(), value.clone()));
        let chosen = Some(Selector { labels: labels.collect(), ..Selector::default() });
        let chosen = chosen.filter(|selector| !selector.labels.is_empty());
        let salt = match dealt {
            Some(salt) => salt,
            None => even_salt(revision, &plan.steps, &self.keys_to_deal(&manages.kind, chosen.as_ref()).await?),
        };
        let pinned = match chosen {
            Some(selector) => self.pinned_keys(manages.kind, selector, salt).await?,
            None => PinnedKeys::default(),
        };
        Ok(Deal { salt, pinned })
    }

    /// Returns the first [`DEALT_MAX`] keys that both versions may receive and labels do not pin.
    async fn keys_to_deal(&self, kind: &Kind, chosen: Option<&Selector>) -> homeostat_store::Result<Vec<Key>> {
        let (current, trial) = (self.controller.slot.current(), self.step());
        let is_dealt = |resource: &Resource| {
            let key = resource.key();
            let may_get = |loaded: &LoadedVersion| loaded.definition.may_get(key);
            may_get(&current)
                && trial.as_ref().is_none_or(|trial| may_get(&trial.loaded))
                && !chosen.is_some_and(|selector| selector.matches(resource))
        };
        let mut keys = Vec::new();
        let mut pages = ResourcePages::new(&*self.controller.context.store, Query::all(kind.clone()));
        while keys.len() < DEALT_MAX
            && let Some(resource) = pages.next().await?
        {
            if is_dealt(&resource) {
                keys.push(resource.key().clone());
            }
        }
        Ok(keys)
    }

    /// Returns the keys whose resources match the selector now, within the bound.
    async fn pinned_keys(&self, kind: Kind, selector: Selector, salt: u64) -> homeostat_store::Result<PinnedKeys> {
        let mut chosen = PinnedKeys::default();
        let query = Query { selector, ..Query::all(kind) };
        let mut pages = ResourcePages::new(&*self.controller.context.store, query);
        while let Some(page) = pages.next_page().await? {
            chosen = chosen.and(page.iter().map(|resource| key_hash(resource.key(), salt)));
        }
        Ok(chosen)
    }
}
