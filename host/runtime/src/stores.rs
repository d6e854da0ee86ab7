//! The stores of a host: one, or several of which each has some of the kinds.

use std::sync::Arc;

use homeostat_store::moves::{MoveProgress, MoveStep};
use homeostat_store::routes::HOME;
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Availability, CacheStatus, Error, EventSink, Kind, Obstacle, RoutedStore, Store, StorePart, StoreStatus,
};
use tokio::sync::watch;

#[cfg(test)]
pub(crate) mod tests;

/// The stores of a host. Cheap to clone.
#[derive(Clone)]
pub enum Stores {
    /// One store, with all kinds.
    One(Arc<dyn Store>),
    /// Several stores, or one with a name.
    Routed(Arc<RoutedStore>),
}

impl Stores {
    /// Returns the store through which all kinds are read and written.
    pub fn whole(&self) -> Arc<dyn Store> {
        match self {
            Self::One(store) => Arc::clone(store),
            Self::Routed(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Returns the stores one by one, the host's own first. A store that stands alone has an empty name.
    pub(crate) fn parts(&self) -> Vec<StorePart> {
        match self {
            Self::One(store) => vec![StorePart { name: "".into(), store: Arc::clone(store) }],
            Self::Routed(store) => store.parts().to_vec(),
        }
    }

    /// Returns the name of the store that has the resources of a kind; `None` if the host has one store.
    pub(crate) fn name_of(&self, kind: &Kind) -> Option<Arc<str>> {
        match self {
            Self::One(_) => None,
            Self::Routed(store) => Some(Arc::clone(&store.part(kind).name)),
        }
    }

    /// Returns where the server of a kind's resources takes events about them.
    pub(crate) fn event_sink(&self, kind: &Kind) -> Option<Arc<dyn EventSink>> {
        match self {
            Self::One(store) => store.event_sink(),
            Self::Routed(store) => store.part(kind).store.event_sink(),
        }
    }

    /// Returns whether a store other than the host's own has the resources of a kind.
    pub(crate) fn is_far(&self, kind: &Kind) -> bool {
        self.name_of(kind).is_some_and(|name| *name != *HOME)
    }

    /// Returns whether the kind is defined where its resources are, and not by this host.
    pub(crate) fn defines(&self, kind: &Kind) -> bool {
        match self {
            Self::One(_) => false,
            Self::Routed(store) => store.part(kind).store.server_validates(),
        }
    }

    /// Returns whether the stores that have these kinds can be used, and the kinds in them; `None` if the host has one
    /// store, whose state is that of the host.
    pub(crate) fn readiness<'k>(&self, kinds: impl IntoIterator<Item = &'k Kind>) -> Option<StoresReadiness> {
        let Self::Routed(store) = self else { return None };
        let needed: Vec<(&Arc<str>, &Kind)> = kinds.into_iter().map(|kind| (&store.part(kind).name, kind)).collect();
        let mut statuses = store.status();
        statuses.retain(|status| needed.iter().any(|(name, _)| **name == status.name));
        let is_needed = |store: &Arc<str>, refused: &RefusedKind| {
            needed.iter().any(|(name, kind)| *name == store && kind.same_type(&refused.kind))
        };
        let unusable = statuses.iter().find(|status| status.health().is_err()).map(StoresReadiness::of_unusable);
        let refused = || {
            statuses.iter().find_map(|status| refused_kinds(status).find(|refused| is_needed(&status.name, refused)))
        };
        let waits = unusable.or_else(|| refused().map(RefusedKind::readiness));
        Some(waits.unwrap_or(StoresReadiness::Ready))
    }

    /// Accepts the content that a store has now, as [`Store::accept_replacement`].
    ///
    /// # Errors
    /// `NotFound` when there is no store of this name; those of [`Store::accept_replacement`].
    pub async fn accept_replacement(&self, name: &str, content: &str) -> homeostat_store::Result<()> {
        let is_named = |part: &StorePart| *part.name == *name || (part.name.is_empty() && name == HOME);
        match self.parts().into_iter().find(is_named) {
            Some(part) => part.store.accept_replacement(content).await,
            None => Err(Error::NotFound { what: format!("store {name:?}") }),
        }
    }

    /// Starts a step of the move of a kind between two stores, as [`RoutedStore::start_move`].
    ///
    /// # Errors
    /// `NotFound` when there is no such store, `Invalid` for a copy into memory, and those of
    /// [`RoutedStore::start_move`].
    pub fn start_move(
        &self,
        kind: &Kind,
        step: MoveStep,
        is_dry_run: bool,
    ) -> homeostat_store::Result<watch::Receiver<MoveProgress>> {
        let (MoveStep::Copy(name) | MoveStep::Prune(name)) = &step;
        let unknown = || Error::NotFound { what: format!("store {name:?}") };
        let Self::Routed(stores) = self else { return Err(unknown()) };
        let part = stores.parts().iter().find(|part| part.name == *name).ok_or_else(unknown)?;
        let is_memory = part.store.status().iter().any(|status| status.storage == "memory");
        if is_memory && matches!(step, MoveStep::Copy(_)) {
            let reason = format!("store {name} is in memory: its resources are lost when the host ends");
            return Err(Error::invalid("store", reason));
        }
        stores.start_move(kind, step, is_dry_run)
    }

    /// Returns the schemas by which the stores of this host validate.
    pub(crate) fn schemas(&self) -> Schemas {
        self.whole().schemas().cloned().unwrap_or_default()
    }
}

/// Whether the stores and kinds can be used that a controller needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum StoresReadiness {
    Ready,
    /// One of them cannot.
    Waiting {
        /// The reason of the condition.
        reason: &'static str,
        /// The reason, for a person.
        message: String,
    },
}

/// A kind that cannot be used although the server of its store answers.
pub(crate) struct RefusedKind {
    pub(crate) kind: Kind,
    pub(crate) obstacle: Obstacle,
    /// The reason, for a person.
    pub(crate) message: String,
}

impl RefusedKind {
    fn readiness(self) -> StoresReadiness {
        StoresReadiness::Waiting { reason: self.obstacle.as_str(), message: self.message }
    }
}

/// Returns the kinds that are in use and that a store cannot give.
pub(crate) fn refused_kinds(status: &StoreStatus) -> impl Iterator<Item = RefusedKind> + '_ {
    status.caches.iter().filter_map(move |CacheStatus { kind, obstacle, reason, .. }| {
        let obstacle = (*obstacle)?;
        let default = || format!("the server does not give the kind {kind}");
        let message = format!("store {}: {}", status.name, reason.clone().unwrap_or_else(default));
        Some(RefusedKind { kind: kind.clone(), obstacle, message })
    })
}

impl StoresReadiness {
    fn of_unusable(status: &StoreStatus) -> Self {
        let reason = match status.availability {
            Availability::Ready => return Self::Ready,
            Availability::Starting { .. } | Availability::Away { .. } | Availability::Closed => "StoreAway",
            Availability::Unhealthy { .. } => "StoreUnhealthy",
            Availability::Replaced { .. } => "StoreReplaced",
        };
        let message = status.health().err().map(|error| error.to_string());
        Self::Waiting { reason, message: message.unwrap_or_default() }
    }
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}
