//! Builds the kube-rs contender, in a workspace of its own, so that its dependencies do not affect our build.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::guests::manifest_folder;

/// The time limit of a build. A clean one takes minutes.
const BUILD_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Builds the program below `target`, cargo's target folder, and returns its path.
///
/// *Cancel safety*: cargo is killed when the future is dropped.
///
/// # Errors
/// It does not build, or not in half an hour.
pub(crate) async fn build(target: &Path) -> Result<PathBuf> {
    let target = target.join("peers/kube");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--locked", "--release", "--manifest-path"]);
    command.arg(manifest_folder().join("kube/Cargo.toml")).arg("--target-dir").arg(&target);
    command.current_dir(manifest_folder()).stdin(Stdio::null()).kill_on_drop(true);
    let status = tokio::time::timeout(BUILD_TIME_MAX, command.status()).await;
    let status = status.with_context(|| format!("kube-rs was not built after {BUILD_TIME_MAX:?}"))?;
    ensure!(
        status.context("cargo does not start")?.success(),
        "the contender of kube-rs does not build; the first time it needs the package registry, for the crates in tests/peers/kube/Cargo.lock"
    );
    Ok(target.join("release/peers-kube"))
}
