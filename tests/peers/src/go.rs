//! Builds the Go contenders.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::guests::manifest_folder;

/// The path of a Go that is not on `PATH`: the one of Go's own instructions.
const USUAL_PLACE: &str = "/usr/local/go/bin/go";

/// Builds the program into `folder` and returns its path.
///
/// # Errors
/// Go is missing, or the program does not build.
pub(crate) async fn build(folder: &Path) -> Result<PathBuf> {
    let go = find().await.context(
        "Go is missing: some contenders are written in it. Install Go 1.26 or newer (https://go.dev/dl), so that `go version` works",
    )?;
    let program = folder.join("bin/peers");
    let mut command = Command::new(go);
    command.args(["build", "-buildvcs=false", "-trimpath", "-o"]).arg(&program).arg(".");
    let status = command.current_dir(manifest_folder().join("go")).stdin(Stdio::null()).status().await;
    ensure!(status.context("go does not start")?.success(), "the contenders in Go do not build");
    Ok(program)
}

/// Returns a Go command that runs.
async fn find() -> Option<&'static str> {
    for go in ["go", USUAL_PLACE] {
        let version = Command::new(go).arg("version").stdin(Stdio::null()).output().await;
        if version.is_ok_and(|output| output.status.success()) {
            return Some(go);
        }
    }
    None
}
