//! The fields that a client can select built-in kinds by: the ones that Kubernetes knows. Kinds of definitions and
//! components have no such bound.
//!
//! Source: the calls of `AddFieldLabelConversionFunc` in `pkg/apis` of Kubernetes.

use homeostat_store::{Kind, Selector};

use crate::event_versions;
use crate::field_selector::FieldTerm;
use crate::status::Failure;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// Refuses a field selector with a field that Kubernetes does not know in this kind.
///
/// # Errors
/// 400 with the words of an API server.
pub(crate) fn check(kind: &Kind, has_event_version: bool, terms: &[FieldTerm]) -> Result<(), Failure> {
    let kind = if has_event_version { &event_versions::kind() } else { kind };
    for name in terms.iter().map(|term| term.path.as_str()) {
        let (has_namespace, further) = known(kind);
        let is_known = name == NAME || (has_namespace && name == NAMESPACE);
        match further {
            _ if is_known => {}
            None => {
                let reason = format!("{name:?} is not a known field selector: only {NAME:?}, {NAMESPACE:?}");
                return Err(Failure::bad_request(reason));
            }
            Some(further) if further.contains(&name) => {}
            Some(_) if kind.name == "Job" => {
                return Err(Failure::bad_request(format!("field label {name:?} not supported for Job")));
            }
            Some(_) => return Err(Failure::bad_request(format!("field label not supported: {name}"))),
        }
    }
    Ok(())
}

/// A value that no field of a document has.
const NEVER: &str = "\0";

/// Names the fields of a selector as documents of a built-in kind have them. A document leaves out a `false` and a zero.
pub(crate) fn in_stored_form(kind: &Kind, selector: &mut Selector) {
    for (pointer, value) in selector.fields.iter_mut().chain(&mut selector.unequal_fields) {
        let (stored, left_out) = match (kind.group.as_str(), kind.name.as_str(), pointer.as_str()) {
            ("", "Node", "/spec/unschedulable") | ("", "Pod", "/spec/hostNetwork") => (None, "false"),
            ("batch", "Job", "/status/successful") => (Some("/status/succeeded"), "0"),
            _ => continue,
        };
        if let Some(stored) = stored {
            stored.clone_into(pointer);
        }
        if value.is_empty() {
            // No such field is empty in Kubernetes.
            NEVER.clone_into(value);
        } else if value == left_out {
            value.clear();
        }
    }
}

/// Returns whether a kind can be selected by namespace, and its further fields. `None` if it has none of its own.
fn known(kind: &Kind) -> (bool, Option<&'static [&'static str]>) {
    match (kind.group.as_str(), kind.name.as_str()) {
        ("", "Pod") => (
            true,
            Some(&[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ]),
        ),
        ("", "Node") => (false, Some(&["spec.unschedulable"])),
        ("", "ReplicationController") => (true, Some(&["status.replicas"])),
        ("", "Event") => (
            true,
            Some(&[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ]),
        ),
        ("events.k8s.io", "Event") => (
            true,
            Some(&[
                "reason",
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reportingController",
                "type",
            ]),
        ),
        ("", "Namespace") => (false, Some(&["status.phase"])),
        ("", "Secret") => (true, Some(&["type"])),
        ("", "Service") => (true, Some(&["spec.clusterIP", "spec.type"])),
        ("batch", "Job") => (true, Some(&["status.successful"])),
        ("certificates.k8s.io", "CertificateSigningRequest") => (false, Some(&["spec.signerName"])),
        _ => (true, None),
    }
}
