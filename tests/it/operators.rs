//! Published software, with its default settings, against a host without a cluster: helm, an operator built on
//! controller-runtime, the controller of volume snapshots, kube-scheduler, and some controllers of kube-controller-manager with
//! a guest as the node.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use homeostat_testing::eventually_built;
use homeostat_tests::{
    Authority, HostProcess, guest, helm, kube_controller_manager, kube_scheduler, kubectl, manager,
    snapshot_controller, snapshot_definitions,
};
use tempfile::TempDir;

/// A host on a port, and a folder with the files of its clients.
pub(crate) struct Place {
    host: HostProcess,
    home: TempDir,
    _folder: TempDir,
}

impl Place {
    /// Starts a host with a guest as the node of its pods. `unscheduled` is whether it runs pods that no scheduler has seen.
    pub(crate) fn with_kubelet(unscheduled: bool) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::copy(guest("kubelet"), folder.path().join("kubelet.wasm")).unwrap();
        let verbs = "get, list, watch, patch, update-status, delete";
        let controller = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: kubelet}}\nspec:\n  \
            component: {{file: kubelet.wasm}}\n  config: {{startup: 10ms, shutdown: 4s, unscheduled: '{unscheduled}'}}\n  \
            grants:\n    resources:\n      - {{kinds: [Pod], verbs: [{verbs}], namespaces: [\"*\"]}}\n"
        );
        std::fs::write(folder.path().join("kubelet.yaml"), controller).unwrap();
        Self::over(folder)
    }

    /// Starts a host over the files of a folder, with a key for tokens of service accounts.
    fn over(folder: TempDir) -> Self {
        let home = TempDir::new().unwrap();
        let key = home.path().join("accounts.key");
        std::fs::write(&key, Authority::new().server().key).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let key = ["--service-account-key", key.to_str().unwrap()];
        let host = HostProcess::start_on_port("http", folder.path(), &home.path().join("host"), &key, &[]);
        host.kubeconfig(home.path());
        let place = Self { host, home, _folder: folder };
        // Kubernetes' controllers give up if the host has not compiled its component within ten seconds.
        place.until(&["get", "--raw", "/readyz"], "ok");
        place
    }

    fn start() -> Self {
        Self::over(TempDir::new().unwrap())
    }

    /// Returns the file with the address of the host.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    pub(crate) fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin");
        command.env("KUBECONFIG", self.kubeconfig()).current_dir(self.home.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a program, which has to succeed, and returns its output.
    fn run(&self, program: &Path, arguments: &[&str]) -> String {
        let output = self.command(program, arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{}\n{program:?} {arguments:?}: {said}", self.host.stderr());
        said
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.run(&kubectl(), arguments)
    }

    /// Starts a program that runs until it is dropped.
    pub(crate) fn spawn(&self, program: &Path, arguments: &[&str]) -> OperatorProcess {
        let log = self.home.path().join(program.file_name().unwrap()).with_extension("log");
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.command(program, arguments);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        OperatorProcess(command.spawn().unwrap())
    }

    /// Makes a node that is ready, with room for pods.
    pub(crate) fn make_node(&self, name: &str) {
        let file = self.kubeconfig().with_file_name(format!("{name}.yaml"));
        let labels = format!("kubernetes.io/hostname: {name}, kubernetes.io/os: linux, kubernetes.io/arch: amd64");
        let node = format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n");
        std::fs::write(&file, node).unwrap();
        self.kubectl(&["apply", "-f", &file.display().to_string()]);
        let room = "{\"cpu\":\"8\",\"memory\":\"16Gi\",\"pods\":\"110\"}";
        let status = format!(
            "{{\"status\":{{\"capacity\":{room},\"allocatable\":{room},\
             \"conditions\":[{{\"type\":\"Ready\",\"status\":\"True\"}}]}}}}"
        );
        self.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status]);
    }

    /// Waits until kubectl says what is wanted.
    pub(crate) fn until(&self, arguments: &[&str], wanted: &str) {
        eventually_built(&format!("kubectl {arguments:?} to say {wanted:?}"), || {
            let output = self.command(&kubectl(), arguments).output().unwrap();
            (String::from_utf8_lossy(&output.stdout).trim() == wanted).then_some(())
        });
    }
}

/// A program in the background.
pub(crate) struct OperatorProcess(Child);

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn helm_installs_upgrades_rolls_back_and_uninstalls_a_chart() {
    let (place, helm) = (Place::start(), helm());
    place.run(&helm, &["create", "chart"]);
    let namespace = ["-n", "shop"];
    place.run(&helm, &[&["install", "web", "chart", "--create-namespace"], &namespace[..]].concat());
    let address = ["get", "service", "web-chart", "-n", "shop", "-o", "jsonpath={.spec.clusterIP}"];
    assert!(place.kubectl(&address).starts_with("10."), "a service has an address");
    let replicas = ["get", "deployment", "web-chart", "-n", "shop", "-o", "jsonpath={.spec.replicas}"];
    assert_eq!(place.kubectl(&replicas), "1");
    place.run(&helm, &[&["upgrade", "web", "chart", "--set", "replicaCount=3"], &namespace[..]].concat());
    assert_eq!(place.kubectl(&replicas), "3");
    place.run(&helm, &[&["rollback", "web", "1"], &namespace[..]].concat());
    assert_eq!(place.kubectl(&replicas), "1");
    assert!(place.run(&helm, &[&["history", "web"], &namespace[..]].concat()).contains("Rollback to 1"));
    place.run(&helm, &[&["uninstall", "web"], &namespace[..]].concat());
    let left = place.kubectl(&["get", "deployments,services,serviceaccounts,secrets", "-n", "shop", "-o", "name"]);
    assert!(!left.contains('/'), "{left}");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_controller_runtime_manager_with_its_defaults_does_its_job() {
    let place = Place::start();
    let _manager = place.spawn(&manager(), &[]);
    place.kubectl(&["create", "configmap", "shop"]);
    place.kubectl(&["label", "configmap", "shop", "demo.dev/app=nginx"]);
    place.until(&["get", "deployment", "shop", "-o", "jsonpath={.spec.replicas}"], "2");
    place.until(&["get", "configmap", "shop-trace", "-o", "jsonpath={.data.image}"], "nginx");
    let note = "jsonpath={.items[?(@.reason==\"Applied\")].note}";
    place.until(&["get", "events.v1.events.k8s.io", "-o", note], "the deployment has nginx");
    let message = "jsonpath={.items[?(@.reason==\"Applied\")].message}";
    place.until(&["get", "events", "-o", message], "the deployment has nginx");
    assert!(place.kubectl(&["describe", "configmap", "shop"]).contains("the deployment has nginx"));
    // The operator repairs what it owns.
    place.kubectl(&["scale", "deployment", "shop", "--replicas", "5"]);
    place.until(&["get", "deployment", "shop", "-o", "jsonpath={.spec.replicas}"], "2");
    place.kubectl(&["delete", "configmap", "shop", "--wait=false"]);
    place.until(&["get", "configmaps,deployments", "-o", "name"], "");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kube_controller_manager_rolls_out_a_deployment_and_completes_its_work() {
    let place = Place::with_kubelet(true);
    let controllers = "--controllers=deployment-controller,replicaset-controller,job-controller,cronjob-controller,\
        garbage-collector-controller,namespace-controller,serviceaccount-controller,serviceaccount-token-controller";
    let kubeconfig = place.kubeconfig().display().to_string();
    let key = "--service-account-private-key-file=accounts.key";
    let arguments = ["--kubeconfig", &kubeconfig, "--secure-port=0", controllers, key];
    let _controllers = place.spawn(&kube_controller_manager(), &arguments);
    // It leads by a lease, and makes the account of each namespace.
    place.kubectl(&["create", "namespace", "shop"]);
    place.until(&["get", "serviceaccounts", "-n", "shop", "-o", "name"], "serviceaccount/default");
    place.until(
        &["get", "leases", "-n", "kube-system", "-o", "name"],
        "lease.coordination.k8s.io/kube-controller-manager",
    );
    place.kubectl(&["create", "deployment", "web", "--image=web:1", "--replicas=3", "-n", "shop"]);
    place.kubectl(&["rollout", "status", "deployment/web", "-n", "shop", "--timeout=120s"]);
    place.kubectl(&["set", "image", "deployment/web", "web=web:2", "-n", "shop"]);
    place.kubectl(&["rollout", "status", "deployment/web", "-n", "shop", "--timeout=120s"]);
    let images = "jsonpath={.items[*].spec.containers[0].image}";
    place.until(&["get", "pods", "-n", "shop", "-o", images], "web:2 web:2 web:2");
    place.until(&["get", "deployment", "web", "-n", "shop", "-o", "jsonpath={.status.readyReplicas}"], "3");
    let scaled = "jsonpath={.items[?(@.reason==\"ScalingReplicaSet\")].involvedObject.name}";
    assert!(place.kubectl(&["get", "events", "-n", "shop", "-o", scaled]).contains("web"));
    // The guest ends the pod of a task, which completes its job; the controller begins one by itself each minute.
    place.kubectl(&["create", "cronjob", "tick", "--image=task:1", "--schedule=* * * * *", "-n", "shop"]);
    place.kubectl(&["create", "job", "once", "--from=cronjob/tick", "-n", "shop"]);
    place.kubectl(&["wait", "job/once", "-n", "shop", "--for=condition=Complete", "--timeout=120s"]);
    place.until(&["get", "job", "once", "-n", "shop", "-o", "jsonpath={.status.succeeded}"], "1");
    let last = "--for=jsonpath={.status.lastSuccessfulTime}";
    place.kubectl(&["wait", "cronjob/tick", "-n", "shop", last, "--timeout=180s"]);
    // The host knows the token that it writes into a secret, because both have the same key.
    let secret = "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: of-default, \
        namespace: shop, annotations: {kubernetes.io/service-account.name: default}}\n";
    std::fs::write(place.home.path().join("secret.yaml"), secret).unwrap();
    place.kubectl(&["apply", "-f", "secret.yaml"]);
    let token = [
        "get",
        "secret",
        "of-default",
        "-n",
        "shop",
        "-o",
        "go-template={{with .data}}{{.token | base64decode}}{{end}}",
    ];
    let token =
        eventually_built("the secret to have a token", || Some(place.kubectl(&token)).filter(|text| text.len() > 20));
    let review = format!("apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {{token: {token}}}\n");
    std::fs::write(place.home.path().join("review.yaml"), review).unwrap();
    let user = place.kubectl(&["create", "-f", "review.yaml", "-o", "jsonpath={.status.user.username}"]);
    assert_eq!(user, "system:serviceaccount:shop:default");
    // The namespace goes with all that is in it.
    place.kubectl(&["delete", "namespace", "shop", "--timeout=120s"]);
    place.until(&["get", "deployments,pods,jobs,cronjobs", "-A", "-o", "name"], "");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kube_scheduler_gives_pods_the_node_that_fits() {
    let place = Place::start();
    let kubeconfig = place.kubeconfig().display().to_string();
    let _scheduler = place.spawn(&kube_scheduler(), &["--kubeconfig", &kubeconfig, "--secure-port=0"]);
    for name in ["fast", "slow"] {
        place.make_node(name);
        // A new node has this taint until a controller finds it ready.
        place.kubectl(&["taint", "nodes", name, "node.kubernetes.io/not-ready-"]);
    }
    let selector = "{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"slow\"}}}";
    place.kubectl(&["run", "web", "--image=web:1", "--overrides", selector]);
    place.until(&["get", "pod", "web", "-o", "jsonpath={.spec.nodeName}"], "slow");
    let scheduled = "jsonpath={.items[?(@.reason==\"Scheduled\")].message}";
    place.until(&["get", "events", "-o", scheduled], "Successfully assigned default/web to slow");
    let nowhere = "{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"tape\"}}}";
    place.kubectl(&["run", "lost", "--image=web:1", "--overrides", nowhere]);
    place.until(
        &["get", "pod", "lost", "-o", "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].reason}"],
        "Unschedulable",
    );
}

/// A claim of a disk that somebody provisioned, and a snapshot of it by the default class of its driver.
const SNAPSHOT: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: disks.example.com
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  csi: {driver: disks.example.com, volumeHandle: disk-1}
  claimRef: {namespace: default, name: data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  volumeName: disk
  resources: {requests: {storage: 1Gi}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: daily, annotations: {snapshot.storage.kubernetes.io/is-default-class: "true"}}
driver: disks.example.com
deletionPolicy: Delete
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: today}
spec: {source: {persistentVolumeClaimName: data}}
"#;

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_published_controller_of_volume_snapshots_binds_a_snapshot() {
    let place = Place::start();
    for kind in ["volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"] {
        let file = snapshot_definitions().join(format!("snapshot.storage.k8s.io_{kind}.yaml"));
        place.kubectl(&["create", "-f", file.to_str().unwrap()]);
        let crd = format!("crd/{kind}.snapshot.storage.k8s.io");
        place.kubectl(&["wait", "--for=condition=Established", &crd]);
    }
    std::fs::write(place.home.path().join("snapshot.yaml"), SNAPSHOT).unwrap();
    place.kubectl(&["apply", "-f", "snapshot.yaml"]);
    let status = |of: &str, status: &str| {
        place.kubectl(&["patch", of, "--subresource=status", "--type=merge", "-p", status]);
    };
    status("pv/disk", r#"{"status":{"phase":"Bound"}}"#);
    status("pvc/data", r#"{"status":{"phase":"Bound"}}"#);
    let _controller = place.spawn(&snapshot_controller(), &["--kubeconfig", "kubeconfig"]);
    place.until(&["get", "vs", "today", "-o", "jsonpath={.spec.volumeSnapshotClassName}"], "daily");
    let bound = ["get", "vs", "today", "-o", "jsonpath={.status.boundVolumeSnapshotContentName}"];
    let uid = place.kubectl(&["get", "vs", "today", "-o", "jsonpath={.metadata.uid}"]);
    let content = format!("snapcontent-{}", uid.trim());
    place.until(&bound, &content);
    // The driver of the disk, which runs beside a node, reports that it has made the snapshot.
    let made = r#"{"status":{"snapshotHandle":"snapshot-1","readyToUse":true,"restoreSize":1073741824,
        "creationTime":1767225600000000000}}"#;
    status(&format!("volumesnapshotcontent/{content}"), made);
    place.until(&["get", "vs", "today", "-o", "jsonpath={.status.readyToUse} {.status.restoreSize}"], "true 1Gi");
}
