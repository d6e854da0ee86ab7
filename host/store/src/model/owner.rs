//! The owners of a resource, in its own store and in others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Kind;

/// The annotation that names the owner in another store, as JSON.
pub const OWNER_ANNOTATION: &str = "homeostat.dev/owner";

/// The label that has the uid of the owner in another store.
pub const OWNER_LABEL: &str = "homeostat.dev/owner-uid";

/// The label or annotation of Kumori that has the name of an owner, or its namespace and name: `a/b`.
pub const OWNER_KEY: &str = "kumori/ownerkey";

/// The label or annotation of Kumori that has the kind of an owner: its name, plural or singular.
pub const OWNER_KIND: &str = "kumori/ownerkind";

/// A reference from a resource to one of its owners. The owner is in the same namespace, or cluster-scoped, unless
/// [`far`](OwnerReference::far) names another namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// Kind of the owner.
    pub kind: Kind,
    /// Name of the owner.
    pub name: String,
    /// The uid of the owner: a new resource of the same name is not the owner. Empty for an owner that is known by
    /// name alone ([`OWNER_KEY`]).
    pub uid: String,
    /// Whether this is the one owner that controls the resource.
    pub controller: bool,
    /// Where the owner lives, if it does not live in the store of the resource.
    pub far: Option<Box<FarOwner>>,
}

/// Where an owner lives that is in another store than its dependent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FarOwner {
    /// The name of its store.
    pub store: Arc<str>,
    /// The id of the content of that store when the owner was named ([`StoreStatus::id`](crate::StoreStatus::id));
    /// `None` if it was not known. Other content says nothing about the owner.
    pub content: Option<String>,
    /// Its namespace; `None` for that of the dependent, or for a cluster-scoped owner.
    pub namespace: Option<String>,
}

/// The value of [`OWNER_ANNOTATION`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerNote {
    pub(crate) store: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<String>,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controller: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block_owner_deletion: Option<bool>,
}

impl OwnerNote {
    /// Parses the annotation of a document; `None` if it has none, or a malformed one.
    pub(crate) fn of(metadata: &Value) -> Option<Self> {
        serde_json::from_str(metadata.get("annotations")?.get(OWNER_ANNOTATION)?.as_str()?).ok()
    }

    /// Returns the reference that a reader sees.
    pub(crate) fn reference(&self) -> Value {
        let Self { store: _, content: _, api_version, kind, namespace, name, uid, controller, block_owner_deletion } =
            self;
        let mut reference = json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid });
        let optional = [
            ("namespace", namespace.as_deref().map(Value::from)),
            ("controller", controller.map(Value::from)),
            ("blockOwnerDeletion", block_owner_deletion.map(Value::from)),
        ];
        for (field, value) in optional {
            if let Some(value) = value {
                reference[field] = value;
            }
        }
        reference
    }
}

/// Returns whether a stored document names its owner as Kumori does.
pub(super) fn has_owner_key(metadata: &Value) -> bool {
    ["annotations", "labels"].iter().any(|map| metadata.get(map).and_then(|map| map.get(OWNER_KEY)).is_some())
}

/// Returns the owners of a document. Malformed references are omitted.
pub(super) fn owners(metadata: &Value) -> Vec<OwnerReference> {
    let references = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut owners: Vec<OwnerReference> = references.into_iter().flatten().filter_map(owner).collect();
    if let Some(far) = noted(metadata) {
        match owners.iter_mut().find(|owner| owner.uid == far.uid) {
            Some(joined) => joined.far = far.far,
            None => owners.push(far),
        }
    }
    owners
}

fn owner(reference: &Value) -> Option<OwnerReference> {
    Some(OwnerReference {
        kind: Kind::parse(text(reference, "apiVersion"), text(reference, "kind")).ok()?,
        name: reference.get("name")?.as_str()?.to_owned(),
        uid: reference.get("uid")?.as_str()?.to_owned(),
        controller: reference.get("controller").and_then(Value::as_bool).unwrap_or(false),
        far: None,
    })
}

/// Returns the owner that a stored document names in its annotation.
fn noted(metadata: &Value) -> Option<OwnerReference> {
    let OwnerNote { store, content, api_version, kind, namespace, name, uid, controller, block_owner_deletion: _ } =
        OwnerNote::of(metadata)?;
    let far = FarOwner { store: store.into(), content, namespace };
    let kind = Kind::parse(&api_version, &kind).ok()?;
    Some(OwnerReference { kind, name, uid, controller: controller.unwrap_or(false), far: Some(Box::new(far)) })
}

/// Returns a text field; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}
