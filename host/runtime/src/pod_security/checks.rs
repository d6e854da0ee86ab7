//! The checks of the levels of Pod Security, on the metadata and the `spec` of a pod. Pure.
//!
//! Source: `policy` of `k8s.io/pod-security-admission`, in the rules of its latest version.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Level;

/// The capabilities that a container may add at the level `baseline`.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The parameters of the kernel that a pod may set.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// The types of SELinux that a pod may name.
const SELINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// The sources of volumes that a pod may have at the level `restricted`.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The prefix of the annotations that named profiles of AppArmor before there was a field.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// A fault of a pod that its level forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckResult {
    pub(super) reason: String,
    pub(super) detail: String,
}

/// Returns what a level forbids in a pod, in the order of Kubernetes.
pub(super) fn findings(level: Level, metadata: &Value, spec: &Value) -> Vec<CheckResult> {
    let pod = PodView { metadata, spec };
    let found = match level {
        Level::Privileged => Vec::new(),
        Level::Baseline => pod.baseline_findings(),
        Level::Restricted => pod.restricted_findings(),
    };
    found.into_iter().flatten().collect()
}

/// A pod, or the template of one.
struct PodView<'p> {
    metadata: &'p Value,
    spec: &'p Value,
}

impl<'p> PodView<'p> {
    fn baseline_findings(&self) -> Vec<Option<CheckResult>> {
        vec![
            self.app_armor(),
            self.added_capabilities(),
            self.host_namespaces(),
            self.host_paths(),
            self.host_ports(),
            self.probe_hosts(),
            self.privileged(),
            self.proc_mounts().filter(|_| !self.has_user_namespace()),
            self.selinux(),
            self.seccomp(false),
            self.sysctls(),
            self.host_processes(),
        ]
    }

    /// The checks of the level `restricted` take the place of those of `baseline` for the same fields.
    fn restricted_findings(&self) -> Vec<Option<CheckResult>> {
        let (is_linux, is_user) = (self.spec["os"]["name"] != "windows", self.has_user_namespace());
        vec![
            self.app_armor(),
            self.host_namespaces(),
            self.host_ports(),
            self.probe_hosts(),
            self.privileged(),
            self.selinux(),
            self.sysctls(),
            self.host_processes(),
            self.privilege_escalation().filter(|_| is_linux),
            self.restricted_capabilities().filter(|_| is_linux),
            self.proc_mounts(),
            self.restricted_volumes(),
            self.run_as_non_root().filter(|_| !is_user),
            self.run_as_user().filter(|_| !is_user),
            self.seccomp(true).filter(|_| is_linux),
        ]
    }

    /// Returns all containers, each with its name.
    fn containers(&self) -> impl Iterator<Item = (&'p str, &'p Value)> + use<'p> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let all = lists.into_iter().flat_map(|list| items(&spec[list]));
        all.map(|container| (container["name"].as_str().unwrap_or_default(), container))
    }

    /// Returns the names of the containers for which something holds.
    fn names(&self, holds: impl Fn(&'p Value) -> bool) -> Vec<&'p str> {
        self.containers().filter(|(_, container)| holds(container)).map(|(name, _)| name).collect()
    }

    /// Returns the security contexts of the pod and of its containers.
    fn contexts(&self) -> impl Iterator<Item = &'p Value> + use<'p> {
        let of_containers = self.containers().map(|(_, container)| &container["securityContext"]);
        std::iter::once(&self.spec["securityContext"]).chain(of_containers)
    }

    /// Returns who has a bad security context: the pod, containers, or both.
    fn setters(&self, is_bad: impl Fn(&'p Value) -> bool) -> Vec<String> {
        let of_pod = is_bad(&self.spec["securityContext"]).then(|| "pod".to_owned());
        let names = self.names(|container| is_bad(&container["securityContext"]));
        let of_containers = (!names.is_empty()).then(|| containers(&names));
        of_pod.into_iter().chain(of_containers).collect()
    }

    fn has_user_namespace(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    fn privileged(&self) -> Option<CheckResult> {
        let names = self.names(|container| container["securityContext"]["privileged"] == true);
        finding(!names.is_empty(), "privileged", || {
            format!("{} must not set securityContext.privileged=true", containers(&names))
        })
    }

    fn host_namespaces(&self) -> Option<CheckResult> {
        let set = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| self.spec[*name] == true);
        let set: Vec<String> = set.map(|name| format!("{name}=true")).collect();
        finding(!set.is_empty(), "host namespaces", || set.join(", "))
    }

    fn host_paths(&self) -> Option<CheckResult> {
        let volumes = items(&self.spec["volumes"]).iter().filter(|volume| !volume["hostPath"].is_null());
        let names: Vec<&str> = volumes.filter_map(|volume| volume["name"].as_str()).collect();
        finding(!names.is_empty(), "hostPath volumes", || {
            format!("{} {}", plural("volume", names.len()), quoted(&names))
        })
    }

    fn host_ports(&self) -> Option<CheckResult> {
        let of = |container: &'p Value| {
            let ports = items(&container["ports"]).iter().filter_map(|port| port["hostPort"].as_u64());
            ports.filter(|port| *port != 0).map(|port| port.to_string())
        };
        let names = self.names(|container| of(container).next().is_some());
        let ports: BTreeSet<String> = self.containers().flat_map(|(_, container)| of(container)).collect();
        finding(!names.is_empty(), "hostPort", || {
            let listed: Vec<&str> = ports.iter().map(String::as_str).collect();
            let (words, ports) = (plural("hostPort", listed.len()), listed.join(", "));
            format!("{} {} {words} {ports}", containers(&names), uses(names.len()))
        })
    }

    fn probe_hosts(&self) -> Option<CheckResult> {
        let of = |container: &'p Value| {
            let handlers =
                ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
            let handlers = handlers.into_iter().filter_map(|pointer| container.pointer(pointer));
            let hosts = handlers.flat_map(|handler| [&handler["httpGet"]["host"], &handler["tcpSocket"]["host"]]);
            hosts.filter_map(Value::as_str).filter(|host| !host.is_empty())
        };
        let names: BTreeSet<&str> = self.names(|container| of(container).next().is_some()).into_iter().collect();
        let hosts: BTreeSet<&str> = self.containers().flat_map(|(_, container)| of(container)).collect();
        finding(!names.is_empty(), "probe or lifecycle host", || {
            let (names, hosts) = (Vec::from_iter(names), Vec::from_iter(hosts));
            let words = plural("probe or lifecycle host", hosts.len());
            format!("{} {} {words} {}", containers(&names), uses(names.len()), quoted(&hosts))
        })
    }

    fn added_capabilities(&self) -> Option<CheckResult> {
        let (names, added) = self.capabilities_beside(&CAPABILITIES);
        finding(!names.is_empty(), "non-default capabilities", || capability_words(&names, &added))
    }

    /// Returns the containers that add other capabilities, and these.
    fn capabilities_beside(&self, allowed: &[&str]) -> (Vec<&'p str>, Vec<&'p str>) {
        let of = |container: &'p Value| {
            let added = items(&container["securityContext"]["capabilities"]["add"]).iter().filter_map(Value::as_str);
            added.filter(|name| !allowed.contains(name)).collect::<Vec<_>>()
        };
        let all: BTreeSet<&str> = self.containers().flat_map(|(_, container)| of(container)).collect();
        (self.names(|container| !of(container).is_empty()), all.into_iter().collect())
    }

    fn app_armor(&self) -> Option<CheckResult> {
        let bad_type = |context: &'p Value| {
            let profile = &context["appArmorProfile"];
            let name = profile["type"].as_str().unwrap_or_default();
            (profile.is_object() && !matches!(name, "RuntimeDefault" | "Localhost")).then_some(name)
        };
        let mut setters = self.setters(|context| bad_type(context).is_some());
        let is_allowed = |text: &str| text.is_empty() || text == "runtime/default" || text.starts_with("localhost/");
        let annotations = self.metadata["annotations"].as_object().into_iter().flatten();
        let annotations = annotations.filter_map(|(name, value)| Some((name, value.as_str()?)));
        let named = annotations.filter(|(name, text)| name.starts_with(APP_ARMOR) && !is_allowed(text));
        let named: BTreeSet<String> = named.map(|(name, text)| format!("{name}={text:?}")).collect();
        if !named.is_empty() {
            setters.push(plural("annotation", named.len()));
        }
        let types: BTreeSet<&str> = self.contexts().filter_map(bad_type).collect();
        let values: Vec<&str> = types.into_iter().chain(named.iter().map(String::as_str)).collect();
        finding(!setters.is_empty(), &plural("forbidden AppArmor profile", values.len()), || {
            format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values))
        })
    }

    fn selinux(&self) -> Option<CheckResult> {
        let text = |context: &'p Value, name: &str| context["seLinuxOptions"][name].as_str().unwrap_or_default();
        let is_bad = |context: &Value| {
            let options = &context["seLinuxOptions"];
            let text = |name: &str| options[name].as_str().unwrap_or_default();
            !SELINUX_TYPES.contains(&text("type")) || !text("user").is_empty() || !text("role").is_empty()
        };
        let setters = self.setters(is_bad);
        let types: BTreeSet<&str> = self.contexts().map(|context| text(context, "type")).collect();
        let types: Vec<&str> = types.into_iter().filter(|name| !SELINUX_TYPES.contains(name)).collect();
        let of_types = (!types.is_empty()).then(|| format!("{} {}", plural("type", types.len()), quoted(&types)));
        let others = ["user", "role"].into_iter().filter(|name| self.contexts().any(|of| !text(of, name).is_empty()));
        let parts: Vec<String> =
            of_types.into_iter().chain(others.map(|name| format!("{name} may not be set"))).collect();
        finding(!setters.is_empty(), "seLinuxOptions", || {
            format!("{} set forbidden securityContext.seLinuxOptions: {}", setters.join(" and "), parts.join("; "))
        })
    }

    fn proc_mounts(&self) -> Option<CheckResult> {
        let of = |container: &'p Value| {
            container["securityContext"]["procMount"].as_str().filter(|mount| *mount != "Default")
        };
        let names = self.names(|container| of(container).is_some());
        let mounts: BTreeSet<&str> = self.containers().filter_map(|(_, container)| of(container)).collect();
        finding(!names.is_empty(), "procMount", || {
            let mounts = Vec::from_iter(mounts);
            format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(&mounts))
        })
    }

    /// Checks the profiles of seccomp. If each container needs one, its own or that of the pod, it names those without one.
    fn seccomp(&self, is_needed: bool) -> Option<CheckResult> {
        let is_set = |context: &Value| context["seccompProfile"].is_object();
        let is_valid = |context: &Value| {
            matches!(context["seccompProfile"]["type"].as_str(), Some("RuntimeDefault" | "Localhost"))
        };
        let is_bad = |context: &Value| is_set(context) && !is_valid(context);
        let setters = self.setters(is_bad);
        if !setters.is_empty() {
            let bad = self.contexts().filter(|context| is_bad(context));
            let types: BTreeSet<&str> = bad.filter_map(|context| context["seccompProfile"]["type"].as_str()).collect();
            let (who, types) = (setters.join(" and "), Vec::from_iter(types));
            return finding(true, "seccompProfile", || {
                format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&types))
            });
        }
        let is_covered = is_set(&self.spec["securityContext"]);
        let names = self.names(|container| !is_covered && !is_set(&container["securityContext"]));
        finding(is_needed && !names.is_empty(), "seccompProfile", || {
            let words = r#"must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#;
            format!("pod or {} {words}", containers(&names))
        })
    }

    fn sysctls(&self) -> Option<CheckResult> {
        let set = items(&self.spec["securityContext"]["sysctls"]).iter().filter_map(|sysctl| sysctl["name"].as_str());
        let set: Vec<&str> = set.filter(|name| !SYSCTLS.contains(name)).collect();
        finding(!set.is_empty(), "forbidden sysctls", || set.join(", "))
    }

    fn host_processes(&self) -> Option<CheckResult> {
        let setters = self.setters(|context| context["windowsOptions"]["hostProcess"] == true);
        finding(!setters.is_empty(), "hostProcess", || {
            format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and "))
        })
    }

    fn privilege_escalation(&self) -> Option<CheckResult> {
        let names = self.names(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
        finding(!names.is_empty(), "allowPrivilegeEscalation != false", || {
            format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names))
        })
    }

    fn restricted_capabilities(&self) -> Option<CheckResult> {
        let drops_all = |container: &Value| {
            items(&container["securityContext"]["capabilities"]["drop"]).iter().any(|dropped| dropped == "ALL")
        };
        let keeping = self.names(|container| !drops_all(container));
        let (adding, added) = self.capabilities_beside(&["NET_BIND_SERVICE"]);
        let words = r#"must set securityContext.capabilities.drop=["ALL"]"#;
        let of_keeping = (!keeping.is_empty()).then(|| format!("{} {words}", containers(&keeping)));
        let of_adding = (!adding.is_empty()).then(|| capability_words(&adding, &added));
        let parts: Vec<String> = of_keeping.into_iter().chain(of_adding).collect();
        finding(!parts.is_empty(), "unrestricted capabilities", || parts.join("; "))
    }

    fn restricted_volumes(&self) -> Option<CheckResult> {
        let source = |volume: &'p Value| {
            let mut fields = volume.as_object().into_iter().flatten();
            fields
                .find(|(name, value)| *name != "name" && !value.is_null())
                .map_or("unknown", |(name, _)| name.as_str())
        };
        let all = items(&self.spec["volumes"]).iter().map(|volume| (volume["name"].as_str(), source(volume)));
        let bad: Vec<_> = all.filter(|(_, source)| !VOLUMES.contains(source)).collect();
        finding(!bad.is_empty(), "restricted volume types", || {
            let names: Vec<&str> = bad.iter().map(|(name, _)| name.unwrap_or_default()).collect();
            let sources = Vec::from_iter(bad.iter().map(|(_, source)| *source).collect::<BTreeSet<_>>());
            let words = plural("restricted volume type", sources.len());
            let volumes = format!("{} {}", plural("volume", names.len()), quoted(&names));
            format!("{volumes} {} {words} {}", uses(names.len()), quoted(&sources))
        })
    }

    fn run_as_non_root(&self) -> Option<CheckResult> {
        const REASON: &str = "runAsNonRoot != true";
        let setters = self.setters(|context| context["runAsNonRoot"] == false);
        if !setters.is_empty() {
            let who = setters.join(" and ");
            return finding(true, REASON, || format!("{who} must not set securityContext.runAsNonRoot=false"));
        }
        let is_covered = self.spec["securityContext"]["runAsNonRoot"] == true;
        let names = self.names(|container| !is_covered && !container["securityContext"]["runAsNonRoot"].is_boolean());
        finding(!names.is_empty(), REASON, || {
            format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names))
        })
    }

    fn run_as_user(&self) -> Option<CheckResult> {
        let setters = self.setters(|context| context["runAsUser"] == 0);
        finding(!setters.is_empty(), "runAsUser=0", || format!("{} must not set runAsUser=0", setters.join(" and ")))
    }
}

fn finding(is_found: bool, reason: &str, detail: impl FnOnce() -> String) -> Option<CheckResult> {
    is_found.then(|| CheckResult { reason: reason.to_owned(), detail: detail() })
}

fn capability_words(names: &[&str], added: &[&str]) -> String {
    format!("{} must not include {} in securityContext.capabilities.add", containers(names), quoted(added))
}

fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", names.len()), quoted(names))
}

fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn quoted(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    texts.join(", ")
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests;
