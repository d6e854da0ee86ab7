//! The revisions that callers see of a kind that was moved. Pure.
//!
//! The number of the moves is in their upper bits, so that no revision of a former store is taken for one of
//! the store in which the kind lives now.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{Change, Error, Event, Precondition, Resource, Revision, Write};

/// Revisions of a store are below two to this power: 17 million million.
const REVISION_BITS: u32 = 44;
/// A revision that no resource has.
const NEVER: Revision = Revision::ZERO;

/// The number that is added to the revisions of a kind.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct RevisionOffset(u64);

impl RevisionOffset {
    pub(crate) const NONE: Self = Self(0);

    /// Returns the offset of a kind that was moved so often.
    pub(super) fn of(moves: u64) -> Self {
        Self(moves << REVISION_BITS)
    }

    pub(crate) fn shown(self, revision: Revision) -> Revision {
        Revision(revision.0.saturating_add(self.0))
    }

    pub(crate) fn resource(self, resource: Arc<Resource>) -> Arc<Resource> {
        if self == Self::NONE { resource } else { resource.at(self.shown(resource.revision())) }
    }

    pub(crate) fn error(self, error: Error) -> Error {
        match error {
            Error::Conflict { key, current } => {
                Error::Conflict { key, current: current.map(|current| self.shown(current)) }
            }
            Error::AlreadyExists { key, current } => Error::AlreadyExists { key, current: self.shown(current) },
            Error::Expired { oldest } => Error::Expired { oldest: self.shown(oldest) },
            Error::FutureRevision { asked, current } => {
                Error::FutureRevision { asked: self.shown(asked), current: self.shown(current) }
            }
            other => other,
        }
    }

    pub(crate) fn event(self, event: Event) -> Event {
        let Event { kind, resource, previous, revision } = event;
        let previous = previous.map(|previous| self.resource(previous));
        Event { kind, resource: self.resource(resource), previous, revision: self.shown(revision) }
    }

    /// Returns the revision of the store; `None` for one of a former store.
    pub(crate) fn stored(self, shown: Revision) -> Option<Revision> {
        if self == Self::NONE {
            // Some servers count in nanoseconds since 1970.
            return Some(shown);
        }
        (shown.0 >> REVISION_BITS == self.0 >> REVISION_BITS).then(|| Revision(store_revision(shown)))
    }

    pub(crate) fn precondition(self, precondition: &mut Precondition) {
        if let Some(revision) = &mut precondition.revision {
            *revision = self.stored(*revision).unwrap_or(NEVER);
        }
    }

    /// Replaces a revision in a document. Any other text stays: the store refuses it.
    fn text(self, value: &mut Value) {
        if let Some(Ok(revision)) = value.as_str().filter(|text| !text.is_empty()).map(str::parse::<Revision>) {
            *value = json!(self.stored(revision).unwrap_or(NEVER).to_string());
        }
    }

    fn document(self, document: &mut Value) {
        if let Some(value) = document.pointer_mut("/metadata/resourceVersion") {
            self.text(value);
        }
    }

    /// Returns a scale, which shows a revision of its resource, with the revision that callers see.
    pub(crate) fn scale(self, mut scale: Value) -> Value {
        if let Some(value) = scale.pointer_mut("/metadata/resourceVersion")
            && let Some(Ok(revision)) = value.as_str().map(str::parse::<Revision>)
        {
            *value = json!(self.shown(revision).to_string());
        }
        scale
    }

    fn change(self, change: &mut Change) {
        let operations = match change {
            Change::Merge(patch) | Change::Strategic(patch) => return self.document(patch),
            Change::Json(operations) => operations,
        };
        for operation in operations.as_array_mut().into_iter().flatten() {
            let path = operation.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
            let Some(value) = operation.get_mut("value") else { continue };
            match path.as_str() {
                "/metadata/resourceVersion" => self.text(value),
                "/metadata" => value.get_mut("resourceVersion").into_iter().for_each(|value| self.text(value)),
                "" => self.document(value),
                _ => {}
            }
        }
    }

    pub(crate) fn write(self, write: &mut Write) {
        match write {
            Write::Create { document } | Write::Apply { document, .. } | Write::ApplyStatus { document, .. } => {
                self.document(document);
            }
            Write::Update { document, precondition } => {
                self.document(document);
                self.precondition(precondition);
            }
            Write::Patch { change, precondition, .. } => {
                self.change(change);
                self.precondition(precondition);
            }
            Write::PatchStatus { change, .. } => self.change(change),
            Write::UpdateStatus { precondition, .. } | Write::Delete { precondition, .. } => {
                self.precondition(precondition);
            }
        }
    }
}

/// Returns the number that a store gave to a revision that callers saw.
pub(super) fn store_revision(revision: Revision) -> u64 {
    revision.0 & ((1 << REVISION_BITS) - 1)
}
