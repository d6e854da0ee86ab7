//! Where a pod is: the labels that it gets from its node.
//!
//! Source: the admission plug-in `PodTopologyLabels` of Kubernetes.

use homeostat_store::{Key, Kind, Store};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::error::found;
use crate::new_resource::NewResource;

/// The labels of a node that its pods get.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Returns the labels that the pods of a node get; none if the node does not exist.
///
/// # Errors
/// Those of the store.
pub async fn topology_labels(store: &dyn Store, node: &str) -> homeostat_store::Result<Map<String, Value>> {
    let Some(node) = found(store.get(&Key::new(Kind::new("", "v1", "Node"), "", node)).await)? else {
        return Ok(Map::new());
    };
    Ok(LABELS.iter().filter_map(|name| Some(((*name).to_owned(), node.label(name)?.into()))).collect())
}

/// Gives a new pod that has a node the labels of the node, and leaves others as they are.
///
/// # Errors
/// [`Error::Store`].
pub(crate) async fn admit(new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
    let node = document.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    if !new.is_pod || node.is_empty() {
        return Ok(());
    }
    let labels = topology_labels(new.store, node).await?;
    if labels.is_empty() {
        return Ok(());
    }
    let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
    let given = metadata.entry("labels").or_insert(Value::Null);
    if given.is_null() {
        *given = json!({});
    }
    if let Some(given) = given.as_object_mut() {
        given.extend(labels);
    }
    Ok(())
}
