//! The settings of a store in a Kubernetes cluster, as written.

use std::path::PathBuf;
use std::{env, fs};

use homeostat_kubernetes::{ClusterSettings, Credentials};
use homeostat_runtime::manifest::Span;
use serde::Deserialize;

use super::checks::{Context, Fault};

/// The service account of a pod. Source: Kubernetes.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A cluster, and who the host is there.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct KubernetesEntry {
    /// A file of kubectl. Without it and without `inCluster`: the files of `KUBECONFIG`, then `~/.kube/config`, then
    /// the service account of the pod.
    kubeconfig: Option<PathBuf>,
    /// Uses the service account of the pod.
    in_cluster: bool,
    /// The context of the file; the current one by default.
    context: Option<String>,
    /// Lists and watches this namespace alone.
    namespace: Option<String>,
    /// Before the name of each manager.
    field_manager_prefix: Option<String>,
    requests: RequestsEntry,
    leases: LeasesEntry,
}

/// Where the leases of controllers are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct LeasesEntry {
    /// By default the namespace of the store, else that of the account of the pod or of the context.
    namespace: Option<String>,
}

/// Bounds on requests.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RequestsEntry {
    in_flight: Option<usize>,
    /// `null` for the server's own fairness.
    per_second: Option<u32>,
    deadline: Option<Span>,
}

impl KubernetesEntry {
    /// Returns the settings of the store with this name.
    pub(super) fn settings(&self, name: &str, context: &Context<'_>) -> Result<ClusterSettings, Fault> {
        let mut settings = ClusterSettings::new(name, self.credentials(context)?);
        settings.namespace.clone_from(&self.namespace);
        settings.instance = machine().unwrap_or(settings.instance);
        if let Some(prefix) = &self.field_manager_prefix {
            settings.manager_prefix.clone_from(prefix);
        }
        let RequestsEntry { in_flight, per_second, deadline } = self.requests;
        settings.in_flight_max = in_flight.unwrap_or(settings.in_flight_max);
        settings.per_second_max = per_second;
        settings.deadline = deadline.map_or(settings.deadline, |deadline| deadline.0);
        let LeasesEntry { namespace } = self.leases.clone();
        let of_account = || self.namespace.is_none().then(|| account_namespace(&settings.credentials)).flatten();
        settings.lease_namespace = namespace.or_else(of_account);
        settings.check().map_err(Fault::of)?;
        Ok(settings)
    }

    fn credentials(&self, context: &Context<'_>) -> Result<Credentials, Fault> {
        match (&self.kubeconfig, self.in_cluster) {
            (Some(_), true) => Err(Fault::new("inCluster", "`kubeconfig` and `inCluster` exclude each other")),
            (Some(file), false) => Ok(self.files(vec![context.path(file)])),
            (None, true) => pod().ok_or_else(|| Fault::new("inCluster", "this process does not run in a pod")),
            (None, false) => {
                let found = kubectl_files();
                if !found.is_empty() {
                    return Ok(self.files(found));
                }
                let nothing = "no cluster is known: set `kubeconfig`, or KUBECONFIG, or write ~/.kube/config";
                pod().ok_or_else(|| Fault::new("", nothing))
            }
        }
    }

    fn files(&self, files: Vec<PathBuf>) -> Credentials {
        Credentials::Kubeconfig { files, context: self.context.clone() }
    }
}

/// Returns the name of this machine; `None` where the system does not tell it in a file.
fn machine() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the namespace of a service account; `None` for other credentials.
fn account_namespace(credentials: &Credentials) -> Option<String> {
    let Credentials::Pod { folder, .. } = credentials else { return None };
    let name = fs::read_to_string(folder.join("namespace")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the files that kubectl would read.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
fn kubectl_files() -> Vec<PathBuf> {
    if let Some(files) = env::var_os("KUBECONFIG").filter(|files| !files.is_empty()) {
        return env::split_paths(&files).filter(|file| !file.as_os_str().is_empty()).collect();
    }
    let file = env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    file.filter(|file| file.exists()).into_iter().collect()
}

/// Returns the service account of the pod that this process runs in.
#[expect(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
fn pod() -> Option<Credentials> {
    let host = env::var("KUBERNETES_SERVICE_HOST").ok()?;
    let port = env::var("KUBERNETES_SERVICE_PORT").ok()?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let folder = PathBuf::from(ACCOUNT);
    folder.exists().then(|| Credentials::Pod { server: format!("https://{host}:{port}"), folder })
}
