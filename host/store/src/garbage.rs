//! Garbage collection: deletes or releases the dependents of a deleted owner.
//!
//! * Background: a resource is deleted once all its owners are gone. An owner is gone when no resource of
//!   that kind and name has that uid.
//! * Foreground: an owner that is being deleted with the finalizer `foregroundDeletion` waits until its
//!   dependents are gone. Dependents with another living owner lose the reference instead.
//! * Orphan: an owner with the finalizer `orphan` waits until no resource references it.
//!
//! [`checks`] turns a change into [`Check`]s, and [`GarbageCollector::check`] makes one against the current
//! state of the store. The collector keeps no graph in memory that could become stale, and has nothing to
//! restore after a restart: to find deletions that it missed, each resource counts as added. Every check can be
//! repeated, and their order does not matter.
//!
//! Deliberately absent: the loop that lists, watches and retries (the runtime has one for all controllers of
//! the host), and `blockOwnerDeletion` (every dependent blocks a foreground deletion). An owner in another store
//! never counts as gone here: the runtime decides that, with more evidence. But a dependent in another store is
//! waited for, deleted and released as any.

mod steps;
#[cfg(test)]
mod tests;

pub use steps::{GarbageCollector, Progress};

use crate::{Event, EventType, FINALIZER_FOREGROUND, Key, OwnerReference, Resource};

/// One check of garbage collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// Of a resource, as a dependent and as an owner.
    Resource(Key),
    /// Of the dependents of a resource that is gone, by its uid.
    DependentsOf(String),
    /// Of an owner that may have waited for a dependent to go, or to drop its reference.
    WaitingOwner {
        /// The reference of the dependent.
        owner: OwnerReference,
        /// The namespace of the dependent; empty if it has none.
        namespace: String,
    },
}

/// Returns the checks that a change calls for.
pub fn checks(event: &Event) -> Vec<Check> {
    let Event { kind, resource, previous, revision: _ } = event;
    let waiting = |owner: &OwnerReference| Check::WaitingOwner {
        owner: owner.clone(),
        namespace: resource.key().namespace().to_owned(),
    };
    match kind {
        EventType::Deleted => {
            let dependents = Check::DependentsOf(resource.uid().to_owned());
            [dependents].into_iter().chain(resource.owners().iter().map(waiting)).collect()
        }
        EventType::Added | EventType::Modified => {
            let check = calls_for_check(resource, previous.as_deref()).then(|| Check::Resource(resource.key().clone()));
            let before = previous.as_deref().map(Resource::owners).unwrap_or_default();
            let is_dropped = |owner: &&OwnerReference| resource.owners().iter().all(|other| other.uid != owner.uid);
            // Between both states it was deleted and created again.
            let gone = previous.as_deref().filter(|previous| previous.uid() != resource.uid());
            let dependents = gone.map(|gone| Check::DependentsOf(gone.uid().to_owned()));
            check.into_iter().chain(dependents).chain(before.iter().filter(is_dropped).map(waiting)).collect()
        }
    }
}

/// Returns whether a change matters to garbage collection.
fn calls_for_check(resource: &Resource, previous: Option<&Resource>) -> bool {
    let Some(previous) = previous else { return !resource.owners().is_empty() || resource.is_deleting() };
    resource.owners() != previous.owners()
        || resource.is_deleting() != previous.is_deleting()
        || (resource.is_deleting() && !resource.finalizers().eq(previous.finalizers()))
}

/// Returns whether a resource waits for its dependents to be deleted.
fn is_foreground(resource: &Resource) -> bool {
    resource.is_deleting() && resource.finalizers().any(|name| name == FINALIZER_FOREGROUND)
}
