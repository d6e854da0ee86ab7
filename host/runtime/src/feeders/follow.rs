//! Watches one more kind for keys whose last reconcile asked to follow it. Ends at the first change that no
//! key follows any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_store::{Error, Key, Kind, Scope, View};
use homeostat_workqueue::Priority;

use super::{Feeder, FeederError, Intake, IntakeError, RoomWait};
use crate::follows::Follows;
use crate::shared_watches::SharedWatches;

pub(crate) struct FollowFeeder {
    name: String,
    watches: Arc<SharedWatches>,
    kind: Kind,
    follows: Arc<Follows>,
}

impl FollowFeeder {
    pub(crate) fn new(watches: Arc<SharedWatches>, kind: Kind, follows: Arc<Follows>) -> Self {
        Self { name: format!("follow {kind}"), watches, kind, follows }
    }
}

impl Feeder for FollowFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let _cached = self.watches.store().subscribe(&self.kind, View::Whole);
        let mut refused = WaitingFollowers::default();
        loop {
            let from = self.watches.store().revision(&Scope::Kind(self.kind.clone())).await?;
            let mut watch = self.watches.watch(&self.kind, from);
            // Changes before this watch started are covered by running all followers once.
            refused.add(intake, self.follows.followers_of_kind(&self.kind), Priority::LOW);
            loop {
                let next = tokio::select! {
                    biased;
                    next = watch.next() => next,
                    () = RoomWait::wait_if_some(refused.waiting.as_mut(), || vec![intake.place()]) => {
                        refused.come_back(intake);
                        continue;
                    }
                };
                match next {
                    Ok(_) if self.follows.let_go(&self.kind) => return Ok(()),
                    Ok(event) => {
                        let sides = [Some(&event.resource), event.previous.as_ref()];
                        for side in sides.into_iter().flatten() {
                            // The grants may have changed since the request.
                            let may = |key: &Key, reveals| intake.may_learn(key, side.key(), reveals);
                            refused.add(intake, self.follows.followers_of(side, may), Priority::NORMAL);
                        }
                    }
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

/// Followers that the full queue refused. Bounded by the number of followers.
#[derive(Default)]
struct WaitingFollowers {
    keys: BTreeSet<Key>,
    waiting: Option<RoomWait>,
}

impl WaitingFollowers {
    fn add(&mut self, intake: &Intake, keys: impl IntoIterator<Item = Key>, priority: Priority) {
        for key in keys {
            if intake.add(key.clone(), priority) == Err(IntakeError::Full) {
                self.keys.insert(key);
            }
        }
        if !self.keys.is_empty() && self.waiting.is_none() {
            intake.report_full();
            self.waiting = Some(RoomWait::begin());
        }
    }

    fn come_back(&mut self, intake: &Intake) {
        self.waiting = None;
        intake.mark_healthy();
        let keys = std::mem::take(&mut self.keys);
        self.add(intake, keys, Priority::NORMAL);
    }
}

#[cfg(test)]
mod tests;
