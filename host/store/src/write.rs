//! A change that somebody wants, as one value, so that it can be recorded, checked and played again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Change, EventType, Key, Resource, Result, Revision, Target, validate};

/// One write to a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Write {
    /// Creates the resource that the document describes, without its `status`.
    Create {
        /// The resource. With `metadata.generateName` and no name, five characters are added.
        document: Value,
    },
    /// Replaces a resource, all but its `status`.
    Update {
        /// The resource. Its `metadata.uid` and `metadata.resourceVersion` are preconditions too.
        document: Value,
        /// What must be true of the resource.
        #[serde(default)]
        precondition: Precondition,
    },
    /// Replaces the `status` of a resource, and nothing else.
    UpdateStatus {
        /// The resource.
        key: Key,
        /// The new status alone; `null` removes it.
        status: Value,
        /// What must be true of the resource.
        #[serde(default)]
        precondition: Precondition,
    },
    /// Changes the `status` of a resource in place, and nothing else.
    PatchStatus {
        /// The resource.
        key: Key,
        /// What to change of the whole document: what it says of anything but `status` is not done, but that the `metadata.uid` and
        /// `metadata.resourceVersion` that it sets are preconditions.
        change: Change,
    },
    /// Sets the fields of a `status` that the document names and leaves the others, as [`Write::Apply`] does for all else. The resource
    /// must be there.
    ApplyStatus {
        /// The resource, as far as the manager cares: of it the `status`, and as preconditions `metadata.uid` and
        /// `metadata.resourceVersion`.
        document: Value,
        /// Who applies.
        manager: String,
        /// Changes fields that other managers own, and takes those from them.
        #[serde(default)]
        force: bool,
    },
    /// Changes a resource in place, all but its `status`.
    Patch {
        /// The resource.
        key: Key,
        /// What to change.
        change: Change,
        /// What must be true of the resource.
        #[serde(default)]
        precondition: Precondition,
    },
    /// Creates a resource, or sets the fields that the document names and leaves the others, all but its `status`. Fields that the manager
    /// named the last time, and that nobody else owns, are taken out.
    Apply {
        /// The resource, as far as the manager cares. No field is `null`.
        document: Value,
        /// Who applies: the owner of the fields that the document names. 1 to 128 bytes that can be printed.
        manager: String,
        /// Changes fields that other managers own, and takes those from them. Without it such a field is an `ApplyConflict`.
        #[serde(default)]
        force: bool,
    },
    /// Deletes a resource, or marks it as being deleted while it has finalizers.
    Delete {
        /// The resource.
        key: Key,
        /// What must be true of the resource.
        #[serde(default)]
        precondition: Precondition,
        /// What happens to the resources that name it as their owner.
        #[serde(default)]
        propagation: Propagation,
    },
}

/// A write, who asks for it, and whether it is to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is to change.
    pub write: Write,
    /// Who owns the fields that the write sets, unless it is an apply, which names its manager itself. 1 to 128 bytes that can be
    /// printed.
    pub manager: String,
    /// Answers what the write would come to, and keeps nothing.
    pub dry_run: bool,
    /// What is done about fields that the schema of the kind does not know, which are never stored.
    pub field_validation: FieldValidation,
}

/// What is done about fields that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FieldValidation {
    /// They are left out.
    #[default]
    Ignore,
    /// They are left out, and [`WriteResponse::unknown`] names them.
    Warn,
    /// The write is refused.
    Strict,
}

impl From<Write> for Request {
    /// Asks for a write in the name of the host.
    fn from(write: Write) -> Self {
        Self { write, manager: "homeostat".to_owned(), dry_run: false, field_validation: FieldValidation::Ignore }
    }
}

/// What must be true of a resource for a write to go through. Otherwise the write answers `Conflict` and changes nothing.
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

/// What happens to the resources that name a deleted one as their owner.
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

/// What a write came to.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteResponse {
    /// The resource as stored; after a deletion its last state, at the revision of the deletion.
    pub resource: Arc<Resource>,
    /// What happened; `None` when nothing changed and no revision was made.
    pub change: Option<EventType>,
    /// The paths of what was left out because the schema of the kind does not know it, where [`FieldValidation::Warn`] asks for them; at most
    /// [`VIOLATIONS_MAX`](crate::schema::VIOLATIONS_MAX).
    pub unknown_fields: Vec<String>,
}

impl Write {
    /// Returns the verb by its name: `create`, `update`, `update-status`, `patch-status`, `apply-status`, `patch`, `apply` or
    /// `delete`.
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

    /// Returns the document, or the part of one, that somebody has written; `None` for a deletion.
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

    /// Returns which resource this write is about.
    ///
    /// # Errors
    /// `Invalid` when the document does not say it, or says it wrongly.
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
