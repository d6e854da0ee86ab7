//! The last step of a move: removes the former resources.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{ConcurrentWrites, MoveTask, PASSES_MAX};
use crate::copy_mark::CopyMark;
use crate::routed::movable::MovableStore;
use crate::routes::KindPattern;
use crate::{
    Error, FINALIZER_ORPHAN, Precondition, Propagation, Query, Resource, ResourcePages, Result, Store, View, Write,
};

/// How long the collector of a cluster may take to release the dependents of removed resources.
const COLLECTOR_WAIT: Duration = Duration::from_secs(60);
/// The pause between two looks at resources that wait for that collector. The answers come from a cache.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The counts of one pass.
#[derive(Default)]
struct PruneCounts {
    /// Resources to remove.
    former: u64,
    /// Removed resources that wait for the collector of their cluster.
    waiting: u64,
    /// Resources of others, which stay.
    others: u64,
}

impl MoveTask<'_> {
    pub(super) async fn prune(&self, from: &str) -> Result<()> {
        let Self { stores, kind, is_dry_run, progress } = self;
        let at = self.other_part(from)?;
        if stores.moved.former(kind).await.is_some_and(|former| *former == *from) {
            self.move_references().await?;
            if !is_dry_run {
                stores.moved.follow_uids(kind).await?;
            }
        }
        let part = &stores.movable[at];
        let _caches = (part.subscribe(kind, View::Whole), stores.subscribe(kind, View::Metadata));
        if !is_dry_run {
            stores.moved.void(kind).await?;
        }
        let (mut passes, began) = (0, Instant::now());
        loop {
            let found = self.prune_pass(part).await?;
            progress.send_modify(|progress| {
                progress.resources += found.former;
                progress.written = progress.resources;
                progress.others = found.others;
            });
            match found {
                PruneCounts { former: 0, waiting: 0, .. } => break,
                _ if *is_dry_run => break,
                PruneCounts { former: 0, waiting, .. } if began.elapsed() > COLLECTOR_WAIT => {
                    let name = KindPattern::of(kind);
                    return Err(Error::unavailable(format!(
                        "{waiting} {name} in store {from} wait for the garbage collector of that cluster, with the finalizer {FINALIZER_ORPHAN}: repeat the command when it runs"
                    )));
                }
                PruneCounts { former: 0, .. } => tokio::time::sleep(LOOK_EVERY).await,
                _ => passes += 1,
            }
            if passes >= PASSES_MAX {
                break;
            }
        }
        if *is_dry_run { Ok(()) } else { stores.moved.pruned(kind, from).await }
    }

    /// Removes the resources that a pass finds.
    async fn prune_pass(&self, part: &Arc<MovableStore>) -> Result<PruneCounts> {
        let has_others = part.server_validates();
        let mut writing = ConcurrentWrites::of(part);
        let mut pages = ResourcePages::new(&**part, Query::all(self.kind.clone()));
        let mut found = PruneCounts::default();
        while let Some(resource) = pages.next().await? {
            if has_others && is_waiting(&resource) {
                found.waiting += 1;
            } else if has_others && !self.is_left_by_move(&resource).await? {
                found.others += 1;
            } else {
                found.former += 1;
                let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: None };
                // The dependents that this host could not change must not follow.
                let (key, propagation) = (resource.key().clone(), Propagation::Orphan);
                if !self.is_dry_run {
                    writing.submit(Write::Delete { key, precondition, propagation, grace_seconds: None }).await?;
                }
            }
        }
        writing.end().await?;
        Ok(found)
    }

    /// Returns whether a resource in a cluster is a copy, or the original of a resource of this host. Everything else
    /// there belongs to others.
    async fn is_left_by_move(&self, resource: &Resource) -> Result<bool> {
        if CopyMark::of(resource).is_some() {
            return Ok(true);
        }
        match self.stores.part(self.kind).store.get(resource.key()).await {
            Ok(here) => Ok(here.uid() == resource.uid()),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a removed resource waits until its dependents are released.
fn is_waiting(resource: &Resource) -> bool {
    resource.is_deleting() && resource.finalizers().all(|name| name == FINALIZER_ORPHAN)
}
