//! Follows one more kind on behalf of keys whose last reconcile asked for it.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Error, Kind, Scope, Store};
use homeostat_workqueue::Priority;

use super::{Feeder, FeederError, Intake};
use crate::follows::Follows;

pub(crate) struct FollowFeeder {
    name: String,
    store: Arc<dyn Store>,
    kind: Kind,
    follows: Arc<Follows>,
}

impl FollowFeeder {
    pub(crate) fn new(store: Arc<dyn Store>, kind: Kind, follows: Arc<Follows>) -> Self {
        Self { name: format!("follow {kind}"), store, kind, follows }
    }
}

#[async_trait]
impl Feeder for FollowFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        loop {
            let mut watch = self.store.watch(Scope::Kind(self.kind.clone()), self.store.revision()).await?;
            // Whatever changed before this watch began is looked at once.
            for key in self.follows.followers_of_kind(&self.kind) {
                intake.add(key, Priority::LOW);
            }
            loop {
                match watch.next().await {
                    Ok(event) => {
                        let sides = [Some(&event.resource), event.previous.as_ref()];
                        for key in sides.into_iter().flatten().flat_map(|side| self.follows.followers_of(side)) {
                            intake.add(key, Priority::NORMAL);
                        }
                    }
                    Err(Error::Expired { .. } | Error::FutureRevision { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}
