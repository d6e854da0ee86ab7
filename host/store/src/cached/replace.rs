//! A full list in place of the changes that a cache missed: the difference between both becomes events, so
//! that watches go on and need no list of their own. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::Path;
use crate::{Event, EventType, Resource, Revision};

/// Why the difference between a cache and a list cannot be told by events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplaceError {
    /// The list is older than the cache.
    Stale,
    /// The list is not older, but has a resource at a lower revision than the cache. A server that lags lists at a lower
    /// revision: the content of this one went back.
    WentBack { cached: Revision, listed: Revision },
    /// A resource contradicts its own revision, as one that changed at a revision that the cache already had.
    Contradiction,
}

/// Returns the events that turn the cached resources into the listed ones, in the order of their revisions.
///
/// The cache has every change up to its revision, the list every change up to the other one. Each event has a
/// revision of its own in between: that of its resource, or for a deletion one that no listed resource has. Each
/// deletion took a revision at the server, so there are enough of them.
///
/// `shown` are resources that reads have shown since, and that may be in neither: then they came and went, and two
/// events say so.
pub(crate) fn replace<'a>(
    (cached, through): (&BTreeMap<Path, Arc<Resource>>, Revision),
    (listed, at): (&BTreeMap<Path, Arc<Resource>>, Revision),
    shown: impl Iterator<Item = (&'a Path, &'a Arc<Resource>)>,
) -> Result<Vec<Event>, ReplaceError> {
    if at < through {
        return Err(ReplaceError::Stale);
    }
    let (mut events, mut is_contradiction) = (BTreeMap::new(), false);
    for (path, resource) in listed {
        let previous = cached.get(path);
        if previous.is_some_and(|previous| is_same(previous, resource)) {
            continue;
        }
        let revision = resource.revision();
        if let Some(previous) = previous.filter(|previous| previous.revision() > revision) {
            return Err(ReplaceError::WentBack { cached: previous.revision(), listed: revision });
        }
        let kind = if previous.is_some() { EventType::Modified } else { EventType::Added };
        let event = Event { kind, resource: Arc::clone(resource), previous: previous.cloned(), revision };
        is_contradiction |= revision <= through || revision > at || events.insert(revision, event).is_some();
    }
    if is_contradiction {
        return Err(ReplaceError::Contradiction);
    }
    let taken: BTreeSet<Revision> = events.keys().copied().collect();
    let mut free = (through.0 + 1..=at.0).map(Revision).filter(|revision| !taken.contains(revision));
    for (path, previous) in cached {
        if !listed.contains_key(path) {
            let revision = free.next().ok_or(ReplaceError::Contradiction)?;
            let (resource, previous) = (previous.at(revision), Some(Arc::clone(previous)));
            events.insert(revision, Event { kind: EventType::Deleted, resource, previous, revision });
        }
    }
    for (_, resource) in shown.filter(|(path, _)| !cached.contains_key(path) && !listed.contains_key(path)) {
        let (came, went) = (free.next(), free.next());
        let (came, went) = came.zip(went).ok_or(ReplaceError::Contradiction)?;
        let (resource, gone) = (resource.at(came), resource.at(went));
        let added = Event { kind: EventType::Added, resource: Arc::clone(&resource), previous: None, revision: came };
        events.insert(came, added);
        let previous = Some(resource);
        events.insert(went, Event { kind: EventType::Deleted, resource: gone, previous, revision: went });
    }
    Ok(events.into_values().collect())
}

/// Returns whether both are the same state of the same resource.
pub(crate) fn is_same(one: &Resource, other: &Resource) -> bool {
    one.revision() == other.revision() && one.uid() == other.uid()
}
