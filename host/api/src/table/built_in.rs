//! The columns of Kubernetes' own kinds, as kubectl shows them.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes.

use homeostat_store::Kind;
use serde_json::{Map, Value};

use super::cells::{is_deleting, text};
use super::columns::{age, at, column, computed, created_at, text_at};
use super::{Cell, TableColumn};

mod autoscaler;
pub(super) mod events;
mod network;
mod nodes;
pub(super) mod pods;
mod policies;
mod storage;
mod workloads;

/// Returns the columns of one of Kubernetes' kinds, besides the name; `None` for another kind, and for one that shows its age
/// alone.
pub(super) fn of(kind: &Kind) -> Option<Vec<TableColumn>> {
    Some(match (kind.group.as_str(), kind.name.as_str()) {
        ("", "ConfigMap") => vec![column("Data", "string", computed(entries)), age()],
        ("", "Endpoints") => network::endpoints(),
        ("", "LimitRange") => vec![created_at()],
        ("", "Namespace") => vec![column("Status", "string", computed(namespace_phase)), age()],
        ("", "Node") => nodes::node(),
        ("", "PersistentVolume") => storage::persistent_volume(),
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim(),
        ("", "Pod") => pods::columns(),
        ("", "PodTemplate") => workloads::pod_template(),
        ("", "ReplicationController") => workloads::replication_controller(),
        ("", "ResourceQuota") => policies::resource_quota(),
        ("", "Secret") => {
            vec![column("Type", "string", text_at("/type")), column("Data", "string", computed(entries)), age()]
        }
        ("", "Service") => network::service(),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => policies::mutating_policy(),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policies::validating_policy(),
        ("admissionregistration.k8s.io", name) if name.ends_with("PolicyBinding") => policies::policy_binding(),
        ("admissionregistration.k8s.io", name) if name.ends_with("WebhookConfiguration") => policies::webhooks(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => vec![created_at()],
        ("apiregistration.k8s.io", "APIService") => policies::api_service(),
        ("apps", "ControllerRevision") => workloads::controller_revision(),
        ("apps", "DaemonSet") => workloads::daemon_set(),
        ("apps", "Deployment") => workloads::deployment(),
        ("apps", "ReplicaSet") => workloads::replica_set(),
        ("apps", "StatefulSet") => workloads::stateful_set(),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::columns(),
        ("batch", "CronJob") => workloads::cron_job(),
        ("batch", "Job") => workloads::job(),
        ("certificates.k8s.io", "CertificateSigningRequest") => policies::certificate_signing_request(),
        ("coordination.k8s.io", "Lease") => vec![column("Holder", "string", text_at("/spec/holderIdentity")), age()],
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => policies::flow_schema(),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => policies::priority_level(),
        ("networking.k8s.io", "Ingress") => network::ingress(),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(),
        ("networking.k8s.io", "IPAddress") => network::ip_address(),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(),
        ("networking.k8s.io", "ServiceCIDR") => network::service_cidr(),
        ("node.k8s.io", "RuntimeClass") => vec![column("Handler", "string", text_at("/handler")), age()],
        ("policy", "PodDisruptionBudget") => workloads::pod_disruption_budget(),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => vec![created_at()],
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policies::role_binding(),
        ("resource.k8s.io", "ResourceClaim") => nodes::resource_claim(),
        ("resource.k8s.io", "ResourceSlice") => nodes::resource_slice(),
        ("scheduling.k8s.io", "PriorityClass") => policies::priority_class(),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(),
        ("storage.k8s.io", "CSINode") => storage::csi_node(),
        ("storage.k8s.io", "CSIStorageCapacity") => vec![created_at()],
        ("storage.k8s.io", "StorageClass") => storage::storage_class(),
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment(),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::volume_attributes_class(),
        _ => return None,
    })
}

/// Returns the cell of the name. A class that is the default of its kind says so.
pub(super) fn name(kind: &Kind) -> Cell {
    let annotations: &[&str] = match (kind.group.as_str(), kind.name.as_str()) {
        ("networking.k8s.io", "IngressClass") => &["ingressclass.kubernetes.io/is-default-class"],
        ("storage.k8s.io", "StorageClass") => {
            &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
        }
        _ => return at("/metadata/name"),
    };
    computed(move |document| {
        let is_default = annotations.iter().any(|name| document["metadata"]["annotations"][*name] == "true");
        let name = text(document, "/metadata/name");
        if is_default { format!("{name} (default)").into() } else { name.into() }
    })
}

/// Returns the number of entries of a `ConfigMap` or a `Secret`.
fn entries(document: &Value) -> Value {
    let size = |name: &str| document.get(name).and_then(Value::as_object).map_or(0, Map::len);
    (size("data") + size("binaryData")).into()
}

/// Returns the phase of a namespace.
fn namespace_phase(document: &Value) -> Value {
    match text(document, "/status/phase") {
        _ if is_deleting(document) => "Terminating".into(),
        "" => "Active".into(),
        phase => phase.into(),
    }
}
