//! Published software, with its default settings, against a host without a cluster: helm, an operator built on
//! controller-runtime, the controller of volume snapshots, kube-scheduler, and some controllers of kube-controller-manager with
//! a guest as the node.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use homeostat_testing::{BOUND, eventually_built, until};
use homeostat_tests::{
    Authority, HostProcess, guest, helm, kube_controller_manager, kube_scheduler, kubectl, manager,
    snapshot_controller, snapshot_definitions,
};
use tempfile::TempDir;

/// Lines of the log of a program that a test shows when it fails.
const LOG_LINES_MAX: usize = 60;

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

    /// Applies a manifest, which is written into a file of this name.
    fn apply(&self, file: &str, manifest: &str) {
        std::fs::write(self.home.path().join(file), manifest).unwrap();
        self.kubectl(&["apply", "-f", file]);
    }

    /// Starts a program that runs until it is dropped.
    pub(crate) fn spawn(&self, program: &Path, arguments: &[&str]) -> OperatorProcess {
        let log = self.home.path().join(program.file_name().unwrap()).with_extension("log");
        let file = std::fs::File::create(&log).unwrap();
        let mut command = self.command(program, arguments);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        OperatorProcess { process: command.spawn().unwrap(), log }
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
pub(crate) struct OperatorProcess {
    process: Child,
    log: PathBuf,
}

impl OperatorProcess {
    /// Returns what the program has said.
    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// Returns the last lines that the program has said.
    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    }

    /// Waits until the program has said all of these words in one line.
    fn until_it_says(&self, words: &[&str]) {
        let says = || self.log().lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(());
        assert!(until(BOUND, says).is_some(), "the program does not say {words:?}:\n{}", self.end_of_log());
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
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

/// Asserts that the garbage collector of kube-controller-manager watches all kinds, and removes the reference to an owner that
/// is gone from a resource with another owner. The host's own collector keeps such a reference.
fn assert_collects_garbage(place: &Place, controllers: &OperatorProcess) {
    controllers.until_it_says(&["Garbage collector: all resource monitors have synced"]);
    let log = controllers.log();
    let is_fault = |line: &&str| line.contains("failed to discover") || line.contains("ignoring invalid discovered");
    let faults: Vec<&str> = log.lines().filter(is_fault).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let owner = |name: &str| {
        place.kubectl(&["create", "configmap", name, "-n", "shop"]);
        let uid = place.kubectl(&["get", "configmap", name, "-n", "shop", "-o", "jsonpath={.metadata.uid}"]);
        format!("{{apiVersion: v1, kind: ConfigMap, name: {name}, uid: \"{uid}\"}}")
    };
    let owners = ["gone", "left"].map(owner).join(", ");
    let owned = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: owned, namespace: shop, ownerReferences: [{owners}]}}\n"
    );
    place.apply("owned.yaml", &owned);
    place.kubectl(&["delete", "configmap", "gone", "-n", "shop"]);
    let names = "jsonpath={.metadata.ownerReferences[*].name}";
    let owners = || place.kubectl(&["get", "configmap", "owned", "-n", "shop", "-o", names]);
    let removed = until(BOUND, || (owners() == "left").then_some(()));
    assert!(removed.is_some(), "the reference to the owner that is gone stays:\n{}", controllers.end_of_log());
}

/// Deletes a namespace whose content stays, because it has a finalizer.
fn delete_kept_namespace(place: &Place) {
    place.kubectl(&["create", "namespace", "kept"]);
    let config = "apiVersion: v1\nkind: ConfigMap\n\
        metadata: {name: config, namespace: kept, finalizers: [demo.dev/kept]}\n";
    place.apply("kept.yaml", config);
    place.kubectl(&["delete", "namespace", "kept", "--wait=false"]);
}

/// Asserts that the namespace controller of kube-controller-manager has deleted the resources of every kind in the deleted
/// namespace without an error, and has counted what is left. The namespace ends once the finalizer is gone.
fn assert_ends_kept_namespace(place: &Place, controllers: &OperatorProcess) {
    controllers.until_it_says(&["Content remaining in namespace", "namespace=\"kept\""]);
    let without = r#"{"metadata":{"finalizers":null}}"#;
    place.kubectl(&["patch", "configmap", "config", "-n", "kept", "--type=merge", "-p", without]);
    place.kubectl(&["wait", "--for=delete", "namespace/kept", "--timeout=120s"]);
}

/// Asserts that the host knows the token which a controller writes into a secret, because both have the same key.
fn assert_knows_token(place: &Place) {
    let secret = "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: of-default, \
        namespace: shop, annotations: {kubernetes.io/service-account.name: default}}\n";
    place.apply("secret.yaml", secret);
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
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kube_controller_manager_rolls_out_a_deployment_and_completes_its_work() {
    let place = Place::with_kubelet(true);
    let controllers = "--controllers=deployment-controller,replicaset-controller,job-controller,cronjob-controller,\
        garbage-collector-controller,namespace-controller,serviceaccount-controller,serviceaccount-token-controller";
    let kubeconfig = place.kubeconfig().display().to_string();
    let key = "--service-account-private-key-file=accounts.key";
    // At this level its namespace controller says what it has left.
    let arguments = ["--kubeconfig", &kubeconfig, "--secure-port=0", "-v=4", controllers, key];
    let controllers = place.spawn(&kube_controller_manager(), &arguments);
    delete_kept_namespace(&place);
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
    assert_knows_token(&place);
    assert_collects_garbage(&place, &controllers);
    assert_ends_kept_namespace(&place, &controllers);
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
    place.apply("snapshot.yaml", SNAPSHOT);
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
