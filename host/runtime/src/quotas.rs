//! The resource quotas of a namespace: a write that would exceed one is refused, another is charged to it.
//!
//! Source: the admission plug-in `ResourceQuota` of Kubernetes. As there, a quota acts once a controller has written its
//! `status.hard` and `status.used`, and the controller's next count corrects a charge whose write failed.

mod charge;
mod scopes;
mod usage;

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use homeostat_store::{Key, Kind, Precondition, Request, Resource, Store, Subresource, Target, Write};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::error::found;
use crate::listing::of_namespace;
use crate::remembered::Remembered;
use crate::{Error, Kinds, Stores};
use charge::charged;
use usage::CountedKind;

/// How many namespaces can be charged at the same time.
const TURNS: usize = 16;

/// How often a charge is tried while controllers or other hosts write to the same quotas.
const ATTEMPTS_MAX: usize = 8;

/// Namespaces that are remembered to have no quota. The quotas of others are read from the store each time.
const REMEMBERED_MAX: usize = 100_000;

/// The turns of the writes that are charged, and the namespaces in which none is.
pub(crate) struct Quotas {
    stores: Stores,
    /// Writes in one namespace follow each other.
    turns: [Mutex<()>; TURNS],
    hasher: RandomState,
    /// The namespaces without a quota in the host's own store.
    unlimited: Remembered<HashSet<String>>,
}

impl Quotas {
    pub(crate) fn new(stores: Stores) -> Self {
        Self { stores, turns: Default::default(), hasher: RandomState::default(), unlimited: Remembered::default() }
    }

    /// Returns whether a namespace has quotas. Most have none, and each creation asks.
    async fn limit(&self, store: &dyn Store, namespace: &str) -> Result<bool, Error> {
        let Err(writes) = self.unlimited.find(|names| names.contains(namespace).then_some(())) else {
            return Ok(false);
        };
        let has_quotas = !of_namespace(store, &quotas(), namespace).await?.is_empty();
        // Other hosts write to stores that are far away.
        if !has_quotas && !self.stores.is_far(&quotas()) {
            self.unlimited.add(writes, |names| {
                if names.len() < REMEMBERED_MAX {
                    names.insert(namespace.to_owned());
                }
            });
        }
        Ok(has_quotas)
    }

    /// Forgets which namespaces have no quota, after a write of one.
    pub(crate) fn forget(&self) {
        self.unlimited.forget();
    }

    /// Checks a write against the quotas of its namespace, and charges it to them.
    ///
    /// A dry run decides first whether the write is possible at all, so that a refused one is charged to nobody.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a write that exceeds a quota, or lacks an amount that a quota limits; [`Error::Store`].
    pub(crate) async fn charge(&self, store: &dyn Store, kinds: &Kinds, request: &Request) -> Result<(), Error> {
        let Some((counted, target)) = counted(kinds, request) else { return Ok(()) };
        let namespace = target.namespace.clone();
        if !self.limit(store, &namespace).await? {
            return Ok(());
        }
        let Some(old) = before(store, request, &counted, target).await? else { return Ok(()) };
        let mut trial = request.clone();
        trial.dry_run = true;
        let new = store.submit(trial).await?.resource;
        let old = old.as_ref().map(|old| old.document());
        if old.is_some_and(|old| !is_resize(request) && !counted.changes(old, new.document())) {
            return Ok(());
        }
        let turn = usize::try_from(self.hasher.hash_one(&namespace) % TURNS as u64).unwrap_or_default();
        let _turn = self.turns[turn].lock().await;
        let mut uncharged: Option<BTreeSet<String>> = None;
        for attempt in 1.. {
            let mut quotas = of_namespace(store, &quotas(), &namespace).await?;
            if let Some(uncharged) = &uncharged {
                quotas.retain(|quota| uncharged.contains(quota.key().name()));
            }
            let statuses = charged(&counted, &quotas, old, new.document())
                .map_err(|reason| Error::forbidden(counted.resource(), new.key().name(), &reason))?;
            if request.dry_run {
                return Ok(());
            }
            match write(store, statuses).await? {
                None => return Ok(()),
                Some((_, error)) if attempt == ATTEMPTS_MAX => return Err(error.into()),
                Some((names, _)) => uncharged = Some(names),
            }
        }
        Ok(())
    }
}

/// Returns what a write counts for, if quotas can limit it. Another store limits its resources itself.
fn counted(kinds: &Kinds, request: &Request) -> Option<(CountedKind, Target)> {
    let creates = match &request.write {
        Write::Create { .. } | Write::Apply { .. } => true,
        Write::Update { .. } | Write::Patch { .. } => false,
        _ => return None,
    };
    let target = request.write.target().ok()?;
    let is_limited = !target.namespace.is_empty() && !request.is_move && kinds.has_built_in_schema(&quotas());
    if !is_limited || kinds.defined_in(&target.kind).is_some() {
        return None;
    }
    let info = kinds.of(&target.kind)?;
    let counted = CountedKind::new(&target.kind.group, &info.plural)?;
    (creates || counted.has_updates() || is_resize(request)).then_some((counted, target))
}

/// Returns whether a request changes what the containers of a pod may use.
fn is_resize(request: &Request) -> bool {
    request.subresource == Some(Subresource::Resize)
}

/// Returns the resource before a write, `Some(None)` for a write that creates it; `None` for a write that adds nothing.
async fn before(
    store: &dyn Store,
    request: &Request,
    counted: &CountedKind,
    target: Target,
) -> Result<Option<Option<Arc<Resource>>>, Error> {
    if let Write::Create { .. } = request.write {
        return Ok(Some(None));
    }
    let key = Key::new(target.kind, &target.namespace, &target.name.unwrap_or_default());
    let old = found(store.get(&key).await)?;
    let adds = match old {
        Some(_) => counted.has_updates() || is_resize(request),
        None => matches!(request.write, Write::Apply { .. }),
    };
    Ok(adds.then_some(old))
}

/// Writes the new statuses of quotas. Returns the names of those that were changed in the meantime, and the last error.
async fn write(
    store: &dyn Store,
    statuses: Vec<(&Resource, Value)>,
) -> Result<Option<(BTreeSet<String>, homeostat_store::Error)>, Error> {
    let mut changed: Option<(BTreeSet<String>, homeostat_store::Error)> = None;
    for (quota, status) in statuses {
        let precondition = Precondition { uid: Some(quota.uid().to_owned()), revision: Some(quota.revision()) };
        let write = Write::UpdateStatus { key: quota.key().clone(), status, precondition };
        match found(store.write(write).await) {
            Ok(_) => {}
            Err(error @ homeostat_store::Error::Conflict { .. }) => {
                let (names, last) = changed.get_or_insert_with(|| (BTreeSet::new(), error.clone()));
                names.insert(quota.key().name().to_owned());
                *last = error;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(changed)
}

/// Returns the kind of quotas.
pub(crate) fn quotas() -> Kind {
    Kind::new("", "v1", "ResourceQuota")
}

#[cfg(test)]
mod tests;
