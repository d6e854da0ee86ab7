//! A rollout that the hosts of a fleet carry out together. The host with the first lease decides the steps, and writes
//! each of them into the record before it acts. All hosts carry out what the record says, those without a lease too, so
//! the next holder goes on with the step of the former one.
//!
//! A rollback and what a person says count from every host: a canary that fails in one shard fails for all.

use std::sync::Arc;

use homeostat_store::Error;

use super::{ActiveRollout, StepOutcome};
use crate::controller_reconciler::{REPLACED, SyncError};
use crate::fleet::{RecordView, RolloutRecord};
use crate::reasons::chain;
use crate::rollout::shared_rollout::{Course, OwnRollout, SeenRollout, SharedRollout, SharedStep, attempt_id, course};
use crate::rollout::{RolloutPhase, Share};

/// The record, as this host knows it.
pub(super) struct KnownRecord {
    record: Arc<RolloutRecord>,
    view: RecordView,
    pub(super) seen: SeenRollout,
}

impl SeenRollout {
    /// Reads the state of a record.
    pub(crate) fn in_record(view: &RecordView) -> Self {
        match view {
            RecordView::Unknown => Self::Unknown,
            RecordView::Absent { .. } => Self::Absent,
            RecordView::Written { text, .. } => Self::read(text),
        }
    }
}

impl ActiveRollout<'_, '_> {
    /// Returns the record; `None` where no other host has the keys.
    pub(super) fn known_record(&self) -> Option<KnownRecord> {
        let record = Arc::clone(self.state.canary.controller.slot.placement.rollout()?);
        let view = record.view();
        let seen = SeenRollout::in_record(&view);
        Some(KnownRecord { record, view, seen })
    }

    fn leads(&self) -> bool {
        self.state.canary.controller.slot.placement.leads()
    }

    /// Returns what this host does next.
    pub(super) fn course(&self, known: &KnownRecord) -> Course {
        let (record, version) = (&self.state.record, self.state.version.as_str());
        let own = OwnRollout {
            version,
            wanted: &attempt_id(version, &self.sync.resource),
            followed: record.attempt.as_deref(),
            is_retry: self.state.is_retry,
            share: self.state.machine.share(),
            salt: record.salt,
            leads: self.leads(),
        };
        course(&known.seen, &own)
    }

    /// Does what is not a decision of this host. Returns `None` if it has to decide the next step.
    pub(super) async fn follow_course(&mut self, is_paused: &mut bool) -> Result<Option<StepOutcome>, SyncError> {
        let Some(known) = self.known_record() else { return Ok(None) };
        self.tell_pause(&known, *is_paused).await?;
        let Some(known) = self.known_record() else { return Ok(None) };
        let course = self.course(&known);
        let failure = self.state.canary.step().and_then(|step| step.failure().map(str::to_owned));
        if let Some(reason) = failure
            && !matches!(&course, Course::Follow(rollout) if !rollout.phase.is_tried())
        {
            return self.roll_back(reason).await.map(Some);
        }
        let waits = if let Course::Wait(reason) = course { Some(reason) } else { None };
        self.state.record.waits = waits.map(str::to_owned);
        match course {
            Course::Lead => {
                if let Some(rollout) = known.seen.under_way(&self.state.version).filter(|rollout| rollout.paused) {
                    if !*is_paused {
                        self.state.record.waits =
                            Some("another host has paused it: pause and resume it here".to_owned());
                    }
                    *is_paused |= rollout.paused;
                }
                return Ok(None);
            }
            Course::Follow(rollout) => return self.follow(rollout).await.map(Some),
            Course::Retry => self.announce(RolloutPhase::Listing, Share::NONE, None, None).await?,
            Course::Wait(_) => {}
        }
        // The time of a step passes for the host that decides.
        self.state.machine.step_restarted(self.sync.now());
        Ok(Some(self.in_progress()))
    }

    /// Carries out what the record says.
    async fn follow(&mut self, rollout: SharedRollout) -> Result<StepOutcome, SyncError> {
        self.state.machine.step_restarted(self.sync.now());
        (self.state.record.attempt, self.state.is_retry) = (Some(rollout.attempt), false);
        match rollout.phase {
            RolloutPhase::Listing | RolloutPhase::Shadow => {}
            RolloutPhase::Canary => {
                if self.state.machine.shadow().is_some() {
                    if let Err(error) = self.state.canary.end_shadow().await {
                        return self.roll_back(chain(&error)).await;
                    }
                    self.state.machine.shadow_finished(self.sync.now());
                }
                self.set_share(rollout.share, rollout.salt).await?;
            }
            RolloutPhase::Complete => return self.promote().await,
            RolloutPhase::RolledBack => {
                let reason = rollout.reason.unwrap_or_else(|| REPLACED.to_owned());
                self.state.owes_record = false;
                return self.take_back(format!("in the record of all hosts: {reason:?}")).await;
            }
        }
        Ok(self.in_progress())
    }

    /// Tells the other hosts that a person holds the share, or no longer does.
    async fn tell_pause(&mut self, known: &KnownRecord, is_paused: bool) -> Result<(), SyncError> {
        if self.state.record.paused == is_paused {
            return Ok(());
        }
        let SharedRollout { phase, share, salt, .. } = match known.seen.under_way(&self.state.version) {
            Some(rollout) => rollout.clone(),
            None if self.leads() && self.course(known) == Course::Lead => {
                self.state.record.paused = is_paused;
                let share = self.state.machine.share();
                let phase = if share.is_some() { RolloutPhase::Canary } else { RolloutPhase::Listing };
                return self.announce(phase, share.unwrap_or(Share::NONE), self.state.record.salt, None).await;
            }
            None => return Ok(()),
        };
        self.state.record.paused = is_paused;
        self.write_step(known, phase, share, salt, is_paused, None).await
    }

    /// Writes a step into the record of all hosts, before it acts. Does nothing where no other host has the keys, or if
    /// the record says so already.
    ///
    /// # Errors
    /// Those of the store; `Unavailable` if another host has changed the record.
    pub(super) async fn announce(
        &mut self,
        phase: RolloutPhase,
        share: Share,
        salt: Option<u64>,
        reason: Option<&str>,
    ) -> Result<(), SyncError> {
        let Some(known) = self.known_record() else { return Ok(()) };
        // A person on any host may have paused it.
        let paused = match known.seen.under_way(&self.state.version) {
            Some(rollout) => rollout.paused,
            None => self.state.record.paused,
        };
        self.write_step(&known, phase, share, salt, paused && phase.is_tried(), reason).await
    }

    async fn write_step(
        &mut self,
        KnownRecord { record, view, seen }: &KnownRecord,
        phase: RolloutPhase,
        share: Share,
        salt: Option<u64>,
        paused: bool,
        reason: Option<&str>,
    ) -> Result<(), SyncError> {
        let version = self.state.version.as_str();
        let wanted = attempt_id(version, &self.sync.resource);
        // An attempt that is under way goes on, also after a change of the manifest.
        let known = seen.of(version).filter(|rollout| rollout.phase.is_tried() || !self.state.is_retry);
        let attempt = known.map_or(wanted, |rollout| rollout.attempt.clone());
        let step = SharedStep { version, attempt: &attempt, phase, share, salt, paused, reason };
        let next = SharedRollout::after(seen, step);
        let is_there = matches!(seen, SeenRollout::Written(rollout) if rollout.is_same(&next));
        if !is_there && !record.write(view, &next.text()).await? {
            return Err(Error::unavailable("another host has changed the record of the rollout").into());
        }
        (self.state.record.attempt, self.state.is_retry) = (Some(attempt), false);
        Ok(())
    }

    /// Writes into the record that the canary has lost its keys, unless the record has something else by now.
    pub(super) async fn announce_rollback(&mut self, reason: &str) -> Result<(), SyncError> {
        let Some(known) = self.known_record() else { return Ok(()) };
        let is_mine = match &known.seen {
            SeenRollout::Unreadable => false,
            SeenRollout::Unknown | SeenRollout::Absent => true,
            SeenRollout::Written(_) => {
                known.seen.under_way(&self.state.version).is_some()
                    || (self.leads() && known.seen.of(&self.state.version).is_none())
            }
        };
        if is_mine { self.announce(RolloutPhase::RolledBack, Share::NONE, None, Some(reason)).await } else { Ok(()) }
    }

    /// Writes into the record that a person has replaced the canary on this host.
    pub(super) async fn announce_replaced(&mut self) -> Result<(), SyncError> {
        let is_under_way = self.known_record().is_some_and(|known| known.seen.under_way(&self.state.version).is_some());
        if is_under_way {
            return self.announce(RolloutPhase::RolledBack, Share::NONE, None, Some(REPLACED)).await;
        }
        Ok(())
    }
}
