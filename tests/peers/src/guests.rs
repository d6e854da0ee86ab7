//! Builds the measured guests, with the flags of `homeostat dev`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

const NAMES: [&str; 5] = ["guest-noop", "guest-status", "guest-hostile", "guest-fetcher", "guest-exclusive"];
const PROFILE: [&str; 4] = [
    "profile.release.strip=true",
    "profile.release.debug=false",
    "profile.release.opt-level=3",
    "profile.release.incremental=true",
];

/// Returns the folder of this crate.
pub(crate) fn manifest_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds the guests below `target` and returns their folder.
///
/// # Errors
/// They do not build.
pub(crate) async fn build(target: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--release", "--target", "wasm32-wasip2"]);
    command.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    command.args(NAMES.iter().flat_map(|name| ["--package", name]));
    command.env("CARGO_TARGET_DIR", target).current_dir(manifest_folder()).stdin(Stdio::null());
    let status = command.status().await.context("cargo does not start")?;
    ensure!(status.success(), "the guests do not build; `rustup target add wasm32-wasip2` adds their target");
    Ok(target.join("wasm32-wasip2/release"))
}

/// Reads the component of the guest `name` from `folder`.
///
/// # Errors
/// The file is missing.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let file = folder.join(format!("guest_{name}.wasm"));
    std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))
}
