//! Notices when a store or one of its kinds can no longer be used, and when it can again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use homeostat_store::{Kind, Obstacle, Store, StoreStatus};

use crate::stores::refused_kinds;

/// The last known states of the stores.
pub(crate) struct StoreMonitor {
    store: Arc<dyn Store>,
    /// By name, the reason why a store cannot be used.
    known: HashMap<Arc<str>, Option<String>>,
    /// The kinds in use that cannot be used although the servers of their stores answer.
    refused: BTreeMap<(Arc<str>, Kind), Obstacle>,
}

/// A store, or one of its kinds, that can no longer be used, or can again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Transition {
    pub(crate) store: Arc<str>,
    /// `None` for the whole store.
    pub(crate) kind: Option<Kind>,
    /// The reason of the event.
    pub(crate) event: &'static str,
    /// Why it cannot be used; `None` if it can.
    pub(crate) reason: Option<String>,
}

impl StoreMonitor {
    /// Returns a monitor of the parts of a store. It reports what changes from now on.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let known = store.status().iter().map(state).collect();
        Self { store, known, refused: BTreeMap::new() }
    }

    /// Returns what has changed since the last call. Asks no server.
    pub(crate) fn transitions(&mut self) -> Vec<Transition> {
        let statuses = self.store.status();
        let mut transitions = Vec::new();
        for (store, reason) in statuses.iter().map(state) {
            let before = self.known.insert(Arc::clone(&store), reason.clone());
            if before.flatten().is_some() != reason.is_some() {
                let event = if reason.is_some() { "StoreAway" } else { "StoreBack" };
                transitions.push(Transition { store, kind: None, event, reason });
            }
        }
        transitions.extend(self.kind_transitions(&statuses));
        transitions
    }

    fn kind_transitions(&mut self, statuses: &[StoreStatus]) -> Vec<Transition> {
        let mut before = std::mem::take(&mut self.refused);
        let mut transitions = Vec::new();
        for status in statuses {
            for refused in refused_kinds(status) {
                let id = (Arc::clone(&status.name), refused.kind.clone());
                if before.remove(&id) != Some(refused.obstacle) {
                    let (store, kind) = (Arc::clone(&status.name), Some(refused.kind));
                    let event = refused.obstacle.as_str();
                    transitions.push(Transition { store, kind, event, reason: Some(refused.message) });
                }
                self.refused.insert(id, refused.obstacle);
            }
        }
        // A kind that nobody uses any more is not back.
        let is_used = |store: &Arc<str>, kind: &Kind| {
            let of_store = statuses.iter().filter(|status| status.name == *store);
            of_store.flat_map(|status| &status.caches).any(|cache| cache.kind == *kind)
        };
        let back = before.into_keys().filter(|(store, kind)| is_used(store, kind));
        transitions.extend(back.map(|(store, kind)| Transition {
            store,
            kind: Some(kind),
            event: "KindBack",
            reason: None,
        }));
        transitions
    }
}

fn state(status: &StoreStatus) -> (Arc<str>, Option<String>) {
    (Arc::clone(&status.name), status.health().err().map(|error| error.to_string()))
}

#[cfg(test)]
mod tests;
