//! The kinds whose resources got other uids by a move, until the former store is pruned.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::Records;
use crate::Kind;

/// Whom the dependents of a kind name whose resources got other uids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum References {
    /// Some may name a former uid. The kind is neither read nor written until all are changed.
    Former,
    /// All that the host could read name a current uid. A former one in a write is replaced.
    Current,
}

/// What the records say, for readers that do not wait.
#[derive(Debug, Default)]
pub(super) struct FormerUids {
    /// Whether there is any such kind: most hosts have none.
    is_any: AtomicBool,
    kinds: RwLock<Vec<(Kind, References)>>,
}

impl FormerUids {
    pub(super) fn set(&self, records: &Records) {
        let found = records.kinds.iter().filter_map(|record| Some((record.kind.clone(), record.references?)));
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        *kinds = found.collect();
        self.is_any.store(!kinds.is_empty(), Ordering::Release);
    }

    pub(super) fn of(&self, kind: &Kind) -> Option<References> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().find(|(one, _)| one.same_type(kind)).map(|(_, references)| *references)
    }

    pub(super) fn waiting(&self) -> Vec<Kind> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        let waiting = kinds.iter().filter(|(_, references)| *references == References::Former);
        waiting.map(|(kind, _)| kind.clone()).collect()
    }
}
