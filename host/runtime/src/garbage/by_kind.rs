//! Garbage collection in a store whose kinds have no common order: each kind is listed and watched by itself.

use std::collections::HashMap;
use std::time::Duration;

use homeostat_store::{Error, Kind, Scope, View};
use tokio::task::JoinSet;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Place;
use crate::kinds::{KindId, id_of};
use crate::{KindInfo, Kinds, Stores};

/// How often the kinds of the store are read. A kind that comes between two reads is listed by the later one.
const KINDS_EVERY: Duration = Duration::from_secs(5);
/// Kinds that are followed in one store, at most. The garbage of further ones is not collected, which a warning
/// says.
pub(crate) const KINDS_MAX: usize = 1000;

/// Collects garbage kind by kind until `end` is cancelled, or the store is closed.
pub(super) async fn run(place: Place, stores: &Stores, kinds: &Kinds, end: CancellationToken) {
    let mut collectors = KindCollectors { place, followed: HashMap::new(), tasks: JoinSet::new(), was_full: false };
    loop {
        match collectors.kinds(stores, kinds).await {
            Ok(found) => collectors.follow_only(found, &end),
            Err(Error::Closed) => break,
            // The collectors of the known kinds retry by themselves.
            Err(error) => tracing::debug!(store = &*collectors.place.name, %error, "cannot read the kinds"),
        }
        if end.run_until_cancelled(time::sleep(KINDS_EVERY)).await.is_none() {
            break;
        }
    }
    while collectors.tasks.join_next().await.is_some() {}
}

struct KindCollectors {
    place: Place,
    /// The collectors that run, each with the token that ends it.
    followed: HashMap<KindId, CancellationToken>,
    tasks: JoinSet<()>,
    was_full: bool,
}

impl KindCollectors {
    /// Returns the kinds that have resources in the store, and those that somebody declares here and that live there.
    async fn kinds(&self, stores: &Stores, kinds: &Kinds) -> homeostat_store::Result<HashMap<KindId, Kind>> {
        let stored = self.place.store.kinds().await?;
        let is_here = |kind: &Kind| stores.name_of(kind).is_none_or(|name| name == self.place.name);
        // Most built-in kinds are never used. One that comes into use has resources in the store.
        let is_used = |info: &KindInfo| info.built_in().is_none() || kinds.is_claimed(&id_of(&info.kind));
        let known = kinds.list().into_iter().filter(|info| !info.keys_only && is_used(info)).map(|info| info.kind);
        Ok(stored.into_iter().chain(known.filter(is_here)).map(|kind| (id_of(&kind), kind)).collect())
    }

    /// Starts collectors of new kinds, and ends those of kinds that are gone.
    fn follow_only(&mut self, kinds: HashMap<KindId, Kind>, end: &CancellationToken) {
        while self.tasks.try_join_next().is_some() {}
        self.followed.retain(|id, end| {
            let stays = kinds.contains_key(id);
            if !stays {
                end.cancel();
            }
            stays
        });
        for (id, kind) in kinds {
            if self.followed.contains_key(&id) {
                continue;
            }
            if self.followed.len() >= KINDS_MAX {
                self.report_full();
                return;
            }
            let end = end.child_token();
            self.followed.insert(id, end.clone());
            let place = self.place.clone();
            self.tasks.spawn(async move {
                // Owners are in the metadata.
                let _cached = place.store.subscribe(&kind, View::Metadata);
                place.collect(Scope::Kind(kind), end).await;
            });
        }
    }

    fn report_full(&mut self) {
        if !std::mem::replace(&mut self.was_full, true) {
            tracing::warn!(
                store = &*self.place.name,
                "the store has more than {KINDS_MAX} kinds: the garbage of the others is not collected"
            );
        }
    }
}

#[cfg(test)]
mod tests;
