//! Compares a store with its acknowledged writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Event, EventType, Query, Resource, Revision, Scope, Store};

use crate::document::{self, State};
use crate::findings::Findings;
use crate::ledger::Ledger;

/// How long a watch may take to deliver an existing event.
const EVENT_SECONDS_MAX: u64 = 30;

/// The result of checking a store.
#[derive(Debug, Default)]
pub(crate) struct StoreCheck {
    pub(crate) findings: Findings,
    /// The revision of the store.
    revision: u64,
    /// The existing documents, with their revisions.
    found: BTreeMap<String, (u64, State)>,
    /// The same documents, as resources.
    resources: BTreeMap<String, Arc<Resource>>,
    /// Documents whose last watched event was a deletion.
    deleted: BTreeMap<String, u64>,
    /// By task: revisions that were not acknowledged. At most one write was pending.
    surplus: BTreeMap<u64, BTreeSet<u64>>,
}

impl StoreCheck {
    /// Reads everything in a store, and watches its changes since the last check. Watches once more from
    /// `resumed`, if given.
    pub(crate) async fn run(store: &dyn Store, ledger: &Ledger, resumed: Option<u64>) -> Self {
        let mut look = Self {
            revision: store.revision(&Scope::Everything).await.expect("the store is open").0,
            ..Self::default()
        };
        let page = match store.list(&Query::all(document::kind())).await {
            Ok(page) => page,
            Err(error) => {
                look.findings.lost(format!("the documents cannot be listed: {error}"));
                return look;
            }
        };
        look.documents(page.items);
        look.owners(store).await;
        let events = look.watch(store, ledger.looked).await;
        look.changes(&events, ledger);
        if let Some(from) = resumed {
            let again = look.watch(store, from).await;
            if !events.ends_with(&again) {
                look.findings
                    .gap(format!("a watch from {from} delivers something else than one from {}", ledger.looked));
            }
        }
        look.compare(ledger, page.revision.0);
        look
    }

    /// Makes the found state the expected state of the next check.
    pub(crate) fn accept(self, ledger: &mut Ledger) -> Findings {
        ledger.reset(self.revision, self.found);
        self.findings
    }

    /// Each document is the result of one whole write, and its status of another.
    fn documents(&mut self, items: Vec<Arc<Resource>>) {
        let mut revisions = BTreeSet::new();
        for resource in items {
            let name = resource.key().name().to_owned();
            match document::state(&resource) {
                Ok(state) => drop(self.found.insert(name.clone(), (resource.revision().0, state))),
                Err(half) => self.findings.half(half),
            }
            if !revisions.insert(resource.revision()) {
                self.findings.half(format!("two documents are at revision {}", resource.revision()));
            }
            self.resources.insert(name, resource);
        }
    }

    /// The index of owners lists exactly the documents that name an owner.
    async fn owners(&mut self, store: &dyn Store) {
        for number in 0..document::OWNERS {
            let uid = document::owner_uid(number);
            let named: Vec<_> = match store.dependents(&uid).await {
                Ok(named) => named.iter().map(|resource| resource.key().name().to_owned()).collect(),
                Err(error) => {
                    self.findings.half(format!("the index of owners cannot be read: {error}"));
                    continue;
                }
            };
            let names = |resource: &Resource| resource.owners().iter().any(|owner| owner.uid == uid);
            let wanted: Vec<_> =
                self.resources.iter().filter(|(_, resource)| names(resource)).map(|(name, _)| name.clone()).collect();
            if named != wanted {
                self.findings.half(format!("the index says that {uid} owns {named:?}, and not {wanted:?}"));
            }
        }
    }

    /// A watch delivers every change once and in order.
    async fn watch(&mut self, store: &dyn Store, from: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let mut watch = match store.watch(Scope::Everything, Revision(from)).await {
            Ok(watch) => watch,
            Err(error) => {
                self.findings.gap(format!("no watch from revision {from}: {error}"));
                return events;
            }
        };
        for revision in from + 1..=self.revision {
            match tokio::time::timeout(Duration::from_secs(EVENT_SECONDS_MAX), watch.next()).await {
                Ok(Ok(event)) if event.revision.0 == revision && event.resource.revision().0 == revision => {
                    events.push(event);
                }
                Ok(Ok(event)) => {
                    self.findings.gap(format!("revision {} came in place of {revision}", event.revision));
                    break;
                }
                Ok(Err(error)) => {
                    self.findings.gap(format!("revision {revision}: {error}"));
                    break;
                }
                Err(_) => {
                    self.findings.gap(format!("revision {revision} never came"));
                    break;
                }
            }
        }
        events
    }

    /// Each change matches its acknowledgement, and together the changes lead to the listed state.
    fn changes(&mut self, events: &[Event], ledger: &Ledger) {
        let mut last: BTreeMap<String, &Event> = BTreeMap::new();
        for event in events {
            self.change(event, ledger, last.get(event.resource.key().name()).copied());
            last.insert(event.resource.key().name().to_owned(), event);
        }
        for (name, event) in &last {
            let there = self.resources.get(name);
            let agree = match event.kind {
                EventType::Deleted => there.is_none(),
                EventType::Added | EventType::Modified => there == Some(&event.resource),
            };
            // A failed commit may be in the file before its error is returned.
            let is_later = there.is_none_or(|resource| resource.revision().0 > self.revision);
            if !agree && !is_later {
                self.findings.half(format!("{name} and its last row of the log, {}, disagree", event.revision));
            }
            if event.kind == EventType::Deleted {
                self.deleted.insert(name.clone(), event.revision.0);
            }
        }
        for (name, (revision, _)) in &self.found {
            if (ledger.looked + 1..=self.revision).contains(revision) && !last.contains_key(name) {
                self.findings.gap(format!("{name} changed at revision {revision}, which the watch left out"));
            }
        }
    }

    fn change(&mut self, event: &Event, ledger: &Ledger, before: Option<&Event>) {
        let (name, revision) = (event.resource.key().name(), event.revision.0);
        let state = match document::state(&event.resource) {
            Ok(state) => (event.kind != EventType::Deleted).then_some(state),
            Err(half) => return self.findings.half(format!("in the log: {half}")),
        };
        let was = before.filter(|before| before.kind != EventType::Deleted).map(|before| &before.resource);
        if before.is_some() && was != event.previous.as_ref() {
            self.findings.half(format!("the log says at {revision} that {name} was something else before"));
        }
        if (event.kind == EventType::Added) != event.previous.is_none() {
            self.findings.half(format!("the log says at {revision} that {name} was added, or not, wrongly"));
        }
        match ledger.revisions.get(&revision) {
            Some(acknowledged) if *acknowledged != (name.to_owned(), state) => {
                self.findings.half(format!(
                    "revision {revision} was acknowledged as {acknowledged:?}, and is {state:?} of {name}"
                ));
            }
            None if revision > ledger.looked => self.surplus(name, revision),
            _ => {}
        }
    }

    /// Each acknowledged write, or a later one of the same document, is in the store.
    fn compare(&mut self, ledger: &Ledger, listed: u64) {
        if self.revision < ledger.revision() {
            self.findings.lost(format!("the store is at {}, and was at {}", self.revision, ledger.revision()));
        }
        for (name, (revision, state)) in &ledger.documents {
            match (self.found.get(name).copied(), state) {
                (Some((there, found)), _) if there == *revision => {
                    if Some(found) != *state {
                        self.findings.half(format!("{name} at {revision} should be {state:?}, and is {found:?}"));
                    }
                }
                (Some((there, found)), _) if there > *revision => self.later(ledger, name, there, found),
                (Some((there, _)), _) => {
                    self.findings.lost(format!("{name} is at {there}, and {revision} was acknowledged"));
                }
                (None, None) => {}
                (None, Some(_)) => match self.deleted.get(name).copied() {
                    Some(there) if there > *revision => self.surplus(name, there),
                    _ if listed > self.revision => self.surplus(name, listed),
                    _ => self.findings.lost(format!("{name} at {revision}")),
                },
            }
        }
        let found: Vec<_> = self.found.iter().map(|(name, found)| (name.clone(), *found)).collect();
        for (name, (there, state)) in found {
            if !ledger.documents.contains_key(&name) {
                self.later(ledger, &name, there, state);
            }
        }
        for (task, revisions) in &self.surplus {
            if revisions.len() > 1 {
                self.findings.half(format!("task {task} had one write under way, and {revisions:?} are there"));
            }
        }
    }

    /// A document that is newer than its last acknowledgement comes from the pending write of its task.
    fn later(&mut self, ledger: &Ledger, name: &str, revision: u64, state: State) {
        let under_way = document::task(name).map(|task| ledger.pending_counter(task));
        if Some(state.last()) != under_way {
            self.findings.half(format!("{name} at {revision} is {state:?}, and {under_way:?} was under way"));
        }
        self.surplus(name, revision);
    }

    fn surplus(&mut self, name: &str, revision: u64) {
        match document::task(name) {
            Some(task) => drop(self.surplus.entry(task).or_default().insert(revision)),
            None => self.findings.half(format!("{name} belongs to no task")),
        }
    }
}
