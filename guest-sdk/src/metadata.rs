//! The metadata of a document, which is the same for every kind.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

/// `metadata` of a resource. Unknown fields are preserved in `other`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// At most 253 bytes: a DNS subdomain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A prefix to which the host adds five characters if `name` is empty at creation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Empty for kinds that live outside of namespaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels, by which selectors choose resources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, which no selector uses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Unique for each creation, even when a name is reused. Set by the store.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision that was read. Opaque. Set by the store.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Grows with each change outside `metadata` and `status`; 0 before the resource is stored. Set by the
    /// store.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// The creation time. Set by the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The time when its deletion began. Set by the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// The owners of this resource. When all of them are gone, it is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Finalizers, which delay its deletion until they are removed. See [`finalizer()`](crate::finalizer()).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// All other fields of the metadata.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Metadata {
    /// Returns whether the resource is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the owner that manages this resource, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// Returns the fields that a controller may claim with `apply`: names, labels, annotations, owners and
    /// finalizers.
    pub(crate) fn to_apply(&self) -> Self {
        Self {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            owner_references: self.owner_references.clone(),
            finalizers: self.finalizers.clone(),
            ..Self::default()
        }
    }
}

/// A reference to an owner of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// `group/version` of the owner.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name. The owner lives in the namespace of the owned resource, or is cluster-scoped, unless
    /// `namespace` says otherwise.
    pub name: String,
    /// The owner's namespace, if it is not that of the owned resource. Only an owner that lives in another store may
    /// be in another namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The owner's uid.
    pub uid: String,
    /// Whether this owner manages the resource. At most one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits until this resource is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
