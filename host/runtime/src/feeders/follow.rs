//! Follows one more kind on behalf of keys whose last reconcile asked for it. It ends by the first change of that kind that finds no key
//! which still does.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Error, Key, Kind};
use homeostat_workqueue::Priority;

use super::{Feeder, FeederError, Intake, Watches};
use crate::follows::Follows;

pub(crate) struct FollowFeeder {
    name: String,
    watches: Arc<Watches>,
    kind: Kind,
    follows: Arc<Follows>,
}

impl FollowFeeder {
    pub(crate) fn new(watches: Arc<Watches>, kind: Kind, follows: Arc<Follows>) -> Self {
        Self { name: format!("follow {kind}"), watches, kind, follows }
    }
}

#[async_trait]
impl Feeder for FollowFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        loop {
            let mut watch = self.watches.watch(&self.kind, self.watches.store().revision());
            // Whatever changed before this watch began is looked at once.
            for key in self.follows.followers_of_kind(&self.kind) {
                intake.add(key, Priority::LOW);
            }
            loop {
                match watch.next().await {
                    Ok(_) if self.follows.let_go(&self.kind) => return Ok(()),
                    Ok(event) => {
                        let sides = [Some(&event.resource), event.previous.as_ref()];
                        for side in sides.into_iter().flatten() {
                            // What was granted when they asked may be no more.
                            let may = |key: &Key, reveals| intake.may_learn(key, side.key(), reveals);
                            for key in self.follows.followers_of(side, may) {
                                intake.add(key, Priority::NORMAL);
                            }
                        }
                    }
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
