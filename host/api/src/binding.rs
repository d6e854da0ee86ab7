//! Bindings: a scheduler gives a pod its node. `pods/NAME/binding` names the pod in the path, `bindings` in the body.
//!
//! The status of the pod says `PodScheduled` before the pod has its node. So the rules of pods tell a binding from
//! another change of the node, and a controller that is a guest can bind in the same two steps.
//!
//! Source: `pkg/registry/core/pod/storage` of Kubernetes.

use axum::http::Method;
use axum::response::Response;
use homeostat_runtime::topology_labels;
use homeostat_store::{Change, Key, Precondition, Resource, Write};
use serde_json::{Value, json};

use crate::pod_condition::PodCondition;
use crate::request::{RequestContext, ResourceRequest};
use crate::status::{Failure, created};

/// The plural of bindings in the core group.
pub(crate) const PLURAL: &str = "bindings";

/// How often a binding is tried when others write the pod meanwhile.
const TRIES: u32 = 5;

/// The condition of a pod that has a node.
const SCHEDULED: PodCondition = PodCondition { name: "PodScheduled", reason: None, message: None };

/// Answers a request to `bindings`; `None` for another request, and on a host without the kind of pods.
pub(crate) async fn answer_collection(http: &RequestContext<'_>) -> Option<Result<Response, Failure>> {
    let target = &http.target;
    if !(target.group.is_empty() && target.version == "v1" && target.plural == PLURAL) {
        return None;
    }
    let info = http.api.host.kinds().by_plural("", "v1", "pods").filter(|info| info.built_in().is_some())?;
    let (Some(namespace), None, &Method::POST) = (target.namespace, target.name, http.method) else {
        return Some(Err(http.not_allowed()));
    };
    let answered = async {
        let request = ResourceRequest::new(http, &info)?;
        let binding = http.document()?;
        let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        bind(&request, &Key::new(info.kind.clone(), namespace, &name), &binding).await
    };
    Some(answered.await)
}

/// Answers a request to `pods/NAME/binding`.
pub(crate) async fn answer(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    bind(request, key, &request.http.document()?).await
}

async fn bind(request: &ResourceRequest<'_>, key: &Key, binding: &Value) -> Result<Response, Failure> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/metadata/name") != key.name() {
        return Err(Failure::bad_request("name in URL does not match name in Binding object"));
    }
    let (kind, node) = (text("/target/kind"), text("/target/name"));
    if !matches!(kind, "" | "Node") {
        let known = "supported values: \"Node\", \"<empty>\"";
        return Err(Failure::unexplained(format!("target.kind: Unsupported value: {kind:?}: {known}")));
    }
    if node.is_empty() {
        return Err(Failure::unexplained("target.name: Required value"));
    }
    let host = &request.http.api.host;
    let mut tries = TRIES;
    loop {
        let pod = host.store().get_live(key).await?;
        check(&pod, text("/metadata/uid"))?;
        if request.params.is_dry_run()? {
            return Ok(created());
        }
        tries -= 1;
        match give_node(request, &pod, node, binding).await {
            Ok(()) => return Ok(created()),
            Err(failure) if failure.is_conflict() && tries > 0 => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Refuses a pod that cannot get a node now.
fn check(pod: &Resource, uid: &str) -> Result<(), Failure> {
    let (name, spec) = (pod.key().name(), &pod.document()["spec"]);
    let node = spec["nodeName"].as_str().unwrap_or_default();
    let reason = if !uid.is_empty() && uid != pod.uid() {
        format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", pod.uid())
    } else if pod.is_deleting() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node {node:?}")
    } else if spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Failure::conflict_of("pods/binding", name, &reason))
}

/// Reports that the pod has a node, and then gives it the node, and the labels and annotations of the binding.
async fn give_node(request: &ResourceRequest<'_>, pod: &Resource, node: &str, binding: &Value) -> Result<(), Failure> {
    let host = &request.http.api.host;
    let mut revision = pod.revision();
    if !SCHEDULED.is_in(pod) {
        revision = host.write_unreviewed(request.write(SCHEDULED.write(pod))?).await?.resource.revision();
    }
    let entries = |list: &str| binding["metadata"][list].as_object().cloned().unwrap_or_default();
    let mut labels = entries("labels");
    labels.extend(topology_labels(&*host.store(), node).await?);
    labels.retain(|name, _| pod.label(name).is_none());
    let metadata = json!({ "annotations": entries("annotations"), "labels": labels });
    let change = Change::Merge(json!({ "metadata": metadata, "spec": { "nodeName": node } }));
    let precondition = Precondition { uid: Some(pod.uid().to_owned()), revision: Some(revision) };
    host.write_unreviewed(request.write(Write::Patch { key: pod.key().clone(), change, precondition })?).await?;
    Ok(())
}
