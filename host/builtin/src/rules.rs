//! The defaults and rules of built-in kinds that no published schema has.
//!
//! Source: `pkg/apis/*/defaults.go`, `pkg/apis/*/validation` and `pkg/registry/*/strategy.go` of Kubernetes.

mod autoscaling;
mod batch;
mod config;
mod containers;
mod defaults;
mod names;
mod networking;
mod nodes;
mod others;
mod pods;
mod report;
mod services;
mod workloads;

use homeostat_store::schema::{KindRules, Violation};
use serde_json::{Value, json};

use crate::BuiltInKind;
use report::Report;

/// The rules of one kind.
struct Rules {
    set_defaults: fn(&mut Value, Option<&Value>),
    check: fn(&mut Report<'_>),
    first_status: fn(&Value) -> Value,
}

impl KindRules for Rules {
    fn set_defaults(&self, resource: &mut Value, old: Option<&Value>) {
        (self.set_defaults)(resource, old);
    }

    fn check(&self, resource: &Value, old: Option<&Value>) -> Vec<Violation> {
        let mut report = Report::new(resource, old);
        (self.check)(&mut report);
        report.found
    }

    fn first_status(&self, resource: &Value) -> Value {
        (self.first_status)(resource)
    }
}

/// The rules of a kind that has none.
static NONE: Rules = Rules { set_defaults: |_, _| {}, check: |_| {}, first_status: empty };

fn empty(_: &Value) -> Value {
    json!({})
}

static CONFIG_MAP: Rules = Rules { check: config::check_config_map, ..NONE };
static SECRET: Rules = Rules { set_defaults: config::merge_string_data, check: config::check_secret, ..NONE };
static NAMESPACE: Rules = Rules { set_defaults: others::namespace_defaults, check: others::check_namespace, ..NONE };
static EVENT: Rules = Rules { check: others::check_event, ..NONE };
static RESOURCE_QUOTA: Rules = Rules { check: others::check_resource_quota, ..NONE };
static ENDPOINTS: Rules = Rules { check: networking::check_endpoints, ..NONE };
static CONTROLLER_REVISION: Rules = Rules { check: workloads::check_controller_revision, ..NONE };
static ENDPOINT_SLICE: Rules = Rules { check: networking::check_endpoint_slice, ..NONE };
static WEBHOOKS: Rules = Rules { check: others::check_webhooks, ..NONE };
static SERVICE: Rules = Rules {
    set_defaults: services::set_defaults,
    check: services::check,
    first_status: |_| json!({ "loadBalancer": {} }),
};
static POD: Rules = Rules { set_defaults: pods::set_defaults, check: pods::check, first_status: pods::first_status };
static NODE: Rules = Rules { set_defaults: nodes::node_defaults, check: nodes::check_node, ..NONE };
static POD_TEMPLATE: Rules = Rules {
    set_defaults: |resource, _| pods::template_defaults(&mut resource["template"]),
    check: |report| pods::check_spec(report, "/template/spec", "template.spec", None),
    ..NONE
};
static DEPLOYMENT: Rules =
    Rules { set_defaults: workloads::deployment_defaults, check: workloads::check_deployment, ..NONE };
static REPLICA_SET: Rules =
    Rules { set_defaults: workloads::replica_set_defaults, check: workloads::check_replica_set, ..NONE };
static REPLICATION_CONTROLLER: Rules = Rules {
    set_defaults: workloads::replication_controller_defaults,
    check: workloads::check_replication_controller,
    ..NONE
};
static STATEFUL_SET: Rules =
    Rules { set_defaults: workloads::stateful_set_defaults, check: workloads::check_stateful_set, ..NONE };
static DAEMON_SET: Rules =
    Rules { set_defaults: workloads::daemon_set_defaults, check: workloads::check_daemon_set, ..NONE };
static JOB: Rules = Rules { set_defaults: batch::job_defaults, check: batch::check_job, ..NONE };
static CRON_JOB: Rules = Rules { set_defaults: batch::cron_job_defaults, check: batch::check_cron_job, ..NONE };
static PERSISTENT_VOLUME: Rules =
    Rules { set_defaults: others::persistent_volume_defaults, check: others::check_persistent_volume, ..NONE };
static PERSISTENT_VOLUME_CLAIM: Rules = Rules { check: others::check_persistent_volume_claim, ..NONE };
static LIMIT_RANGE: Rules =
    Rules { set_defaults: others::limit_range_defaults, check: others::check_limit_range, ..NONE };
static AUTOSCALER: Rules =
    Rules { set_defaults: autoscaling::autoscaler_defaults, check: autoscaling::check_autoscaler, ..NONE };
static NETWORK_POLICY: Rules =
    Rules { set_defaults: networking::network_policy_defaults, check: networking::check_network_policy, ..NONE };
static BINDING: Rules = Rules { set_defaults: others::binding_defaults, check: others::check_binding, ..NONE };
static ROLE: Rules = Rules { check: others::check_role, ..NONE };
static LEASE: Rules = Rules { check: others::check_lease, ..NONE };
static STORAGE_CLASS: Rules = Rules { check: others::check_storage_class, ..NONE };
static PRIORITY_CLASS: Rules = Rules { check: others::check_priority_class, ..NONE };
static DISRUPTION_BUDGET: Rules = Rules { check: autoscaling::check_disruption_budget, ..NONE };
static INGRESS: Rules = Rules { check: networking::check_ingress, ..NONE };

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
        ("scheduling.k8s.io", "PriorityClass") => &PRIORITY_CLASS,
        ("policy", "PodDisruptionBudget") => &DISRUPTION_BUDGET,
        _ => &NONE,
    }
}

#[cfg(test)]
mod tests;
