//! The defaults and rules of built-in kinds that no published schema has.
//!
//! Source: `pkg/apis/*/defaults.go`, `pkg/apis/*/validation` and `pkg/registry/*/strategy.go` of Kubernetes.

mod admission;
mod amounts;
mod autoscaling;
mod batch;
mod config;
mod containers;
mod defaults;
mod devices;
mod endpoints;
mod events;
mod expressions;
mod flow_control;
mod names;
mod networking;
mod nodes;
mod others;
mod pods;
mod quotas;
mod registration;
mod report;
mod resource_names;
mod services;
mod statuses;
mod storage;
mod url;
mod volumes;
mod warnings;
mod webhooks;
mod workloads;

use homeostat_store::Subresource;
use homeostat_store::schema::{Generation, KindRules, Violation};
use serde_json::{Value, json};

use crate::BuiltInKind;
pub use events::{check_changed_event, check_new_event};
pub use expressions::ADMISSION_VARIABLES;
pub use registration::requests_group;
use report::Report;
pub use services::{NODE_PORTS, SERVICE_RANGE};
pub use warnings::warnings;
pub use webhooks::check_conversion_webhook;

/// The rules of one kind.
struct Rules {
    set_defaults: fn(&mut Value, Option<&Value>),
    confine: fn(&mut Value, &Value, Option<Subresource>),
    allocated: fn(&Value) -> Vec<String>,
    check_allocation: fn(&mut Report<'_>),
    check: fn(&mut Report<'_>),
    set_status_defaults: fn(&mut Value, &Value),
    check_status: fn(&mut Report<'_>),
    first_status: fn(&Value) -> Value,
    keeps_new_status: bool,
    status_metadata: &'static [&'static str],
    generation: Generation,
    grace_seconds: fn(&Value, Option<u32>) -> Option<u32>,
}

impl KindRules for Rules {
    fn set_defaults(&self, resource: &mut Value, old: Option<&Value>) {
        (self.set_defaults)(resource, old);
    }

    fn confine(&self, resource: &mut Value, old: &Value, subresource: Option<Subresource>) {
        (self.confine)(resource, old, subresource);
    }

    fn allocated(&self, written: &Value) -> Vec<String> {
        (self.allocated)(written)
    }

    fn check_allocation(&self, resource: &Value) -> Vec<Violation> {
        let mut report = Report::new(resource, None, None);
        (self.check_allocation)(&mut report);
        report.found
    }

    fn check(&self, resource: &Value, old: Option<&Value>, subresource: Option<Subresource>) -> Vec<Violation> {
        let mut report = Report::new(resource, old, subresource);
        (self.check)(&mut report);
        report.check_finalizers();
        report.found
    }

    fn set_status_defaults(&self, resource: &mut Value, old: &Value) {
        (self.set_status_defaults)(resource, old);
    }

    fn check_status(&self, resource: &Value, old: &Value) -> Vec<Violation> {
        let mut report = Report::new(resource, Some(old), Some(Subresource::Status));
        (self.check_status)(&mut report);
        report.found
    }

    fn first_status(&self, resource: &Value) -> Value {
        (self.first_status)(resource)
    }

    fn keeps_new_status(&self) -> bool {
        self.keeps_new_status
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        self.status_metadata
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn grace_seconds(&self, resource: &Value, asked: Option<u32>) -> Option<u32> {
        (self.grace_seconds)(resource, asked)
    }
}

/// The rules of a kind that has none.
static NONE: Rules = Rules {
    set_defaults: |_, _| {},
    confine: |_, _, _| {},
    allocated: |_| Vec::new(),
    check_allocation: |_| {},
    check: |_| {},
    set_status_defaults: |_, _| {},
    check_status: |_| {},
    first_status: empty,
    keeps_new_status: false,
    status_metadata: &["annotations", "finalizers", "labels", "ownerReferences"],
    generation: Generation::Nothing,
    grace_seconds: |_, _| None,
};
/// The rules of a kind that has none, and counts the changes of its resources.
static COUNTED: Rules = Rules { generation: Generation::Specification, ..NONE };
/// The rules of a kind that has none, and whose metadata no write of the status changes.
static SEPARATE: Rules = Rules { status_metadata: &[], ..NONE };
/// The same, for a kind that counts the changes of its resources.
static SEPARATE_COUNTED: Rules = Rules { status_metadata: &[], ..COUNTED };

fn empty(_: &Value) -> Value {
    json!({})
}

static CONFIG_MAP: Rules = Rules { check: config::check_config_map, ..NONE };
static SECRET: Rules = Rules { set_defaults: config::merge_string_data, check: config::check_secret, ..NONE };
static NAMESPACE: Rules = Rules {
    set_defaults: others::namespace_defaults,
    confine: others::confine_namespace,
    allocated: others::allocated_of_namespace,
    check: others::check_namespace,
    // One of its labels is the host's.
    status_metadata: &["annotations", "finalizers", "ownerReferences"],
    check_status: statuses::check_namespace,
    ..NONE
};
static EVENT: Rules = Rules { check: events::check, ..NONE };
static RESOURCE_QUOTA: Rules =
    Rules { check: quotas::check_resource_quota, check_status: statuses::check_resource_quota, ..NONE };
static ENDPOINTS: Rules = Rules { check: endpoints::check_endpoints, ..NONE };
static CONTROLLER_REVISION: Rules = Rules { check: workloads::check_controller_revision, ..NONE };
static ENDPOINT_SLICE: Rules = Rules {
    set_defaults: endpoints::slice_defaults,
    check: endpoints::check_slice,
    generation: Generation::SpecificationAndLabels,
    ..NONE
};
static WEBHOOKS: Rules = Rules { check: webhooks::check, ..COUNTED };
static VALIDATING_POLICY: Rules =
    Rules { set_defaults: admission::policy_defaults, check: admission::check_validating_policy, ..SEPARATE_COUNTED };
static MUTATING_POLICY: Rules =
    Rules { set_defaults: admission::policy_defaults, check: admission::check_mutating_policy, ..COUNTED };
static VALIDATING_BINDING: Rules =
    Rules { set_defaults: admission::binding_defaults, check: admission::check_validating_binding, ..COUNTED };
static MUTATING_BINDING: Rules =
    Rules { set_defaults: admission::binding_defaults, check: admission::check_mutating_binding, ..COUNTED };
static SERVICE: Rules = Rules {
    set_defaults: services::set_defaults,
    allocated: services::allocated,
    check_allocation: services::check_addresses,
    check: services::check,
    first_status: |_| json!({ "loadBalancer": {} }),
    set_status_defaults: statuses::service_defaults,
    check_status: statuses::check_service,
    ..NONE
};
static POD: Rules = Rules {
    set_defaults: pods::set_defaults,
    confine: pods::confine,
    allocated: pods::allocated,
    check: pods::check,
    first_status: pods::first_status,
    status_metadata: &["annotations", "finalizers", "labels"],
    generation: Generation::SpecificationButNode,
    grace_seconds: |pod, asked| Some(pods::grace_seconds(pod, asked)),
    set_status_defaults: statuses::pod_defaults,
    check_status: statuses::check_pod,
    ..NONE
};
static NODE: Rules = Rules {
    set_defaults: nodes::node_defaults,
    check: nodes::check_node,
    set_status_defaults: |node, _| nodes::status_defaults(node),
    check_status: statuses::check_node,
    // A kubelet creates its own.
    keeps_new_status: true,
    ..NONE
};
static POD_TEMPLATE: Rules = Rules {
    set_defaults: |resource, _| pods::template_defaults(&mut resource["template"]),
    check: |report| pods::check_template(report, "/template", "template", None, &[]),
    ..COUNTED
};
static DEPLOYMENT: Rules = Rules {
    set_defaults: workloads::deployment_defaults,
    check: workloads::check_deployment,
    status_metadata: &["annotations", "finalizers", "ownerReferences"],
    generation: Generation::SpecificationAndAnnotations,
    check_status: statuses::check_deployment,
    ..NONE
};
static REPLICA_SET: Rules = Rules {
    set_defaults: workloads::replica_set_defaults,
    check: workloads::check_replica_set,
    check_status: statuses::check_replica_set,
    ..COUNTED
};
static REPLICATION_CONTROLLER: Rules = Rules {
    set_defaults: workloads::replication_controller_defaults,
    check: workloads::check_replication_controller,
    check_status: statuses::check_replica_set,
    ..COUNTED
};
static STATEFUL_SET: Rules = Rules {
    set_defaults: workloads::stateful_set_defaults,
    check: workloads::check_stateful_set,
    check_status: statuses::check_stateful_set,
    ..COUNTED
};
static DAEMON_SET: Rules = Rules {
    set_defaults: workloads::daemon_set_defaults,
    check: workloads::check_daemon_set,
    check_status: statuses::check_daemon_set,
    ..COUNTED
};
static JOB: Rules = Rules {
    set_defaults: batch::job_defaults,
    allocated: batch::allocated,
    check: batch::check_job,
    check_status: statuses::check_job,
    ..COUNTED
};
static CRON_JOB: Rules = Rules { set_defaults: batch::cron_job_defaults, check: batch::check_cron_job, ..COUNTED };
static PERSISTENT_VOLUME: Rules =
    Rules { set_defaults: storage::persistent_volume_defaults, check: storage::check_persistent_volume, ..NONE };
static PERSISTENT_VOLUME_CLAIM: Rules = Rules {
    set_defaults: storage::claim_defaults,
    check: storage::check_persistent_volume_claim,
    check_status: statuses::check_persistent_volume_claim,
    ..NONE
};
static LIMIT_RANGE: Rules =
    Rules { set_defaults: quotas::limit_range_defaults, check: quotas::check_limit_range, ..NONE };
static AUTOSCALER: Rules = Rules {
    set_defaults: autoscaling::autoscaler_defaults,
    check: autoscaling::check_autoscaler,
    check_status: statuses::check_autoscaler,
    ..NONE
};
static NETWORK_POLICY: Rules =
    Rules { set_defaults: networking::network_policy_defaults, check: networking::check_network_policy, ..COUNTED };
static BINDING: Rules = Rules { set_defaults: others::binding_defaults, check: others::check_binding, ..NONE };
static ROLE: Rules = Rules { check: others::check_role, ..NONE };
static LEASE: Rules = Rules { check: others::check_lease, ..NONE };
static STORAGE_CLASS: Rules = Rules { check: storage::check_storage_class, ..NONE };
static VOLUME_ATTRIBUTES_CLASS: Rules = Rules { check: storage::check_volume_attributes_class, ..NONE };
static DRIVER: Rules = Rules {
    set_defaults: storage::driver_defaults,
    check: storage::check_driver,
    generation: Generation::Changes,
    ..NONE
};
static NODE_DRIVERS: Rules = Rules { check: storage::check_node_drivers, ..NONE };
static STORAGE_CAPACITY: Rules = Rules { check: storage::check_capacity, ..NONE };
static ATTACHMENT: Rules = Rules { check: storage::check_attachment, ..SEPARATE };
static API_SERVICE: Rules = Rules { check: registration::check_api_service, ..SEPARATE };
static CERTIFICATE_REQUEST: Rules = Rules {
    set_defaults: registration::certificate_request_defaults,
    // No writer owns what never changes.
    allocated: |_| vec!["/spec".to_owned()],
    check: registration::check_certificate_request,
    check_status: statuses::check_certificate_request,
    ..NONE
};
static RUNTIME_CLASS: Rules = Rules { check: registration::check_runtime_class, ..NONE };
static INGRESS_CLASS: Rules = Rules { check: networking::check_ingress_class, ..COUNTED };
static IP_ADDRESS: Rules = Rules { check: networking::check_ip_address, ..NONE };
static SERVICE_CIDR: Rules = Rules { check: networking::check_service_cidr, ..SEPARATE };
static PRIORITY_CLASS: Rules = Rules { check: others::check_priority_class, generation: Generation::Constant, ..NONE };
static DISRUPTION_BUDGET: Rules =
    Rules { check: autoscaling::check_disruption_budget, check_status: statuses::check_disruption_budget, ..COUNTED };
static DEVICE_CLASS: Rules = Rules { check: devices::check_class, ..COUNTED };
static RESOURCE_CLAIM: Rules = Rules {
    set_defaults: devices::claim_defaults,
    check: devices::check_claim,
    check_status: statuses::check_resource_claim,
    ..SEPARATE
};
static RESOURCE_CLAIM_TEMPLATE: Rules =
    Rules { set_defaults: devices::template_defaults, check: devices::check_template, ..NONE };
static RESOURCE_SLICE: Rules =
    Rules { set_defaults: devices::slices::set_defaults, check: devices::slices::check, ..COUNTED };
static FLOW_SCHEMA: Rules =
    Rules { set_defaults: flow_control::schema_defaults, check: flow_control::check_schema, ..SEPARATE_COUNTED };
static PRIORITY_LEVEL: Rules =
    Rules { set_defaults: flow_control::level_defaults, check: flow_control::check_level, ..SEPARATE_COUNTED };
static INGRESS: Rules = Rules { check: networking::check_ingress, check_status: statuses::check_ingress, ..COUNTED };

/// Returns the rules of a kind.
pub(crate) fn of(kind: &BuiltInKind) -> &'static dyn KindRules {
    match (kind.group.as_str(), kind.name.as_str()) {
        ("", "ConfigMap") => &CONFIG_MAP,
        ("", "Secret") => &SECRET,
        ("", "Namespace") => &NAMESPACE,
        ("", "Service") => &SERVICE,
        ("", "Endpoints") => &ENDPOINTS,
        ("", "Event") => &EVENT,
        ("", "Node") => &NODE,
        ("", "ResourceQuota") => &RESOURCE_QUOTA,
        ("", "Pod") => &POD,
        ("", "PodTemplate") => &POD_TEMPLATE,
        ("", "ReplicationController") => &REPLICATION_CONTROLLER,
        ("", "PersistentVolume") => &PERSISTENT_VOLUME,
        ("", "PersistentVolumeClaim") => &PERSISTENT_VOLUME_CLAIM,
        ("", "LimitRange") => &LIMIT_RANGE,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            &WEBHOOKS
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &VALIDATING_POLICY,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => &VALIDATING_BINDING,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &MUTATING_POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => &MUTATING_BINDING,
        ("apps", "ControllerRevision") => &CONTROLLER_REVISION,
        ("discovery.k8s.io", "EndpointSlice") => &ENDPOINT_SLICE,
        ("apps", "Deployment") => &DEPLOYMENT,
        ("apps", "ReplicaSet") => &REPLICA_SET,
        ("apps", "StatefulSet") => &STATEFUL_SET,
        ("apps", "DaemonSet") => &DAEMON_SET,
        ("batch", "Job") => &JOB,
        ("batch", "CronJob") => &CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") => &AUTOSCALER,
        ("networking.k8s.io", "NetworkPolicy") => &NETWORK_POLICY,
        ("networking.k8s.io", "Ingress") => &INGRESS,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &BINDING,
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => &ROLE,
        ("coordination.k8s.io", "Lease") => &LEASE,
        ("storage.k8s.io", "StorageClass") => &STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttributesClass") => &VOLUME_ATTRIBUTES_CLASS,
        ("storage.k8s.io", "CSIDriver") => &DRIVER,
        ("storage.k8s.io", "CSINode") => &NODE_DRIVERS,
        ("storage.k8s.io", "CSIStorageCapacity") => &STORAGE_CAPACITY,
        ("storage.k8s.io", "VolumeAttachment") => &ATTACHMENT,
        ("apiregistration.k8s.io", "APIService") => &API_SERVICE,
        ("certificates.k8s.io", "CertificateSigningRequest") => &CERTIFICATE_REQUEST,
        ("node.k8s.io", "RuntimeClass") => &RUNTIME_CLASS,
        ("networking.k8s.io", "IngressClass") => &INGRESS_CLASS,
        ("networking.k8s.io", "IPAddress") => &IP_ADDRESS,
        ("networking.k8s.io", "ServiceCIDR") => &SERVICE_CIDR,
        ("scheduling.k8s.io", "PriorityClass") => &PRIORITY_CLASS,
        ("policy", "PodDisruptionBudget") => &DISRUPTION_BUDGET,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &PRIORITY_LEVEL,
        ("resource.k8s.io", "DeviceClass") => &DEVICE_CLASS,
        ("resource.k8s.io", "ResourceClaim") => &RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => &RESOURCE_CLAIM_TEMPLATE,
        ("resource.k8s.io", "ResourceSlice") => &RESOURCE_SLICE,
        _ => &NONE,
    }
}

#[cfg(test)]
mod tests;
