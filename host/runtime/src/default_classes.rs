//! The class of a new claim of a volume, and of a new ingress, that names none: the one that an annotation makes the default.
//!
//! Source: the admission plug-ins `DefaultStorageClass` and `DefaultIngressClass` of Kubernetes.

use std::cmp::Reverse;

use homeostat_store::{Kind, Query, Resource, ResourcePages};
use serde_json::{Value, json};

use crate::Error;
use crate::new_resource::NewResource;

/// Kinds whose resources get a class, with their field and annotation for it, and how their classes say that they are the
/// default.
struct ClassedKind {
    group: &'static str,
    name: &'static str,
    /// The group and the name of the kind of its classes.
    class: (&'static str, &'static str),
    /// The field of the `spec`.
    field: &'static str,
    /// The annotation that named a class before there was a field.
    former: &'static str,
    defaults: &'static [&'static str],
}

const CLASSED: [ClassedKind; 2] = [
    ClassedKind {
        group: "",
        name: "PersistentVolumeClaim",
        class: ("storage.k8s.io", "StorageClass"),
        field: "storageClassName",
        former: "volume.beta.kubernetes.io/storage-class",
        defaults: &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
    },
    ClassedKind {
        group: "networking.k8s.io",
        name: "Ingress",
        class: ("networking.k8s.io", "IngressClass"),
        field: "ingressClassName",
        former: "kubernetes.io/ingress.class",
        defaults: &["ingressclass.kubernetes.io/is-default-class"],
    },
];

/// Returns how new resources of a kind get a class, if they do.
fn classed(kind: &Kind) -> Option<&'static ClassedKind> {
    CLASSED.iter().find(|classed| kind.group == classed.group && kind.name == classed.name)
}

/// Returns whether new resources of a kind get a class.
pub(crate) fn is_classed(kind: &Kind) -> bool {
    classed(kind).is_some()
}

/// Gives a new resource the default class, unless it names one. Of several, it is the newest one.
///
/// # Errors
/// [`Error::Store`].
pub(crate) async fn admit(new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
    let Some(classed) = classed(&new.target.kind) else { return Ok(()) };
    let class = Kind::new(classed.class.0, "v1", classed.class.1);
    let names_class =
        !document["spec"][classed.field].is_null() || !document["metadata"]["annotations"][classed.former].is_null();
    if names_class || !new.kinds.has_built_in_schema(&class) {
        return Ok(());
    }
    let mut pages = ResourcePages::new(new.store, Query::all(class));
    let mut default = None;
    while let Some(page) = pages.next_page().await? {
        let classes = page.iter().filter(|class| is_default(class, classed.defaults));
        default = classes.map(|class| age_and_name(class)).chain(default).min();
    }
    let (Some((_, name)), Some(fields)) = (default, document.as_object_mut()) else { return Ok(()) };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(classed.field.to_owned(), name.into());
    }
    Ok(())
}

fn is_default(class: &Resource, annotations: &[&str]) -> bool {
    annotations.iter().any(|name| class.document()["metadata"]["annotations"][*name] == "true")
}

/// The order of classes: the newest first, and of one second the first by its name.
fn age_and_name(class: &Resource) -> (Reverse<String>, String) {
    let created = class.document()["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    (Reverse(created.to_owned()), class.key().name().to_owned())
}

#[cfg(test)]
mod tests;
