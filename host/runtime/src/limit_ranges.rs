//! The limit ranges of a namespace: the amounts that they give to new pods, and the bounds of new pods and claims of volumes,
//! and of pods that are resized.
//!
//! Source: the admission plug-in `LimitRanger` of Kubernetes.

mod bounds;

use std::sync::Arc;

use homeostat_store::{Kind, Resource};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::amounts::{Amounts, of_pod};
use crate::listing::of_namespace;
use crate::new_resource::NewResource;
use bounds::Bounds;

/// The annotation that says which amounts a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The lists of containers of a pod, with the words of the annotation.
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// Gives a new pod the default amounts of its namespace, and checks the amounts of a new pod or claim. Resources of other
/// kinds stay as they are.
///
/// # Errors
/// [`Error::Forbidden`] for an amount that a range forbids; [`Error::Store`].
pub(crate) async fn admit(new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
    let is_pod = new.is_pod;
    let is_limited = is_pod || new.target.kind.same_type(&claims());
    if !is_limited || !new.kinds.has_built_in_schema(&core("LimitRange")) {
        return Ok(());
    }
    let ranges = of_namespace(new.store, &core("LimitRange"), &new.target.namespace).await?;
    if is_pod {
        ranges.iter().for_each(|range| set_defaults(document, limits(range)));
    }
    check(new, &ranges, document)
}

/// Checks the amounts of a pod that is resized. `resized` is the pod after it.
///
/// # Errors
/// [`Error::Forbidden`] for an amount that a range forbids; [`Error::Store`].
pub(crate) async fn admit_resize(pod: NewResource<'_>, resized: &Resource) -> Result<(), Error> {
    if resized.is_deleting() || !pod.kinds.has_built_in_schema(&core("LimitRange")) {
        return Ok(());
    }
    let ranges = of_namespace(pod.store, &core("LimitRange"), &pod.target.namespace).await?;
    check(pod, &ranges, resized.document())
}

/// Refuses a pod or a claim with an amount that a range forbids.
fn check(new: NewResource<'_>, ranges: &[Arc<Resource>], document: &Value) -> Result<(), Error> {
    let limits = ranges.iter().flat_map(|range| limits(range));
    let faults: Vec<String> = limits.flat_map(|limit| faults_of(limit, document, new.is_pod)).collect();
    match faults.as_slice() {
        [] => Ok(()),
        [fault] => Err(new.refused(fault)),
        faults => Err(new.refused(&format!("[{}]", faults.join(", ")))),
    }
}

fn limits(range: &Resource) -> &[Value] {
    items(&range.document()["spec"]["limits"])
}

/// Returns the kind of claims of volumes.
pub(crate) fn claims() -> Kind {
    core("PersistentVolumeClaim")
}

fn core(name: &str) -> Kind {
    Kind::new("", "v1", name)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Gives the containers of a pod the amounts that one range has as defaults, and says so in an annotation.
fn set_defaults(pod: &mut Value, limits: &[Value]) {
    let (mut requests, mut most) = (Map::new(), Map::new());
    for limit in limits.iter().filter(|limit| limit["type"] == "Container") {
        for (from, to) in [("defaultRequest", &mut requests), ("default", &mut most)] {
            let amounts = limit[from].as_object().into_iter().flatten();
            to.extend(amounts.map(|(name, amount)| (name.clone(), amount.clone())));
        }
    }
    let mut words = Vec::new();
    for (list, kind) in CONTAINERS {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            words.extend(
                complete(container, &requests, &most)
                    .map(|(what, names)| format!("{} {what} for {kind} {name}", names.join(", "))),
            );
        }
    }
    if words.is_empty() {
        return;
    }
    let text = format!("LimitRanger plugin set: {}", words.join("; "));
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut);
    let annotations = metadata.map(|metadata| metadata.entry("annotations").or_insert_with(|| json!({})));
    if let Some(annotations) = annotations {
        if annotations.is_null() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(ANNOTATION.to_owned(), text.into());
        }
    }
}

/// Gives a container the amounts that it lacks. Returns which requests and which limits it was given.
///
/// As in Kubernetes, a limit of its own is a request, too, before the defaults of the range count.
fn complete(
    container: &mut Map<String, Value>,
    requests: &Map<String, Value>,
    limits: &Map<String, Value>,
) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let own = container.get("resources").map(|resources| resources["limits"].clone()).unwrap_or_default();
    let mut given = Vec::new();
    for (list, what, defaults) in [("requests", "request", requests), ("limits", "limit", limits)] {
        if defaults.is_empty() {
            continue;
        }
        let Some(amounts) = object(container, "resources").and_then(|resources| object(resources, list)) else {
            continue;
        };
        if list == "requests" {
            let own = own.as_object().into_iter().flatten();
            for (name, amount) in own {
                amounts.entry(name.clone()).or_insert_with(|| amount.clone());
            }
        }
        let mut names = Vec::new();
        for (name, amount) in defaults.iter().filter(|(name, _)| !amounts.contains_key(*name)).collect::<Vec<_>>() {
            amounts.insert(name.clone(), amount.clone());
            names.push(name.clone());
        }
        names.sort();
        given.push((what, names));
    }
    given.into_iter().filter(|(_, names)| !names.is_empty())
}

/// Returns an object in an object, which is made if it is absent; `None` for a value of another type.
fn object<'d>(fields: &'d mut Map<String, Value>, name: &str) -> Option<&'d mut Map<String, Value>> {
    let value = fields.entry(name).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

/// Returns what one limit of a range forbids in a pod or a claim, in the words of Kubernetes.
fn faults_of(limit: &Value, document: &Value, is_pod: bool) -> Vec<String> {
    let kind = limit["type"].as_str().unwrap_or_default();
    let bounds = Bounds::of(limit, kind);
    match (kind, is_pod) {
        ("Container", true) => {
            let containers = CONTAINERS.iter().flat_map(|(list, _)| items(&document["spec"][list]));
            containers.flat_map(|container| bounds.faults(&Amounts::of(&container["resources"]))).collect()
        }
        ("Pod", true) => bounds.faults(&of_pod(&document["spec"])),
        ("PersistentVolumeClaim", false) => bounds.faults_of_claim(&Amounts::of(&document["spec"]["resources"])),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
