//! The columns of volumes, their claims, classes and drivers.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes.

use serde_json::Value;

use crate::table::TableColumn;
use crate::table::cells::{elements, is_deleting, joined, or_none, plain, text};
use crate::table::columns::{age, column, computed, length, switch, text_at, text_or, wide};

/// The annotation that names a class, as before there was a field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn persistent_volume() -> Vec<TableColumn> {
    let claim = |volume: &Value| match volume.pointer("/spec/claimRef") {
        Some(claim) => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")).into(),
        None => "".into(),
    };
    vec![
        column("Capacity", "string", text_or("/spec/capacity/storage", "0")),
        column("Access Modes", "string", computed(|volume| access_modes(volume, "/spec/accessModes"))),
        column("Reclaim Policy", "string", text_at("/spec/persistentVolumeReclaimPolicy")),
        column("Status", "string", computed(phase)),
        column("Claim", "string", computed(claim)),
        column("StorageClass", "string", computed(class)),
        column("VolumeAttributesClass", "string", text_or("/spec/volumeAttributesClassName", "<unset>")),
        column("Reason", "string", text_at("/status/reason")),
        age(),
        wide("VolumeMode", "string", text_or("/spec/volumeMode", "<unset>")),
    ]
}

pub(super) fn persistent_volume_claim() -> Vec<TableColumn> {
    let is_bound = |claim: &Value| !text(claim, "/spec/volumeName").is_empty();
    let capacity = move |claim: &Value| match claim.pointer("/status/capacity/storage") {
        _ if !is_bound(claim) => "".into(),
        Some(capacity) => capacity.clone(),
        None => "0".into(),
    };
    let modes = move |claim: &Value| {
        if is_bound(claim) { access_modes(claim, "/status/accessModes") } else { "".into() }
    };
    vec![
        column("Status", "string", computed(phase)),
        column("Volume", "string", text_at("/spec/volumeName")),
        column("Capacity", "string", computed(capacity)),
        column("Access Modes", "string", computed(modes)),
        column("StorageClass", "string", computed(class)),
        column("VolumeAttributesClass", "string", text_or("/spec/volumeAttributesClassName", "<unset>")),
        age(),
        wide("VolumeMode", "string", text_or("/spec/volumeMode", "<unset>")),
    ]
}

pub(super) fn storage_class() -> Vec<TableColumn> {
    vec![
        column("Provisioner", "string", text_at("/provisioner")),
        column("ReclaimPolicy", "string", text_or("/reclaimPolicy", "Delete")),
        column("VolumeBindingMode", "string", text_or("/volumeBindingMode", "Immediate")),
        column("AllowVolumeExpansion", "string", switch("/allowVolumeExpansion")),
        age(),
    ]
}

pub(super) fn volume_attributes_class() -> Vec<TableColumn> {
    vec![column("DriverName", "string", text_at("/driverName")), age()]
}

pub(super) fn volume_attachment() -> Vec<TableColumn> {
    let attacher = column("Attacher", "string", text_at("/spec/attacher"));
    vec![
        TableColumn { format: "name".to_owned(), ..attacher },
        column("PV", "string", text_at("/spec/source/persistentVolumeName")),
        column("Node", "string", text_at("/spec/nodeName")),
        column("Attached", "boolean", switch("/status/attached")),
        age(),
    ]
}

pub(super) fn csi_node() -> Vec<TableColumn> {
    vec![column("Drivers", "integer", length("/spec/drivers")), age()]
}

pub(super) fn csi_driver() -> Vec<TableColumn> {
    let is_attached = |driver: &Value| (driver["spec"]["attachRequired"] != false).into();
    let tokens = |driver: &Value| match driver.pointer("/spec/tokenRequests") {
        Some(_) => joined(elements(driver, "/spec/tokenRequests").map(|request| plain(&request["audience"]))).into(),
        None => "<unset>".into(),
    };
    let modes = |driver: &Value| or_none(&joined(elements(driver, "/spec/volumeLifecycleModes").map(plain)));
    vec![
        column("AttachRequired", "boolean", computed(is_attached)),
        column("PodInfoOnMount", "boolean", switch("/spec/podInfoOnMount")),
        column("StorageCapacity", "boolean", switch("/spec/storageCapacity")),
        column("TokenRequests", "string", computed(tokens)),
        column("RequiresRepublish", "boolean", switch("/spec/requiresRepublish")),
        column("Modes", "string", computed(modes)),
        age(),
    ]
}

fn phase(document: &Value) -> Value {
    if is_deleting(document) { "Terminating".into() } else { text(document, "/status/phase").into() }
}

fn class(document: &Value) -> Value {
    let annotated = document["metadata"]["annotations"][CLASS].as_str();
    annotated.unwrap_or_else(|| text(document, "/spec/storageClassName")).into()
}

/// Returns the access modes in short, each once: `RWO,ROX`.
fn access_modes(document: &Value, pointer: &str) -> Value {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = elements(document, pointer);
    let found = SHORT.iter().filter(|(mode, _)| modes.clone().any(|stated| stated == mode));
    joined(found.map(|(_, short)| (*short).to_owned())).into()
}
