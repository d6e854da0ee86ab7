//! The class of a new claim of a volume, and of a new ingress, that names none: the one that an annotation makes the default.
//!
//! Source: the admission plug-ins `DefaultStorageClass` and `DefaultIngressClass` of Kubernetes.

use std::cmp::Reverse;

use homeostat_store::{Kind, Query, Resource, ResourcePages};
use serde_json::{Value, json};

use crate::new_resource::NewResource;
use crate::{Error, limit_ranges};

/// Kinds whose resources get a class, with their field and annotation for it, and how their classes say that they are the
/// default.
struct ClassedKind {
    kind: Kind,
    class: Kind,
    /// The field of the `spec`.
    field: &'static str,
    /// The annotation that named a class before there was a field.
    former: &'static str,
    defaults: &'static [&'static str],
}

impl ClassedKind {
    fn all() -> [Self; 2] {
        [
            Self {
                kind: limit_ranges::claims(),
                class: Kind::new("storage.k8s.io", "v1", "StorageClass"),
                field: "storageClassName",
                former: "volume.beta.kubernetes.io/storage-class",
                defaults: &[
                    "storageclass.kubernetes.io/is-default-class",
                    "storageclass.beta.kubernetes.io/is-default-class",
                ],
            },
            Self {
                kind: Kind::new("networking.k8s.io", "v1", "Ingress"),
                class: Kind::new("networking.k8s.io", "v1", "IngressClass"),
                field: "ingressClassName",
                former: "kubernetes.io/ingress.class",
                defaults: &["ingressclass.kubernetes.io/is-default-class"],
            },
        ]
    }
}

/// Returns whether new resources of a kind get a class.
pub(crate) fn is_classed(kind: &Kind) -> bool {
    ClassedKind::all().iter().any(|classed| classed.kind.same_type(kind))
}

/// Gives a new resource the default class, unless it names one. Of several, it is the newest one.
///
/// # Errors
/// [`Error::Store`].
pub(crate) async fn admit(new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
    let Some(classed) = ClassedKind::all().into_iter().find(|classed| classed.kind.same_type(&new.target.kind)) else {
        return Ok(());
    };
    let names_class =
        !document["spec"][classed.field].is_null() || !document["metadata"]["annotations"][classed.former].is_null();
    if names_class || !new.kinds.has_built_in_schema(&classed.class) {
        return Ok(());
    }
    let mut pages = ResourcePages::new(new.store, Query::all(classed.class.clone()));
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
