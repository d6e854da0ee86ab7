//! Programs of others that tests talk to. Their versions and checksums stand in `tests/tools/go.mod` and `go.sum`, and in
//! `tests/tools/kube/Cargo.lock`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// What kubectl is told of its own version. The module's version stands in `go.mod`.
const KUBECTL_VERSION: &str = "v1.36.3";

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
            go_build("k8s.io/kubernetes/cmd/kubectl", &flags).join("kubectl")
        })
        .clone()
}

/// Returns a program that follows resources with client-go's shared informer (`tests/tools/informer`).
///
/// # Panics
/// When it cannot be built: it needs Go 1.26 or newer.
pub fn informer() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go_build("homeostat.dev/tests/tools/informer", "-s -w").join("informer")).clone()
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

/// Builds a program and returns the folder in which it lies. Go itself knows when there is nothing to do.
fn go_build(package: &str, flags: &str) -> PathBuf {
    let folder = repository().join("target/tools");
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-ldflags", flags, "-o"]).arg(format!("{}/", folder.display())).arg(package);
    command.current_dir(repository().join("tests/tools")).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly");
    let output = command.output().expect("go is there, in version 1.26 or newer");
    assert!(output.status.success(), "{package} does not build: {}", String::from_utf8_lossy(&output.stderr));
    folder
}
