//! The columns of built-in kinds, as kubectl shows them.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes.

use homeostat_store::Kind;
use jiff::Timestamp;
use serde_json::Value;

use super::cells::{self, or_none, text};
use super::columns::{age, at, column, computed, count, text_or_none, wide};
use super::{Cell, TableColumn, autoscaler};
use crate::age as ages;

/// Returns the columns of a built-in kind, besides the name. Kinds that have no more than an age have that.
pub(super) fn of(kind: &Kind) -> Vec<TableColumn> {
    match (kind.group.as_str(), kind.name.as_str()) {
        ("", "Endpoints") => vec![column("Endpoints", "string", computed(endpoints)), age()],
        ("", "Node") => node(),
        ("", "PersistentVolume") => persistent_volume(),
        ("", "PersistentVolumeClaim") => persistent_volume_claim(),
        ("", "ReplicationController") => replicas("/spec/selector"),
        ("", "ResourceQuota") => vec![
            column("Request", "string", computed(|document| quota(document, false))),
            column("Limit", "string", computed(|document| quota(document, true))),
            age(),
        ],
        ("", "Secret") => {
            vec![column("Type", "string", at("/type")), column("Data", "string", computed(cells::data)), age()]
        }
        ("", "Service") => service(),
        ("apps", "ControllerRevision") => vec![
            column("Controller", "string", computed(|document| or_none(&owner(document)))),
            column("Revision", "string", count("/revision")),
            age(),
        ],
        ("apps", "DaemonSet") => daemon_set(),
        ("apps", "StatefulSet") => {
            let mut columns = vec![column("Ready", "string", computed(cells::ready_replicas)), age()];
            columns.extend(containers());
            columns
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::columns(),
        ("batch", "CronJob") => cron_job(),
        ("batch", "Job") => job(),
        ("coordination.k8s.io", "Lease") => vec![column("Holder", "string", at("/spec/holderIdentity")), age()],
        ("discovery.k8s.io", "EndpointSlice") => vec![
            column("AddressType", "string", at("/addressType")),
            column("Ports", "string", computed(slice_ports)),
            column("Endpoints", "string", computed(slice_endpoints)),
            age(),
        ],
        ("networking.k8s.io", "Ingress") => vec![
            column("Class", "string", text_or_none("/spec/ingressClassName")),
            column("Hosts", "string", computed(hosts)),
            column("Address", "string", computed(|document| addresses(document).into())),
            column("Ports", "string", computed(ingress_ports)),
            age(),
        ],
        ("networking.k8s.io", "IngressClass") => vec![
            column("Controller", "string", at("/spec/controller")),
            column("Parameters", "string", computed(class_parameters)),
            age(),
        ],
        ("networking.k8s.io", "NetworkPolicy") => vec![
            column(
                "Pod-Selector",
                "string",
                computed(|document| cells::labels(document, "/spec/podSelector/matchLabels")),
            ),
            age(),
        ],
        ("node.k8s.io", "RuntimeClass") => vec![column("Handler", "string", at("/handler")), age()],
        ("policy", "PodDisruptionBudget") => vec![
            column("Min Available", "string", computed(|document| or_unset(document, "/spec/minAvailable"))),
            column("Max Unavailable", "string", computed(|document| or_unset(document, "/spec/maxUnavailable"))),
            column("Allowed Disruptions", "integer", count("/status/disruptionsAllowed")),
            age(),
        ],
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") | ("", "LimitRange") => {
            vec![column("Created At", "string", at("/metadata/creationTimestamp"))]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(),
        ("scheduling.k8s.io", "PriorityClass") => vec![
            column("Value", "integer", at("/value")),
            column("Global-Default", "boolean", computed(|document| (document["globalDefault"] == true).into())),
            age(),
            column("PreemptionPolicy", "string", at("/preemptionPolicy")),
        ],
        ("storage.k8s.io", "StorageClass") => vec![
            column("Provisioner", "string", at("/provisioner")),
            column("ReclaimPolicy", "string", at("/reclaimPolicy")),
            column("VolumeBindingMode", "string", at("/volumeBindingMode")),
            column(
                "AllowVolumeExpansion",
                "string",
                computed(|document| (document["allowVolumeExpansion"] == true).into()),
            ),
            age(),
        ],
        ("admissionregistration.k8s.io", name) if name.ends_with("WebhookConfiguration") => {
            vec![column("Webhooks", "integer", computed(|document| items(document, "/webhooks").len().into())), age()]
        }
        _ => vec![age()],
    }
}

fn items<'d>(document: &'d Value, pointer: &str) -> &'d [Value] {
    document.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns one text of each item of a list, separated by commas.
fn joined(document: &Value, pointer: &str, show: impl Fn(&Value) -> String) -> Value {
    or_none(&items(document, pointer).iter().map(show).collect::<Vec<_>>().join(","))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn containers() -> [TableColumn; 2] {
    [
        wide("Containers", "string", computed(cells::container_names)),
        wide("Images", "string", computed(cells::container_images)),
    ]
}

fn selector_at(pointer: &'static str) -> Cell {
    computed(move |document| cells::labels(document, pointer))
}

fn replicas(selector: &'static str) -> Vec<TableColumn> {
    let mut columns = vec![
        column("Desired", "integer", computed(|document| cells::desired_replicas(document).into())),
        column("Current", "integer", count("/status/replicas")),
        column("Ready", "integer", count("/status/readyReplicas")),
        age(),
    ];
    columns.extend(containers());
    columns.push(wide("Selector", "string", selector_at(selector)));
    columns
}

fn daemon_set() -> Vec<TableColumn> {
    let mut columns = vec![
        column("Desired", "integer", count("/status/desiredNumberScheduled")),
        column("Current", "integer", count("/status/currentNumberScheduled")),
        column("Ready", "integer", count("/status/numberReady")),
        column("Up-to-date", "integer", count("/status/updatedNumberScheduled")),
        column("Available", "integer", count("/status/numberAvailable")),
        column("Node Selector", "string", selector_at("/spec/template/spec/nodeSelector")),
        age(),
    ];
    columns.extend(containers());
    columns.push(wide("Selector", "string", computed(cells::selector)));
    columns
}

fn job() -> Vec<TableColumn> {
    let mut columns = vec![
        column("Status", "string", computed(job_status)),
        column("Completions", "string", computed(completions)),
        column("Duration", "string", computed(job_duration)),
        age(),
    ];
    columns.extend(containers());
    columns.push(wide("Selector", "string", computed(cells::selector)));
    columns
}

fn job_status(job: &Value) -> Value {
    const CONDITIONS: [&str; 5] = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let holds = |name: &str| {
        items(job, "/status/conditions")
            .iter()
            .any(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let is_deleting = job.pointer("/metadata/deletionTimestamp").is_some();
    let word = CONDITIONS.into_iter().find(|name| holds(name)).unwrap_or("Running");
    if is_deleting && !matches!(word, "Complete" | "Failed") { "Terminating".into() } else { word.into() }
}

fn completions(job: &Value) -> Value {
    let succeeded = cells::number(job, "/status/succeeded");
    let parallelism = cells::number(job, "/spec/parallelism");
    match job.pointer("/spec/completions").and_then(Value::as_u64) {
        Some(wanted) => format!("{succeeded}/{wanted}").into(),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        None => format!("{succeeded}/1").into(),
    }
}

fn job_duration(job: &Value) -> Value {
    let moment = |pointer| text(job, pointer).parse::<Timestamp>().ok();
    let Some(start) = moment("/status/startTime") else { return "".into() };
    let end = moment("/status/completionTime").unwrap_or_else(Timestamp::now);
    ages::short(end.as_second() - start.as_second()).into()
}

fn last_schedule(cron_job: &Value) -> Value {
    match text(cron_job, "/status/lastScheduleTime") {
        "" => or_none(""),
        time => ages::since(time, Timestamp::now()).into(),
    }
}

fn cron_job() -> Vec<TableColumn> {
    let template = |field: &'static str| {
        computed(move |document: &Value| {
            joined(document, "/spec/jobTemplate/spec/template/spec/containers", |container| plain(&container[field]))
        })
    };
    vec![
        column("Schedule", "string", at("/spec/schedule")),
        column("Timezone", "string", text_or_none("/spec/timeZone")),
        column(
            "Suspend",
            "boolean",
            computed(|document| if document["spec"]["suspend"] == true { "True" } else { "False" }.into()),
        ),
        column("Active", "integer", computed(|document| items(document, "/status/active").len().into())),
        column("Last Schedule", "string", computed(last_schedule)),
        age(),
        wide("Containers", "string", template("name")),
        wide("Images", "string", template("image")),
        wide("Selector", "string", selector_at("/spec/jobTemplate/spec/selector/matchLabels")),
    ]
}

fn service() -> Vec<TableColumn> {
    vec![
        column("Type", "string", at("/spec/type")),
        column("Cluster-IP", "string", text_or_none("/spec/clusterIP")),
        column("External-IP", "string", computed(external_address)),
        column("Port(s)", "string", computed(service_ports)),
        age(),
        wide("Selector", "string", selector_at("/spec/selector")),
    ]
}

fn external_address(service: &Value) -> Value {
    let given = joined(service, "/spec/externalIPs", plain);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").into(),
        "LoadBalancer" => match addresses(service) {
            found if found.is_empty() && given == "<none>" => "<pending>".into(),
            found if given == "<none>" => found.into(),
            found => [found, plain(&given)].join(",").trim_matches(',').into(),
        },
        _ => given,
    }
}

/// Returns the addresses of a load balancer.
fn addresses(document: &Value) -> String {
    let address =
        |ingress: &Value| ingress["ip"].as_str().or(ingress["hostname"].as_str()).unwrap_or_default().to_owned();
    items(document, "/status/loadBalancer/ingress").iter().map(address).collect::<Vec<_>>().join(",")
}

fn service_ports(service: &Value) -> Value {
    joined(service, "/spec/ports", |port| {
        let node = port["nodePort"].as_u64().map(|node| format!(":{node}")).unwrap_or_default();
        format!("{}{node}/{}", port["port"], plain(&port["protocol"]))
    })
}

fn hosts(ingress: &Value) -> Value {
    let host = |rule: &Value| rule["host"].as_str().unwrap_or("*").to_owned();
    let hosts = joined(ingress, "/spec/rules", host);
    if hosts == "<none>" { "*".into() } else { hosts }
}

fn ingress_ports(ingress: &Value) -> Value {
    if items(ingress, "/spec/tls").is_empty() { "80".into() } else { "80, 443".into() }
}

fn class_parameters(class: &Value) -> Value {
    let part = |name: &str| class["spec"]["parameters"][name].as_str().unwrap_or_default();
    match (part("kind"), part("apiGroup")) {
        ("", _) => or_none(""),
        (kind, "") => format!("{kind}/{}", part("name")).into(),
        (kind, group) => format!("{kind}.{group}/{}", part("name")).into(),
    }
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

fn node() -> Vec<TableColumn> {
    let address = |kind: &'static str| {
        computed(move |node: &Value| {
            let found = items(node, "/status/addresses").iter().find(|address| address["type"] == kind);
            or_none(found.and_then(|address| address["address"].as_str()).unwrap_or_default())
        })
    };
    vec![
        column("Status", "string", computed(node_status)),
        column("Roles", "string", computed(node_roles)),
        age(),
        column("Version", "string", at("/status/nodeInfo/kubeletVersion")),
        wide("Internal-IP", "string", address("InternalIP")),
        wide("External-IP", "string", address("ExternalIP")),
        wide("OS-Image", "string", computed(|node| or_unknown(text(node, "/status/nodeInfo/osImage")))),
        wide("Kernel-Version", "string", computed(kernel)),
        wide(
            "Container-Runtime",
            "string",
            computed(|node| or_unknown(text(node, "/status/nodeInfo/containerRuntimeVersion"))),
        ),
    ]
}

fn or_unknown(text: &str) -> Value {
    if text.is_empty() { "<unknown>".into() } else { text.into() }
}

fn kernel(node: &Value) -> Value {
    let version = or_unknown(text(node, "/status/nodeInfo/kernelVersion"));
    match text(node, "/status/nodeInfo/architecture") {
        "" => version,
        architecture => format!("{} ({architecture})", plain(&version)).into(),
    }
}

fn node_status(node: &Value) -> Value {
    let ready = items(node, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let ready = ready.map_or("Unknown", |ready| if ready["status"] == "True" { "Ready" } else { "NotReady" });
    if node["spec"]["unschedulable"] == true { format!("{ready},SchedulingDisabled").into() } else { ready.into() }
}

fn node_roles(node: &Value) -> Value {
    const PREFIX: &str = "node-role.kubernetes.io/";
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    or_none(&labels.filter_map(|(name, _)| name.strip_prefix(PREFIX)).collect::<Vec<_>>().join(","))
}

/// Returns the access modes in short: `RWO,ROX`.
fn access_modes(document: &Value, pointer: &str) -> Value {
    joined(document, pointer, |mode| {
        match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }
        .to_owned()
    })
}

fn persistent_volume() -> Vec<TableColumn> {
    let claim = |volume: &Value| match text(volume, "/spec/claimRef/name") {
        "" => "".into(),
        name => format!("{}/{name}", text(volume, "/spec/claimRef/namespace")).into(),
    };
    vec![
        column("Capacity", "string", at("/spec/capacity/storage")),
        column("Access Modes", "string", computed(|volume| access_modes(volume, "/spec/accessModes"))),
        column("Reclaim Policy", "string", at("/spec/persistentVolumeReclaimPolicy")),
        column("Status", "string", at("/status/phase")),
        column("Claim", "string", computed(claim)),
        column("StorageClass", "string", at("/spec/storageClassName")),
        column(
            "VolumeAttributesClass",
            "string",
            computed(|volume| or_unset(volume, "/spec/volumeAttributesClassName")),
        ),
        column("Reason", "string", at("/status/reason")),
        age(),
        wide("VolumeMode", "string", at("/spec/volumeMode")),
    ]
}

fn persistent_volume_claim() -> Vec<TableColumn> {
    vec![
        column("Status", "string", at("/status/phase")),
        column("Volume", "string", at("/spec/volumeName")),
        column("Capacity", "string", computed(|claim| if_bound(claim, text(claim, "/status/capacity/storage").into()))),
        column("Access Modes", "string", computed(|claim| if_bound(claim, access_modes(claim, "/status/accessModes")))),
        column("StorageClass", "string", at("/spec/storageClassName")),
        column("VolumeAttributesClass", "string", computed(|claim| or_unset(claim, "/spec/volumeAttributesClassName"))),
        age(),
        wide("VolumeMode", "string", at("/spec/volumeMode")),
    ]
}

/// Returns the value if a claim has its volume, and nothing else.
fn if_bound(claim: &Value, value: Value) -> Value {
    if text(claim, "/spec/volumeName").is_empty() { "".into() } else { value }
}

fn or_unset(document: &Value, pointer: &str) -> Value {
    let unset = if pointer.contains("Class") { "<unset>" } else { "N/A" };
    document.pointer(pointer).map_or_else(|| unset.into(), |value| plain(value).into())
}

/// Returns the used and the allowed amounts of a quota: `pods: 1/10`.
fn quota(document: &Value, limits: bool) -> Value {
    let hard = document.pointer("/status/hard").and_then(Value::as_object);
    let of_kind = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits.") == limits);
    let shown = of_kind.map(|(name, most)| {
        let used = document["status"]["used"][name.as_str()].as_str().unwrap_or("0");
        format!("{name}: {used}/{}", plain(most))
    });
    shown.collect::<Vec<_>>().join(", ").into()
}

fn endpoints(document: &Value) -> Value {
    let of_subset = |subset: &Value| {
        let ports: Vec<String> = items(subset, "/ports").iter().map(|port| port["port"].to_string()).collect();
        let address = |address: &Value| match ports.first() {
            Some(port) => format!("{}:{port}", plain(&address["ip"])),
            None => plain(&address["ip"]),
        };
        items(subset, "/addresses").iter().map(address).collect::<Vec<_>>().join(",")
    };
    joined(document, "/subsets", of_subset)
}

/// Texts of a list that a cell of an `EndpointSlice` shows.
const SHOWN_MAX: usize = 3;

fn slice_ports(slice: &Value) -> Value {
    first_ones(items(slice, "/ports").iter().map(|port| match (port["port"].as_u64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }))
}

fn slice_endpoints(slice: &Value) -> Value {
    first_ones(items(slice, "/endpoints").iter().flat_map(|endpoint| items(endpoint, "/addresses")).map(plain))
}

/// Returns the first texts, and how many more there are: `1,2,3 + 4 more...`.
fn first_ones(texts: impl Iterator<Item = String>) -> Value {
    let all: Vec<String> = texts.collect();
    let shown = all[..all.len().min(SHOWN_MAX)].join(",");
    match all.len().saturating_sub(SHOWN_MAX) {
        _ if all.is_empty() => "<unset>".into(),
        0 => shown.into(),
        more => format!("{shown} + {more} more...").into(),
    }
}

fn owner(document: &Value) -> String {
    let controller = items(document, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    controller
        .map(|owner| format!("{}/{}", plain(&owner["kind"]).to_lowercase(), plain(&owner["name"])))
        .unwrap_or_default()
}

fn binding() -> Vec<TableColumn> {
    let role = |binding: &Value| {
        let role = &binding["roleRef"];
        format!("{}/{}", plain(&role["kind"]), plain(&role["name"])).into()
    };
    let subjects = |kind: &'static str| {
        computed(move |binding: &Value| {
            let of_kind = items(binding, "/subjects").iter().filter(|subject| subject["kind"] == kind);
            let name = |subject: &Value| match subject["namespace"].as_str().filter(|_| kind == "ServiceAccount") {
                Some(namespace) => format!("{namespace}/{}", plain(&subject["name"])),
                None => plain(&subject["name"]),
            };
            of_kind.map(name).collect::<Vec<_>>().join(", ").into()
        })
    };
    vec![
        column("Role", "string", computed(role)),
        age(),
        wide("Users", "string", subjects("User")),
        wide("Groups", "string", subjects("Group")),
        wide("ServiceAccounts", "string", subjects("ServiceAccount")),
    ]
}
