//! The expected content of a store: a log of changes, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use homeostat_store::{Error, Event, EventType, Resource, Result, Revision, WriteResponse};

use super::traffic::{Id, Traffic, Verb};

/// The known facts about a resource, without its document.
#[derive(Debug, Clone)]
struct Entry {
    spec: u64,
    status: Option<u64>,
    held: bool,
    deleting: bool,
    resource: Arc<Resource>,
}

/// All changes of a store, the first one at revision 1.
#[derive(Debug, Default)]
pub(super) struct Log {
    changes: Vec<(Id, Event)>,
    times: Vec<SystemTime>,
    now: BTreeMap<Id, Entry>,
}

/// The expected result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedOutcome {
    Change(EventType),
    Nothing,
    NotFound,
    AlreadyExists,
    Conflict,
}

impl Log {
    pub(super) fn newest(&self) -> Revision {
        Revision(self.changes.len() as u64)
    }

    /// Returns the revision of the store at a time.
    pub(super) fn reached(&self, at: SystemTime) -> Revision {
        Revision(self.times.iter().filter(|time| **time <= at).count() as u64)
    }

    /// Returns the event that a watch must return next.
    pub(super) fn next(&self, kind: Option<&str>, after: Revision) -> Option<&Event> {
        let later = self.changes.iter().skip(usize::try_from(after.0).unwrap());
        later.filter(|(id, _)| kind.is_none_or(|kind| id.kind == kind)).map(|(_, event)| event).next()
    }

    /// Returns the expected list of a kind at a revision.
    pub(super) fn state(&self, kind: &str, at: Revision) -> Vec<Arc<Resource>> {
        let mut state = BTreeMap::new();
        for (id, event) in self.changes.iter().take(usize::try_from(at.0).unwrap()).filter(|(id, _)| id.kind == kind) {
            match event.kind {
                EventType::Deleted => state.remove(id),
                EventType::Added | EventType::Modified => state.insert(*id, Arc::clone(&event.resource)),
            };
        }
        state.into_values().collect()
    }

    /// Checks the response to a write, and adds the change to the log.
    pub(super) fn take(&mut self, traffic: &Traffic, answer: Result<WriteResponse>, now: SystemTime) {
        let expected = self.expected(traffic);
        let written = match (expected, answer) {
            (ExpectedOutcome::Change(kind), Ok(written)) if written.change == Some(kind) => written,
            (ExpectedOutcome::Nothing, Ok(WriteResponse { change: None, .. }))
            | (ExpectedOutcome::NotFound, Err(Error::NotFound { .. }))
            | (ExpectedOutcome::AlreadyExists, Err(Error::AlreadyExists { .. }))
            | (ExpectedOutcome::Conflict, Err(Error::Conflict { .. })) => return,
            (expected, answer) => panic!("{traffic:?} should have come to {expected:?}, and not to {answer:?}"),
        };
        let revision = self.newest().next();
        // A dry run answers with the resource's revision, which a resource that it would create has not.
        let in_answer = match self.now.get(&traffic.id) {
            _ if !traffic.dry_run => revision,
            Some(entry) => entry.resource.revision(),
            None => Revision(0),
        };
        assert_eq!(written.resource.revision(), in_answer, "{traffic:?}");
        assert_eq!(written.resource.text(), written.resource.document().to_string(), "{traffic:?}");
        if !traffic.dry_run {
            self.append(traffic, written, revision);
            self.times.push(now);
        }
    }

    fn append(
        &mut self,
        traffic: &Traffic,
        WriteResponse { resource, change, previous: _, unknown_fields: _ }: WriteResponse,
        revision: Revision,
    ) {
        let old = self.now.remove(&traffic.id);
        let previous = old.as_ref().map(|entry| Arc::clone(&entry.resource));
        let kind = change.expect("it was checked");
        if kind != EventType::Deleted {
            let fresh = Entry { spec: 0, status: None, held: false, deleting: false, resource: Arc::clone(&resource) };
            let mut entry = Entry { resource: Arc::clone(&resource), ..old.unwrap_or(fresh) };
            match traffic.verb {
                Verb::Create { spec, held } => (entry.spec, entry.held) = (spec, held),
                Verb::Spec(spec) => entry.spec = spec,
                Verb::Status(status) => entry.status = Some(status),
                Verb::Hold => entry.held = true,
                Verb::Release => entry.held = false,
                Verb::Delete => entry.deleting = true,
            }
            self.now.insert(traffic.id, entry);
        }
        self.changes.push((traffic.id, Event { kind, resource, previous, revision }));
    }

    fn expected(&self, traffic: &Traffic) -> ExpectedOutcome {
        let Some(entry) = self.now.get(&traffic.id) else {
            let creates = matches!(traffic.verb, Verb::Create { .. });
            return if creates { ExpectedOutcome::Change(EventType::Added) } else { ExpectedOutcome::NotFound };
        };
        if traffic.stale && !matches!(traffic.verb, Verb::Create { .. }) {
            return ExpectedOutcome::Conflict;
        }
        let unless =
            |same: bool| if same { ExpectedOutcome::Nothing } else { ExpectedOutcome::Change(EventType::Modified) };
        match traffic.verb {
            Verb::Create { .. } => ExpectedOutcome::AlreadyExists,
            Verb::Spec(spec) => unless(spec == entry.spec),
            Verb::Status(status) => unless(Some(status) == entry.status),
            Verb::Hold => unless(entry.held),
            Verb::Release if entry.deleting => ExpectedOutcome::Change(EventType::Deleted),
            Verb::Release => unless(!entry.held),
            Verb::Delete if entry.held => unless(entry.deleting),
            Verb::Delete => ExpectedOutcome::Change(EventType::Deleted),
        }
    }
}
