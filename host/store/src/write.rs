//! A write request as one value, so that it can be recorded, checked and replayed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Change, EventType, Fence, Key, Resource, Result, Revision, Subresource, Target, validate};

/// One write to a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Write {
    /// Creates the resource that the document describes, without its `status`.
    Create {
        /// The resource. With `metadata.generateName` and no name, five characters are added.
        document: Value,
    },
    /// Replaces a resource, except its `status`.
    Update {
        /// The resource. Its `metadata.uid` and `metadata.resourceVersion` are preconditions, too.
        document: Value,
        /// The precondition of the write.
        #[serde(default)]
        precondition: Precondition,
    },
    /// Replaces the `status` of a resource, and nothing else.
    UpdateStatus {
        /// The resource.
        key: Key,
        /// The new status alone; `null` removes it.
        status: Value,
        /// The precondition of the write.
        #[serde(default)]
        precondition: Precondition,
    },
    /// Changes the `status` of a resource in place. Guests cannot write so.
    PatchStatus {
        /// The resource.
        key: Key,
        /// The change to the whole document. Only its changes to `status` take effect, and for a built-in kind those of
        /// the metadata that its rules name. The `metadata.uid` and `metadata.resourceVersion` that it sets are
        /// preconditions.
        change: Change,
    },
    /// Sets the fields of a `status` that the document names and leaves the others, as [`Write::Apply`] does
    /// outside `status`. The resource must exist.
    ApplyStatus {
        /// The resource, with the fields that the manager sets in its `status`. `metadata.uid` and
        /// `metadata.resourceVersion` are preconditions.
        document: Value,
        /// The manager that applies.
        manager: String,
        /// Takes ownership of fields that other managers own.
        #[serde(default)]
        force: bool,
    },
    /// Changes a resource in place, except its `status`.
    Patch {
        /// The resource.
        key: Key,
        /// The change.
        change: Change,
        /// The precondition of the write.
        #[serde(default)]
        precondition: Precondition,
    },
    /// Creates a resource, or sets the fields that the document names and leaves the others, except `status`.
    /// Removes the fields that the manager named in its previous apply, no longer names, and owns alone.
    Apply {
        /// The resource, with the fields that the manager sets. No field is `null`.
        document: Value,
        /// The manager that applies: the owner of the fields that the document names. 1 to 128 bytes of
        /// printable text.
        manager: String,
        /// Takes ownership of fields that other managers own. Without it such a field is an `ApplyConflict`.
        #[serde(default)]
        force: bool,
    },
    /// Deletes a resource, or marks it as being deleted while it has finalizers.
    Delete {
        /// The resource.
        key: Key,
        /// The precondition of the write.
        #[serde(default)]
        precondition: Precondition,
        /// The effect on the resources that name it as their owner.
        #[serde(default)]
        propagation: Propagation,
        /// The grace period in seconds; `None` for that of the resource. Of the built-in kinds only pods have one. It
        /// shortens that of a pod that is being deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_seconds: Option<u32>,
    },
}

/// A write, its manager, and whether to store the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The write.
    pub write: Write,
    /// The subresource that the client has written, of a kind whose rules are in this store: nothing else changes. `None` for
    /// the resource itself; the writes of a status say so themselves.
    pub subresource: Option<Subresource>,
    /// The manager that owns the fields that the write sets. An apply names its manager itself. 1 to 128
    /// bytes of printable text.
    pub manager: String,
    /// Returns the result of the write without storing it.
    pub dry_run: bool,
    /// The handling of fields that the schema of the kind does not know. They are never stored.
    pub field_validation: FieldValidation,
    /// The write is a step of moving a kind between two stores. A creation stores the document as it is, with the
    /// metadata that the host owns, also over a resource with the same uid. A store that gives uids of its own marks the
    /// copy instead ([`crate::copy_mark`]). A deletion removes the resource in spite of its finalizers, and leaves its
    /// dependents. The store refuses other writes. Never set for a client.
    pub is_move: bool,
    /// The write was decided before, in another version of its kind, and converted. A creation or an update stores its
    /// whole document, with the metadata that the host owns and with its status, except for `resourceVersion`. An update
    /// has the revision of the resource that the decision relies on as its precondition. The store refuses other writes.
    /// Never set for a client.
    pub is_planned: bool,
    /// The term of the lease under which the write was decided; `None` for a write of no controller. A store
    /// that several hosts share refuses the write after the term.
    pub fence: Option<Fence>,
}

impl Request {
    /// Returns the subresource that the request writes; `None` for the resource itself.
    pub fn written_part(&self) -> Option<Subresource> {
        if self.write.is_of_status() { Some(Subresource::Status) } else { self.subresource }
    }
}

/// The handling of unknown fields: Kubernetes' `fieldValidation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FieldValidation {
    /// Drops unknown fields.
    #[default]
    Ignore,
    /// Drops unknown fields, and lists them in [`WriteResponse::unknown_fields`].
    Warn,
    /// Refuses the write.
    Strict,
}

impl From<Write> for Request {
    /// Requests a write in the name of the host.
    fn from(write: Write) -> Self {
        Self {
            write,
            subresource: None,
            manager: "homeostat".to_owned(),
            dry_run: false,
            field_validation: FieldValidation::Ignore,
            is_move: false,
            is_planned: false,
            fence: None,
        }
    }
}

/// Conditions on the current resource. If one does not hold, the write fails with `Conflict` and changes
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precondition {
    /// The resource has this uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource has not changed since this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

/// The effect of a deletion on the resources that name the deleted one as their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Propagation {
    /// They are deleted after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without the owner.
    Orphan,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteResponse {
    /// The resource as stored; after a deletion its last state, at the revision of the deletion.
    pub resource: Arc<Resource>,
    /// The event of the change; `None` when the write changed nothing and made no revision.
    pub change: Option<EventType>,
    /// The resource before the write, in the version, with the revision and with the owners that its store has for it. `None` for
    /// a created one, and where the store does not tell it.
    pub previous: Option<Arc<Resource>>,
    /// The paths of the dropped fields that the schema of the kind does not know, if the request has
    /// [`FieldValidation::Warn`]; at most [`VIOLATIONS_MAX`](crate::schema::VIOLATIONS_MAX).
    pub unknown_fields: Vec<String>,
}

impl WriteResponse {
    /// Returns the result of a write that found a resource as it should be.
    pub fn unchanged(resource: Arc<Resource>) -> Self {
        Self { previous: Some(Arc::clone(&resource)), resource, change: None, unknown_fields: Vec::new() }
    }
}

impl Write {
    /// Returns the name of the verb: `create`, `update`, `update-status`, `patch-status`, `apply-status`,
    /// `patch`, `apply` or `delete`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::UpdateStatus { .. } => "update-status",
            Self::PatchStatus { .. } => "patch-status",
            Self::ApplyStatus { .. } => "apply-status",
            Self::Patch { .. } => "patch",
            Self::Apply { .. } => "apply",
            Self::Delete { .. } => "delete",
        }
    }

    /// Makes the write fail with `Conflict` unless the resource has this revision. The revision that the write names itself
    /// stays a condition. A creation, a deletion and a write of a status stay as they are.
    pub fn require(&mut self, revision: Revision) {
        match self {
            Self::Update { precondition, .. } | Self::Patch { precondition, .. } => {
                precondition.revision.get_or_insert(revision);
            }
            Self::Apply { document, .. } => {
                if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.entry("resourceVersion").or_insert_with(|| revision.to_string().into());
                }
            }
            _ => {}
        }
    }

    /// Returns whether it writes the status of a resource, and nothing else.
    pub fn is_of_status(&self) -> bool {
        matches!(self, Self::UpdateStatus { .. } | Self::PatchStatus { .. } | Self::ApplyStatus { .. })
    }

    /// Returns the client's document, or part of one; `None` for a deletion.
    pub(crate) fn value_mut(&mut self) -> Option<&mut Value> {
        match self {
            Self::Create { document }
            | Self::Update { document, .. }
            | Self::Apply { document, .. }
            | Self::ApplyStatus { document, .. } => Some(document),
            Self::UpdateStatus { status, .. } => Some(status),
            Self::Patch { change, .. } | Self::PatchStatus { change, .. } => match change {
                Change::Merge(patch) | Change::Strategic(patch) | Change::Json(patch) => Some(patch),
            },
            Self::Delete { .. } => None,
        }
    }

    /// Returns the resource that this write is about.
    ///
    /// # Errors
    /// `Invalid` when the document does not name it, or names it wrongly.
    pub fn target(&self) -> Result<Target> {
        match self {
            Self::Create { document } => validate::target(document, true),
            Self::Update { document, .. } | Self::Apply { document, .. } | Self::ApplyStatus { document, .. } => {
                validate::target(document, false)
            }
            Self::UpdateStatus { key, .. }
            | Self::PatchStatus { key, .. }
            | Self::Patch { key, .. }
            | Self::Delete { key, .. } => Ok(Target {
                kind: key.kind().clone(),
                namespace: key.namespace().to_owned(),
                name: Some(key.name().to_owned()),
            }),
        }
    }
}
