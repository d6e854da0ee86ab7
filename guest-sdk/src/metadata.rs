//! The part of a document that is the same for every kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

/// `metadata` of a resource. Fields that it does not name are kept in `other`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// At most 253 bytes: a DNS subdomain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A prefix to which the host adds five characters, when `name` is empty at creation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Empty for kinds that live outside of namespaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Words to select by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Notes that nothing selects by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Differs for every creation, also when a name is used again. The store's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision that was read. Opaque. The store's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Grows when all but metadata and status changes; 0 before the resource is stored. The store's.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// When it was created. The store's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Since when it is being deleted. The store's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Whose part this resource is. When all of them are gone, it is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// What has to be done before it may go. See [`finalizer()`](crate::finalizer()).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// All else that the document has here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Metadata {
    /// Whether the resource is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that manages this resource, if one does.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// What a controller may claim with `apply`: names, labels, annotations, owners and finalizers.
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

/// Names an owner of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// `group/version` of the owner.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name; it lives in the namespace of what it owns, or in none.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether this owner manages the resource. At most one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner, deleted in the foreground, waits for this resource to be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
