//! The survey: finds kinds with dependents that no controller of this host uses.
//!
//! Only stores whose servers define kinds have such kinds; other stores tell which kinds have resources. The survey
//! asks whether a kind has any dependent. If so, the kind is remembered, and the sweep does the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use homeostat_store::catalog::ServedKind;
use homeostat_store::far_owner::OWNER_LABEL;
use homeostat_store::{
    Availability, Error, Kind, LabelRequirement, Query, ResourcePages, Result, Selector, StorePart, View,
};
use tokio::sync::Notify;
use tokio::time::{self, Instant};

use super::jittered;
use super::steps::FarGarbageCollector;
use super::unused_kinds::{ASK_INTERVAL, REFUSED_INTERVAL, RETRY};
use crate::kinds::{KindId, id_of};

/// The wait before the first question, in which most controllers are loaded. A question for a kind that a controller
/// is about to use is one request too many, and does no harm.
const START: Duration = Duration::from_secs(10);
/// The least time between two requests.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// The wait while there is no kind to ask, and after a question without an answer.
const IDLE: Duration = Duration::from_secs(10);
/// Pages of one kind, at most. A page without a dependent is the last one, but for servers that stop early.
const PAGES_MAX: usize = 8;

impl FarGarbageCollector {
    /// Asks each unused kind whether it has dependents, one after the other, without end. Notifies `found` when one
    /// has its first.
    pub(super) async fn survey(&self, found: &Notify) {
        time::sleep(START).await;
        loop {
            let answered = match self.next_unused_kind().await {
                Some(kind) => self.ask(&kind, found).await,
                None => false,
            };
            time::sleep(if answered { PAUSE } else { IDLE }).await;
        }
    }

    /// Asks one kind. Returns whether the server answered.
    async fn ask(&self, kind: &Kind, found: &Notify) -> bool {
        let has_dependents = self.has_dependents(kind).await;
        let wait = match &has_dependents {
            Ok(_) => ASK_INTERVAL,
            Err(error) if error.concerns_one_kind() => REFUSED_INTERVAL,
            Err(_) => RETRY,
        };
        self.unused.lock().ask_at(kind, Instant::now() + jittered(wait));
        match has_dependents {
            Ok(true) => {
                if self.stores.add_dependent_kind(kind) {
                    found.notify_one();
                }
            }
            Ok(false) => self.stores.remove_dependent_kind(kind),
            Err(error) => {
                tracing::debug!(%kind, %error, "cannot ask an unused kind for dependents");
                if error.concerns_one_kind() {
                    self.stores.remove_dependent_kind(kind);
                }
                return error.concerns_one_kind();
            }
        }
        true
    }

    /// Leaves an unused kind alone for a while, because its dependents may not be read or deleted.
    pub(super) fn leave_alone(&self, kind: &Kind) {
        self.stores.remove_dependent_kind(kind);
        self.unused.lock().ask_at(kind, Instant::now() + jittered(REFUSED_INTERVAL));
    }

    /// Returns whether a kind has a dependent of an owner in another store.
    async fn has_dependents(&self, kind: &Kind) -> Result<bool> {
        let label = LabelRequirement::Exists(OWNER_LABEL.to_owned());
        let selector = Selector { labels: vec![label], ..Selector::default() };
        let mut pages = ResourcePages::with_page_size(
            &*self.stores,
            1,
            Query { selector, view: View::Metadata, ..Query::all(kind.clone()) },
        );
        for _ in 0..PAGES_MAX {
            match pages.next_page().await? {
                Some(dependents) if dependents.is_empty() => time::sleep(PAUSE).await,
                page => return Ok(page.is_some()),
            }
        }
        Err(Error::unavailable("the server sends page after page without a resource"))
    }

    /// Returns the next kind to ask, of the stores that can be used.
    async fn next_unused_kind(&self) -> Option<Kind> {
        let mut served: Vec<Kind> = Vec::new();
        let mut used: BTreeSet<KindId> = self.kinds.with_resources().iter().map(id_of).collect();
        for part in self.stores.parts() {
            let Some(catalog) = part.store.catalog() else { continue };
            let catalog = catalog.borrow().clone();
            let here = catalog.kinds().filter(|kind| self.stores.part(&kind.kind).name == part.name);
            served.extend(here.filter(|kind| can_have_dependents(kind)).map(|kind| kind.kind.clone()));
            // A store that is away says nothing, and is not asked.
            let kinds = if is_ready(part) { part.store.kinds().await } else { Err(Error::Closed) };
            match kinds {
                Ok(kinds) => used.extend(kinds.iter().map(id_of)),
                Err(_) => used.extend(catalog.kinds().map(|kind| id_of(&kind.kind))),
            }
        }
        let mut unused = self.unused.lock();
        let ids: BTreeSet<KindId> = served.iter().map(id_of).collect();
        unused.keep(|id| ids.contains(id));
        unused.due(served.iter().filter(|kind| !used.contains(&id_of(kind))), Instant::now()).cloned()
    }
}

/// Returns whether a kind can have dependents that can be found and deleted. Events are many, and have no owners.
fn can_have_dependents(kind: &ServedKind) -> bool {
    let is_event = kind.kind.name == "Event" && matches!(kind.kind.group.as_str(), "" | "events.k8s.io");
    kind.verbs.list && kind.verbs.delete && !is_event
}

fn is_ready(part: &StorePart) -> bool {
    part.store.status().iter().all(|status| status.availability == Availability::Ready)
}
