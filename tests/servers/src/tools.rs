//! Third-party programs that tests use. Their versions and checksums are in `tests/tools/go.mod` and `go.sum`, those
//! of NATS and of the registry tools in the modules below it, and in `tests/tools/kube/Cargo.lock`; those of Python
//! and JavaScript tools are in `tests/tools/python` and `tests/tools/javascript`. The tools that build guests in other languages are in `tests/toolchains`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// The version that the programs of Kubernetes report. The module's version is in `go.mod`.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// The module of the programs of Kubernetes, and of its etcd.
const KUBERNETES: &str = "tests/tools";

/// The module of the NATS server. Like that of the registry tools, it is separate from that of Kubernetes, which is
/// tested with other versions of the same libraries.
const NATS: &str = "tests/tools/nats";

/// The module of the registry tools.
const REGISTRY: &str = "tests/tools/registry";

/// The module of helm.
const HELM: &str = "tests/tools/helm";

/// The module of the controller of volume snapshots.
const SNAPSHOTS: &str = "tests/tools/snapshots";

/// The module of an operator on a current controller-runtime.
const MANAGER: &str = "tests/tools/manager";

/// The module of Kubernetes' own end-to-end tests.
const END_TO_END: &str = "tests/tools/e2e";

/// The module of the package that starts hosts for tests in Go.
const TEST_ENVIRONMENT: &str = "examples/testenv/go";

/// The modules that share the versions of [`WORKSPACE`]. Each other module has the versions of its own `go.mod`.
const OF_WORKSPACE: [&str; 4] = [HELM, MANAGER, SNAPSHOTS, TEST_ENVIRONMENT];

const WORKSPACE: &str = "tests/client-go.work";

/// Returns the `kubectl` of a current release. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn kubectl() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| kubernetes("kubectl")).clone()
}

/// Returns the API server of Kubernetes. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub(crate) fn kube_apiserver() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| kubernetes("kube-apiserver")).clone()
}

/// Returns the controllers of Kubernetes. The first call on a machine builds them.
///
/// # Panics
/// When they cannot be built: they need Go 1.26 or newer.
pub fn kube_controller_manager() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| kubernetes("kube-controller-manager")).clone()
}

/// Returns the scheduler of Kubernetes. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn kube_scheduler() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| kubernetes("kube-scheduler")).clone()
}

/// Returns the etcd whose client is in this Kubernetes. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub(crate) fn etcd() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(KUBERNETES, "go.etcd.io/etcd/server/v3", "etcd", "-s -w")).clone()
}

/// Returns the tool that restores the snapshots of that etcd. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub(crate) fn etcdutl() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(KUBERNETES, "go.etcd.io/etcd/etcdutl/v3", "etcdutl", "-s -w")).clone()
}

/// Returns a current NATS server. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub(crate) fn nats_server() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let package = "github.com/nats-io/nats-server/v2";
    BUILT.get_or_init(|| go_build(NATS, package, "nats-server", "-s -w")).clone()
}

/// Builds a program of Kubernetes.
fn kubernetes(name: &str) -> PathBuf {
    let component = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {component}.gitVersion={KUBERNETES_VERSION} -X {component}.gitMajor=1 -X {component}.gitMinor=36"
    );
    go_build(KUBERNETES, &format!("k8s.io/kubernetes/cmd/{name}"), name, &flags)
}

/// Returns a program that watches resources with client-go's shared informer (`tests/tools/informer`).
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn informer() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(KUBERNETES, "homeostat.dev/tests/tools/informer", "informer", "-s -w")).clone()
}

/// Returns a program that contends for a `Lease` with client-go's leader election (`tests/tools/elector`).
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn elector() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(KUBERNETES, "homeostat.dev/tests/tools/elector", "elector", "-s -w")).clone()
}

/// Returns a program that writes the data of built-in kinds (`tests/tools/kinds`). It runs in `tests/tools`.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn kinds_writer() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(KUBERNETES, "homeostat.dev/tests/tools/kinds", "kinds", "-s -w")).clone()
}

/// Returns a program that encodes and decodes resources with client-go's types (`tests/tools/documents`).
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn typed_documents() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(KUBERNETES, "homeostat.dev/tests/tools/documents", "documents", "-s -w")).clone()
}

/// Returns an operator with the default settings of controller-runtime (`tests/tools/manager`).
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn manager() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(MANAGER, "homeostat.dev/tests/tools/manager", "manager", "-s -w")).clone()
}

/// Returns Kubernetes' own end-to-end tests, as one program. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn end_to_end_tests() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(END_TO_END, "homeostat.dev/tests/tools/e2e", "e2e", "-s -w")).clone()
}

/// Returns the controller of volume snapshots of the Kubernetes project, with a newer client-go than that of its release. The first
/// call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn snapshot_controller() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let package = "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller";
    BUILT.get_or_init(|| go_build(SNAPSHOTS, package, "snapshot-controller", "-s -w")).clone()
}

/// Returns the folder with the definitions of the kinds of that controller.
///
/// # Panics
/// When the controller cannot be built.
pub fn snapshot_definitions() -> PathBuf {
    snapshot_controller();
    let mut command = go(SNAPSHOTS);
    command.args(["list", "-m", "-f", "{{.Dir}}", "github.com/kubernetes-csi/external-snapshotter/client/v8"]);
    let output = command.output().expect("go starts");
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Path::new(&folder).join("config/crd")
}

/// Returns `helm`. The first call on a machine builds it.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn helm() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(HELM, "helm.sh/helm/v3/cmd/helm", "helm", "-s -w")).clone()
}

/// Runs the tests of the package that starts hosts for tests in Go. They find the binary `homeostat` in the variable
/// `HOMEOSTAT`.
///
/// # Panics
/// When one fails, or they cannot be built: they need Go 1.26 or newer.
pub fn test_go_environment(homeostat: &Path) {
    let mut command = go(TEST_ENVIRONMENT);
    command.args(["test", "-trimpath", "-count=1", "./..."]).env("HOMEOSTAT", homeostat);
    let output = command.output().expect("go starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Returns a program that watches and applies resources with kube-rs (`tests/tools/kube`). The first call on
/// a machine builds it.
///
/// # Panics
/// When it cannot be built.
pub fn kube() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            // Not the workspace's target folder, whose lock every other build waits for.
            let folder = repository().join("target/tools/kube-rs");
            let mut command = Command::new(env!("CARGO"));
            command.args(["build", "--locked", "--quiet", "--target-dir"]).arg(&folder);
            command.current_dir(repository().join("tests/tools/kube"));
            let output = command.output().expect("cargo starts");
            assert!(output.status.success(), "kube-rs does not build: {}", String::from_utf8_lossy(&output.stderr));
            folder.join("debug/tools-kube")
        })
        .clone()
}

/// Returns a Python with the Kubernetes client for Python. The first call on a machine installs it.
///
/// # Panics
/// When it cannot be installed: it needs Python 3.10 or newer, with `venv`.
pub fn python() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| python_environment("python", "tests/tools/python/requirements.txt")).clone()
}

/// Returns a program of the Python packages that build guests. The first call on a machine installs them.
///
/// # Panics
/// When they cannot be installed: they need Python 3.10 or newer, with `venv`.
pub fn python_tool(name: &str) -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let python = MADE.get_or_init(|| python_environment("python-toolchains", "tests/toolchains/requirements.txt"));
    python.with_file_name(name)
}

/// Returns a program of the npm packages that build guests. The first call on a machine installs them.
///
/// # Panics
/// When they cannot be installed: they need Node 20 or newer, with npm.
pub fn node_tool(name: &str) -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| node_environment("node-toolchains", "tests/toolchains/javascript")).join(name)
}

/// Returns the folder of the Kubernetes client for JavaScript and its packages. The first call on a machine installs them.
///
/// # Panics
/// When they cannot be installed: they need Node 20 or newer, with npm.
pub fn node_packages() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let programs = MADE.get_or_init(|| node_environment("node", "tests/tools/javascript"));
    programs.parent().expect("the programs are below the packages").to_owned()
}

/// Creates a virtual environment with the packages of a list, by version and checksum, if it does not exist
/// yet. Returns its Python.
fn python_environment(name: &str, requirements: &str) -> PathBuf {
    let (folder, requirements) = (repository().join("target/tools").join(name), repository().join(requirements));
    let python = folder.join("bin/python");
    installed_once(&folder, &requirements, || {
        let (venv, clear) = (["-m", "venv"].map(OsStr::new), OsStr::new("--clear"));
        install(Command::new("python3").args([&venv[..], &[clear, folder.as_os_str()]].concat()));
        let pip = ["-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r"];
        install(Command::new(&python).args(pip).arg(&requirements));
    });
    python
}

/// Installs the packages of a lock file, by version and checksum, if they are not installed yet. Returns the
/// folder of their programs.
fn node_environment(name: &str, sources: &str) -> PathBuf {
    let (folder, sources) = (repository().join("target/tools").join(name), repository().join(sources));
    let lock = sources.join("package-lock.json");
    installed_once(&folder, &lock, || {
        std::fs::create_dir_all(&folder).expect("folders can be made");
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(sources.join(file), folder.join(file)).expect("files can be copied");
        }
        let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        install(Command::new("npm").args(npm).current_dir(&folder));
    });
    folder.join("node_modules/.bin")
}

/// Fills a folder with the packages of `list`, unless that was done before.
pub(crate) fn installed_once(folder: &Path, list: &Path, fill: impl FnOnce()) {
    let installed = folder.join("installed");
    let wanted = std::fs::read(list).expect("the list is in the repository");
    if std::fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return;
    }
    fill();
    // This comes last, so that an interrupted installation is repeated.
    std::fs::write(installed, wanted).expect("the folder was made above");
}

fn install(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the registry of the Distribution project.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn distribution_registry() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let package = "homeostat.dev/tests/tools/registry";
    BUILT.get_or_init(|| go_build(REGISTRY, package, "registry", "-s -w")).clone()
}

/// Returns `oras`, a client of registries for any artifact.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn oras() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(REGISTRY, "oras.land/oras/cmd/oras", "oras", "-s -w")).clone()
}

/// Returns `crane`, a client of registries for images and other artifacts.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn crane() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let package = "github.com/google/go-containerregistry/cmd/crane";
    BUILT.get_or_init(|| go_build(REGISTRY, package, "crane", "-s -w")).clone()
}

/// Builds a program of one of our Go modules, and returns its path. Go itself decides whether to rebuild. A commit is
/// no reason for it: another test process may run the program.
fn go_build(module: &str, package: &str, name: &str, flags: &str) -> PathBuf {
    let program = repository().join("target/tools").join(name);
    let mut command = go(module);
    command.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o"]).arg(&program).arg(package);
    let output = command.output().expect("Go 1.26 or newer is on PATH: https://go.dev/dl");
    assert!(output.status.success(), "{package} does not build: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Returns a command of Go in the folder of a module. Commands with the same flags share what they have compiled.
fn go(module: &str) -> Command {
    let mut command = Command::new("go");
    command.current_dir(repository().join(module)).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly");
    if OF_WORKSPACE.contains(&module) {
        command.env("GOWORK", repository().join(WORKSPACE));
    }
    command
}
