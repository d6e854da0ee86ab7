//! Builds the measured guests, with the flags of `homeostat dev`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use homeostat_componentize::componentize_typed;
use tokio::process::Command;

/// The guests of each target.
const NAMES: [(&str, &[&str]); 2] = [
    ("wasm32-unknown-unknown", &["guest-noop", "guest-status", "guest-fetcher", "guest-exclusive"]),
    ("wasm32-wasip2", &["guest-hostile"]),
];
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
    let components = target.join("guests");
    std::fs::create_dir_all(&components).context("the folder of the guests cannot be made")?;
    for (triple, names) in NAMES {
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--release", "--target", triple]);
        command.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
        command.args(names.iter().flat_map(|name| ["--package", name]));
        command.env("CARGO_TARGET_DIR", target).current_dir(manifest_folder()).stdin(Stdio::null());
        let status = command.status().await.context("cargo does not start")?;
        ensure!(status.success(), "the guests do not build; `rustup target add {triple}` adds their target");
        for name in names {
            let file = format!("{}.wasm", name.replace('-', "_"));
            let built = target.join(triple).join("release").join(&file);
            let bytes = std::fs::read(&built).with_context(|| format!("{} cannot be read", built.display()))?;
            let component = if triple == "wasm32-wasip2" { bytes } else { componentize_typed(&bytes)? };
            std::fs::write(components.join(&file), component).context("a guest cannot be written")?;
        }
    }
    Ok(components)
}

/// Reads the component of the guest `name` from `folder`.
///
/// # Errors
/// The file is missing.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let file = folder.join(format!("guest_{name}.wasm"));
    std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))
}
