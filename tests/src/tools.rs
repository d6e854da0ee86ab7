//! Programs of others that tests talk to. Their versions and checksums stand in `tests/tools/go.mod` and `go.sum`, and in
//! `tests/tools/kube/Cargo.lock`, those about registries in `tests/tools/registry`, those in Python in `tests/tools/python`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// What kubectl is told of its own version. The module's version stands in `go.mod`.
const KUBECTL_VERSION: &str = "v1.36.3";

/// The module of what is about registries. Not that of Kubernetes, which has other versions of the same libraries.
const REGISTRY: &str = "tests/tools/registry";

/// Returns the `kubectl` of a current release, building it the first time that anybody asks on this machine.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn kubectl() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let component = "k8s.io/component-base/version";
            let flags = format!(
                "-s -w -X {component}.gitVersion={KUBECTL_VERSION} -X {component}.gitMajor=1 -X {component}.gitMinor=36"
            );
            go_build("tests/tools", "k8s.io/kubernetes/cmd/kubectl", &flags).join("kubectl")
        })
        .clone()
}

/// Returns a program that follows resources with client-go's shared informer (`tests/tools/informer`).
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn informer() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| go_build("tests/tools", "homeostat.dev/tests/tools/informer", "-s -w").join("informer"))
        .clone()
}

/// Returns a program that follows and applies resources with kube-rs (`tests/tools/kube`), building it the first time that anybody asks
/// on this machine.
///
/// # Panics
/// When it cannot be built.
pub fn kube() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            // Not the folder of the workspace: whoever builds there waits for whoever else does.
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

/// Returns a Python that has the client of Kubernetes for that language, installing it the first time that anybody asks on this machine.
///
/// # Panics
/// When it cannot be installed: it needs Python 3.10 or newer, with `venv`.
pub fn python() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| python_environment(&repository().join("tests/tools/python/requirements.txt"))).clone()
}

/// Makes an environment of its own with what a list names, by version and checksum, unless it is there already.
fn python_environment(requirements: &Path) -> PathBuf {
    let folder = repository().join("target/tools/python");
    let (python, installed) = (folder.join("bin/python"), folder.join("requirements.txt"));
    let wanted = std::fs::read(requirements).expect("the list is in the repository");
    if std::fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return python;
    }
    let run = |program: &Path, arguments: &[&OsStr]| {
        let output = Command::new(program).args(arguments).output().expect("Python 3.10 or newer is on PATH");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let (venv, clear) = (["-m", "venv"].map(OsStr::new), OsStr::new("--clear"));
    run(Path::new("python3"), &[&venv[..], &[clear, folder.as_os_str()]].concat());
    let install = ["-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r"];
    run(&python, &[&install.map(OsStr::new)[..], &[requirements.as_os_str()]].concat());
    // Last, so that one that was broken off is made anew.
    std::fs::write(installed, wanted).expect("the folder was made above");
    python
}

/// Returns the registry of the Distribution project.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub(crate) fn distribution_registry() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let package = "homeostat.dev/tests/tools/registry";
    BUILT.get_or_init(|| go_build(REGISTRY, package, "-s -w").join("registry")).clone()
}

/// Returns `oras`, a client of registries for any artifact.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn oras() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build(REGISTRY, "oras.land/oras/cmd/oras", "-s -w").join("oras")).clone()
}

/// Returns `crane`, a client of registries for images and whatever else lies there.
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn crane() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let package = "github.com/google/go-containerregistry/cmd/crane";
    BUILT.get_or_init(|| go_build(REGISTRY, package, "-s -w").join("crane")).clone()
}

/// Builds a program of a Go module of ours, and returns the folder in which it lies. Go itself knows when there is nothing to do.
fn go_build(module: &str, package: &str, flags: &str) -> PathBuf {
    let folder = repository().join("target/tools");
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-ldflags", flags, "-o"]).arg(format!("{}/", folder.display())).arg(package);
    command.current_dir(repository().join(module)).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly");
    let output = command.output().expect("Go 1.26 or newer is on PATH: https://go.dev/dl");
    assert!(output.status.success(), "{package} does not build: {}", String::from_utf8_lossy(&output.stderr));
    folder
}
