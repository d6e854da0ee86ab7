//! The schema of a built-in kind, for the store and for `kubectl explain`.

use std::collections::BTreeMap;

use homeostat_store::Kind;
use homeostat_store::schema::Schema;
use serde_json::{Map, Value, json};

use crate::{data, definition_of, find, json_types, rules};

/// Keywords that say how Go encodes a field: its protobuf number and its flags.
pub(crate) const FIELD: &str = "x-go";
/// The structs whose fields are inlined into JSON, and are a message of their own in protobuf.
pub(crate) const INLINED: &str = "x-go-inline";

/// Required fields that the rules check, or that nobody checks.
const UNCHECKED: &[(&str, &str)] = &[
    (".admissionregistration.v1.ServiceReference", "name"),
    (".admissionregistration.v1.ServiceReference", "namespace"),
    (".AppArmorProfile", "type"),
    (".AuditAnnotation", "key"),
    (".CapacityRequestPolicyRange", "min"),
    (".CELDeviceSelector", "expression"),
    (".CertificateSigningRequestSpec", "request"),
    (".ContainerPort", "containerPort"),
    (".core.v1.Volume", "name"),
    (".CSINodeSpec", "drivers"),
    (".CSIStorageCapacity", "storageClassName"),
    (".DaemonSetSpec", "selector"),
    (".Device", "name"),
    (".DeviceRequest", "name"),
    (".DeviceSubRequest", "deviceClassName"),
    (".DeviceSubRequest", "name"),
    (".DeviceTaint", "key"),
    (".Endpoint", "addresses"),
    (".EndpointAddress", "ip"),
    (".EndpointPort", "port"),
    (".EndpointSlice", "endpoints"),
    (".EventSeries", "count"),
    (".ExactDeviceRequest", "deviceClassName"),
    (".FlowDistinguisherMethod", "type"),
    (".ForNode", "name"),
    (".ForZone", "name"),
    (".GroupSubject", "name"),
    (".GRPCAction", "port"),
    (".HorizontalPodAutoscalerSpec", "maxReplicas"),
    (".HostAlias", "ip"),
    (".HPAScalingPolicy", "type"),
    (".HTTPGetAction", "port"),
    (".HTTPIngressPath", "backend"),
    (".HTTPIngressPath", "pathType"),
    (".IngressServiceBackend", "name"),
    (".LabelSelectorRequirement", "key"),
    (".LabelSelectorRequirement", "operator"),
    (".LimitRangeItem", "type"),
    (".LimitRangeSpec", "limits"),
    (".LimitResponse", "type"),
    (".MetricTarget", "type"),
    (".MutatingWebhook", "admissionReviewVersions"),
    (".MutatingWebhook", "sideEffects"),
    (".NodeSelector", "nodeSelectorTerms"),
    (".NodeSelectorRequirement", "key"),
    (".NodeSelectorRequirement", "operator"),
    (".OpaqueDeviceConfiguration", "driver"),
    (".OpaqueDeviceConfiguration", "parameters"),
    (".PodFailurePolicy", "rules"),
    (".PodFailurePolicyOnExitCodesRequirement", "values"),
    (".PodFailurePolicyOnPodConditionsPattern", "type"),
    (".PodAffinityTerm", "topologyKey"),
    (".PodOS", "name"),
    (".PodReadinessGate", "conditionType"),
    (".PodResourceClaim", "name"),
    (".PodSchedulingGate", "name"),
    (".PolicyRule", "verbs"),
    (".PreferredSchedulingTerm", "preference"),
    (".PreferredSchedulingTerm", "weight"),
    (".RoleRef", "apiGroup"),
    (".RoleRef", "kind"),
    (".ScopedResourceSelectorRequirement", "operator"),
    (".ScopedResourceSelectorRequirement", "scopeName"),
    (".SeccompProfile", "type"),
    (".ServiceAccountSubject", "name"),
    (".ServiceAccountSubject", "namespace"),
    (".ServicePort", "port"),
    (".Subject", "kind"),
    (".Sysctl", "name"),
    (".Sysctl", "value"),
    (".Taint", "effect"),
    (".Taint", "key"),
    (".TCPSocketAction", "port"),
    (".TokenRequest", "audience"),
    (".Toleration", "key"),
    (".TopologySelectorLabelRequirement", "key"),
    (".TopologySelectorLabelRequirement", "values"),
    (".TopologySpreadConstraint", "maxSkew"),
    (".TopologySpreadConstraint", "topologyKey"),
    (".TopologySpreadConstraint", "whenUnsatisfiable"),
    (".UserSubject", "name"),
    (".ValidatingWebhook", "admissionReviewVersions"),
    (".ValidatingWebhook", "sideEffects"),
    (".VolumeAttachmentSpec", "nodeName"),
    (".WeightedPodAffinityTerm", "podAffinityTerm"),
    (".WeightedPodAffinityTerm", "weight"),
];

/// The ends of the names of types whose required fields the rules check.
const UNCHECKED_TYPES: [&str; 13] = [
    ".ContainerResizePolicy",
    ".ContainerRestartRule",
    ".ContainerRestartRuleOnExitCodes",
    ".core.v1.ResourceClaim",
    ".DownwardAPIVolumeFile",
    ".HTTPHeader",
    ".KeyToPath",
    ".ObjectFieldSelector",
    ".PersistentVolumeClaimTemplate",
    ".ResourceFieldSelector",
    ".ServiceAccountTokenProjection",
    ".SleepAction",
    "VolumeSource",
];

/// Fields whose values the rules check.
const WITH_RULES: &[(&str, &str)] = &[
    (".AzureDiskVolumeSource", "cachingMode"),
    (".AzureDiskVolumeSource", "kind"),
    (".CertificateSigningRequestSpec", "usages"),
    (".DaemonSetUpdateStrategy", "type"),
    (".DeploymentStrategy", "type"),
    (".DeviceSubRequest", "allocationMode"),
    (".DeviceToleration", "effect"),
    (".DeviceToleration", "operator"),
    (".ExactDeviceRequest", "allocationMode"),
    (".HostPathVolumeSource", "type"),
    (".HTTPGetAction", "scheme"),
    (".HTTPIngressPath", "pathType"),
    (".ImageVolumeSource", "pullPolicy"),
    (".MutatingWebhook", "sideEffects"),
    (".NetworkPolicyPort", "protocol"),
    (".NodeSelectorRequirement", "operator"),
    (".PersistentVolumeClaimSpec", "accessModes"),
    (".PersistentVolumeSpec", "accessModes"),
    (".PodSpec", "preemptionPolicy"),
    (".PodSpec", "restartPolicy"),
    (".PriorityClass", "preemptionPolicy"),
    (".ResourceQuotaSpec", "scopes"),
    (".ScopedResourceSelectorRequirement", "operator"),
    (".ScopedResourceSelectorRequirement", "scopeName"),
    (".ServiceSpec", "ipFamilies"),
    (".StatefulSetSpec", "podManagementPolicy"),
    (".StatefulSetUpdateStrategy", "type"),
    (".Taint", "effect"),
    (".Toleration", "effect"),
    (".Toleration", "operator"),
    (".ValidatingWebhook", "sideEffects"),
    (".VolumeMount", "mountPropagation"),
];

/// The values of fields, in the order in which Kubernetes names them. It names others in the order of the alphabet.
const IN_ORDER: &[(&str, &str, &[&str])] = &[
    (".Container", "terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
    (".CronJobSpec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
    (".EphemeralContainer", "terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
    (".JobSpec", "completionMode", &["NonIndexed", "Indexed"]),
    (".NetworkPolicySpec", "policyTypes", &["Ingress", "Egress"]),
    (".PodSpec", "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    (".StorageClass", "reclaimPolicy", &["Delete", "Retain"]),
];

/// Fields whose defaults the rules set, since other fields depend on whether they were given.
const DEFAULTED_BY_RULES: &[(&str, &str)] =
    &[(".DeviceSubRequest", "count"), (".ExactDeviceRequest", "count"), (".StatefulSetUpdateStrategy", "type")];

/// Returns the schema of a built-in kind, with its rules; `None` for another kind.
///
/// # Panics
/// Never: a test parses all of them.
pub fn schema(kind: &Kind) -> Option<Schema> {
    let known = find(kind)?;
    let mut root = structural(&known.definition)?;
    let properties = root.get_mut("properties").and_then(Value::as_object_mut)?;
    // The store owns the metadata of a resource.
    properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    if let Some(status) = properties.get_mut("status") {
        allow_any_values(status);
    }
    let schema = Schema::parse_built_in(&root, rules::of(known), json_types::check);
    Some(schema.expect("the published schemas are structural"))
}

/// Returns the published definitions of some built-in kinds, in any version, and of all types that they use, by name, as an OpenAPI
/// document has them.
pub fn published<'k>(kinds: impl IntoIterator<Item = &'k Kind>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for definition in kinds.into_iter().filter_map(definition_of) {
        publish(definition, &mut found);
    }
    found
}

/// Returns the published definition of a type and of all types that it uses, by name. Empty if there is no such type.
pub fn published_type(name: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    publish(name, &mut found);
    found
}

fn publish(name: &str, found: &mut BTreeMap<String, Value>) {
    if found.contains_key(name) {
        return;
    }
    let Some(mut definition) = data::definition(name) else { return };
    found.insert(name.to_owned(), Value::Null);
    refer(&mut definition, found);
    found.insert(name.to_owned(), definition);
}

/// Restores the published form of references, and publishes what they name.
fn refer(schema: &mut Value, found: &mut BTreeMap<String, Value>) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove(FIELD);
    fields.remove(INLINED);
    if let Some(Value::String(name)) = fields.remove("$ref") {
        publish(&name, found);
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        if fields.is_empty() {
            *schema = reference;
            return;
        }
        fields.insert("allOf".to_owned(), json!([reference]));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            refer(inner, found);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| refer(property, found));
    }
}

/// Returns the structural schema of a definition, with all references resolved.
fn structural(name: &str) -> Option<Value> {
    if let Some(opaque) = opaque(name) {
        return Some(opaque);
    }
    let mut definition = data::definition(name)?;
    let fields = definition.as_object_mut()?;
    fields.remove("description");
    fields.remove(INLINED);
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(resolve);
    }
    for (_, field) in WITH_RULES.iter().filter(|(holder, _)| name.ends_with(holder)) {
        let property = &mut definition["properties"][*field];
        if let Some(fields) = property.as_object_mut() {
            fields.remove("enum");
        }
        if let Some(items) = property.get_mut("items").and_then(Value::as_object_mut) {
            items.remove("enum");
        }
    }
    for (_, field, values) in IN_ORDER.iter().filter(|(holder, ..)| name.ends_with(holder)) {
        let property = &mut definition["properties"][*field];
        let of_values = if property.get("items").is_some() { &mut property["items"] } else { property };
        of_values["enum"] = json!(values);
    }
    if UNCHECKED_TYPES.iter().any(|end| name.ends_with(end)) {
        definition["required"] = json!([]);
    }
    for (_, field) in UNCHECKED.iter().filter(|(holder, _)| name.ends_with(holder)) {
        let required = definition.get_mut("required").and_then(Value::as_array_mut);
        required.into_iter().for_each(|names| names.retain(|name| name != field));
    }
    for (_, field) in DEFAULTED_BY_RULES.iter().filter(|(holder, _)| name.ends_with(holder)) {
        let property = definition["properties"][*field].as_object_mut();
        property.and_then(|property| property.remove("default"));
    }
    if name.ends_with(".NamespaceSpec") {
        // An empty list lets a namespace go, and no list changes nothing.
        definition["properties"]["finalizers"]["x-homeostat-omit-empty"] = false.into();
    }
    Some(definition)
}

/// Removes what Kubernetes does not check of a status: which fields it has, and the values of texts.
fn allow_any_values(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("required");
    fields.remove("enum");
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            allow_any_values(inner);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(allow_any_values);
    }
}

/// Resolves the references at and below a property.
fn resolve(property: &mut Value) {
    let Some(fields) = property.as_object_mut() else { return };
    fields.remove("description");
    let field = fields.remove(FIELD);
    let is_field = field.is_some();
    let flags = field.and_then(|field| field.get(1)?.as_str().map(str::to_owned)).unwrap_or_default();
    let is_struct = fields.contains_key("$ref");
    if let Some(Value::String(name)) = fields.remove("$ref") {
        let mut referred = structural(&name).unwrap_or_else(|| json!({}));
        let target = referred.as_object_mut().expect("a schema is an object");
        target.append(fields);
        *fields = std::mem::take(target);
    }
    // An empty list that Go does not omit is a null, and nulls are dropped.
    let is_list = fields.get("type").is_some_and(|name| name == "array");
    if is_field && (!flags.contains('o') || (is_struct && !flags.contains('p'))) {
        fields.insert("x-homeostat-always-present".to_owned(), true.into());
    }
    if (flags.contains('o') || is_list) && !flags.contains('p') && (!is_struct || is_text(fields)) {
        fields.insert("x-homeostat-omit-empty".to_owned(), true.into());
        // A published default that is empty is never seen.
        if fields.get("default").is_some_and(|default| *default == 0 || *default == "" || *default == false) {
            fields.remove("default");
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            resolve(inner);
        }
    }
}

/// Returns whether a struct of Go is a text in JSON, such as a time.
fn is_text(fields: &Map<String, Value>) -> bool {
    fields.get("type").is_some_and(|name| name == "string")
}

/// Returns the schema of a type that encodes itself; `None` for a usual struct.
fn opaque(name: &str) -> Option<Value> {
    Some(match name.rsplit('.').next()? {
        "Time" => json!({ "type": "string", "format": "date-time" }),
        "MicroTime" => json!({ "type": "string", "format": "x-homeostat-micro-time" }),
        "Duration" => json!({ "type": "string" }),
        "Quantity" => json!({ "x-homeostat-quantity": true }),
        "IntOrString" => json!({ "x-kubernetes-int-or-string": true }),
        "RawExtension" | "FieldsV1" => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
