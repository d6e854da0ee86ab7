//! The sweep: finds owners in other stores whose deletion nobody noticed.

use std::collections::{BTreeMap, HashSet};

use homeostat_store::far_owner::OWNER_LABEL;
use homeostat_store::{Kind, LabelRequirement, Query, ResourcePages, Result, Selector, View};
use homeostat_workqueue::Queue;

use super::steps::FarGarbageCollector;
use super::{OwnerName, add};
use crate::kinds::{KindId, id_of};

/// Resources of one kind of owners whose uids a sweep keeps, at most. Each owner of a larger kind is checked by a
/// request of its own.
const UIDS_MAX: usize = 100_000;

/// The resources of one kind of owners.
enum LivingUids {
    /// The uids of all of them.
    Uids(HashSet<String>),
    /// There are too many.
    Many,
    /// The kind could not be listed. Its resources count as living.
    Unknown,
}

impl LivingUids {
    fn lacks(&self, uid: &str) -> bool {
        match self {
            Self::Uids(uids) => !uids.contains(uid),
            Self::Many => true,
            Self::Unknown => false,
        }
    }
}

/// The kinds of owners that a sweep has met.
type Owners = BTreeMap<KindId, (Kind, LivingUids)>;

impl FarGarbageCollector {
    /// Queues each owner that has dependents here and is not listed where it lives. Returns the kinds of all owners
    /// that have dependents.
    ///
    /// A kind that cannot be listed is left out until the next sweep.
    pub(super) async fn sweep(&self, queue: &Queue<OwnerName>) -> Vec<Kind> {
        let mut owners = Owners::new();
        for kind in self.dependent_kinds().await {
            match self.sweep_kind(kind.clone(), &mut owners, queue).await {
                Ok(()) => {}
                Err(error) if error.concerns_one_kind() => {}
                Err(error) => tracing::debug!(%kind, %error, "cannot list dependents, the next sweep does"),
            }
        }
        owners.into_values().map(|(kind, _)| kind).collect()
    }

    /// Queues the owners that are missing of the dependents of one kind.
    async fn sweep_kind(&self, kind: Kind, owners: &mut Owners, queue: &Queue<OwnerName>) -> Result<()> {
        let label = LabelRequirement::Exists(OWNER_LABEL.to_owned());
        let selector = Selector { labels: vec![label], ..Selector::default() };
        let mut pages = ResourcePages::new(&*self.stores, Query { selector, view: View::Metadata, ..Query::all(kind) });
        while let Some(dependents) = pages.next_page().await? {
            let named: Vec<OwnerName> = dependents.iter().filter_map(|one| OwnerName::of_dependent(one)).collect();
            for owner in named {
                if !self.knows(&owner) {
                    continue;
                }
                let id = id_of(&owner.kind);
                if !owners.contains_key(&id) {
                    let living = self.living(&owner.kind).await;
                    owners.insert(id.clone(), (owner.kind.clone(), living));
                }
                if owners.get(&id).is_some_and(|(_, living)| living.lacks(&owner.uid)) {
                    add(queue, owner).await;
                }
            }
        }
        Ok(())
    }

    async fn living(&self, kind: &Kind) -> LivingUids {
        self.uids(kind).await.unwrap_or_else(|error| {
            tracing::debug!(%kind, %error, "cannot list owners, so their dependents stay");
            LivingUids::Unknown
        })
    }

    async fn uids(&self, kind: &Kind) -> Result<LivingUids> {
        let mut uids = HashSet::new();
        let mut pages =
            ResourcePages::new(&*self.stores, Query { live: true, view: View::Metadata, ..Query::all(kind.clone()) });
        while let Some(resources) = pages.next_page().await? {
            uids.extend(resources.iter().map(|resource| resource.uid().to_owned()));
            if uids.len() > UIDS_MAX {
                return Ok(LivingUids::Many);
            }
        }
        Ok(LivingUids::Uids(uids))
    }
}
