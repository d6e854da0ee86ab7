//! Guests in Rust: finds their crates, installs the wasm target, builds with cargo, and makes a component of a core
//! module.

mod rust_target;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anstream::adapter::strip_str;
use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

use homeostat_componentize::componentize_typed;

use super::tools::environment;
use super::{Artifact, BuildResult, Guest};
use crate::language::Language;
use crate::terminal::Screen;

/// Bytes of cargo's diagnostics that are kept. The rest is dropped.
const DIAGNOSTICS_BYTES_MAX: usize = 256 << 10;

/// The build profile of guests: small components that load fast, and quick rebuilds.
const PROFILE: [&str; 4] = [
    "profile.release.strip=true",
    "profile.release.debug=false",
    "profile.release.opt-level=3",
    "profile.release.incremental=true",
];

use rust_target::PackageMetadata;
pub(crate) use rust_target::Target;

/// Checks that guests can be built for `folder`.
///
/// # Errors
/// When cargo is missing. The error says what to install.
pub(super) async fn prepare(folder: &Path) -> Result<()> {
    let version = tool("cargo", folder).arg("--version").stdin(Stdio::null()).output().await;
    if !version.is_ok_and(|output| output.status.success()) {
        bail!("cannot run cargo, which builds the guests: install Rust from https://rustup.rs, then run this again");
    }
    Ok(())
}

/// Installs a target if it is missing, for the toolchain of `folder`, which may differ from that of the current folder.
///
/// # Errors
/// When the target cannot be installed. The error says what to install.
async fn add_target(folder: &Path, target: Target, screen: &Screen) -> Result<()> {
    if has_target(folder, target).await? {
        return Ok(());
    }
    let target_name = target.name();
    screen.line(&format!("adding the Rust target {target_name}"));
    let added = tool("rustup", folder).args(["target", "add", target_name]).stdin(Stdio::null()).output().await;
    let output = added.with_context(|| {
        format!("the Rust target {target_name} is missing and rustup is not installed: install the target with the package manager that Rust came from")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "the Rust target {target_name} could not be added; `rustup target add {target_name}` in {} said:\n{}",
            folder.display(),
            said.trim_end()
        );
    }
    if has_target(folder, target).await? {
        Ok(())
    } else {
        bail!("rustup added {target_name}, but rustc still does not find it: see `rustup show` in {}", folder.display())
    }
}

/// Returns whether the toolchain of `folder` has a target.
pub(super) async fn has_target(folder: &Path, target: Target) -> Result<bool> {
    let output = tool("rustc", folder)
        .args(["--print", "target-libdir", "--target", target.name()])
        .stdin(Stdio::null())
        .output()
        .await;
    let output = output.context("cannot run rustc: install Rust from https://rustup.rs, then run this again")?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(libraries.trim()).is_dir())
}

/// Returns a command that runs in `folder` with the toolchain of that folder.
fn tool(name: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder).kill_on_drop(true);
    // Under `cargo run`, rustup's proxy has chosen a toolchain for the current folder. A folder with its own
    // toolchain file gets that toolchain.
    let names_toolchain =
        |folder: &Path| folder.join("rust-toolchain.toml").exists() || folder.join("rust-toolchain").exists();
    let chosen_by_proxy = environment("CARGO_MANIFEST_DIR").is_some();
    if chosen_by_proxy && folder.canonicalize().is_ok_and(|folder| folder.ancestors().any(names_toolchain)) {
        command.env_remove("RUSTUP_TOOLCHAIN");
    }
    command
}

/// Finds the guests in the folders `crates`: crates with a `cdylib` in `folder` itself and in its direct subfolders.
///
/// # Errors
/// When cargo cannot read a `Cargo.toml`, with cargo's message.
pub(super) async fn discover(folder: &Path, crates: &[PathBuf]) -> Result<Vec<Guest>> {
    let mut guests: Vec<Guest> = Vec::new();
    let mut read: Vec<PathBuf> = Vec::new();
    for crate_folder in crates {
        let manifest = crate_folder.join("Cargo.toml");
        if read.contains(&manifest) {
            continue;
        }
        let metadata = metadata(crate_folder).await?;
        read.extend(metadata.packages.iter().map(|package| package.manifest_path.clone()));
        guests.extend(metadata.guests(folder)?);
    }
    Ok(guests)
}

async fn metadata(folder: &Path) -> Result<CargoMetadata> {
    let arguments = ["metadata", "--no-deps", "--format-version=1"];
    let output =
        tool("cargo", folder).args(arguments).stdin(Stdio::null()).output().await.context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "cargo cannot read the crate in {}:\n{}",
            folder.display(),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    serde_json::from_slice(&output.stdout).context("cannot read the output of `cargo metadata`")
}

/// The fields of `cargo metadata` that are used.
#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<CargoTarget>,
    dependencies: Vec<Dependency>,
    #[serde(default)]
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct CargoTarget {
    crate_types: Vec<String>,
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<PathBuf>,
    /// `dev` or `build`; `None` for a usual dependency.
    #[serde(default)]
    kind: Option<String>,
}

impl CargoMetadata {
    fn guests(&self, folder: &Path) -> Result<Vec<Guest>> {
        let Ok(folder) = folder.canonicalize() else { return Ok(Vec::new()) };
        let is_guest = |package: &&Package| {
            package.targets.iter().any(|target| target.crate_types.iter().any(|kind| kind == "cdylib"))
        };
        let found = self.packages.iter().filter(is_guest).filter_map(|package| {
            let own = package.manifest_path.parent()?;
            (own == folder || own.parent() == Some(&folder)).then(|| {
                let metadata = PackageMetadata::parse(&package.metadata).with_context(|| {
                    format!("{}: invalid [package.metadata.homeostat]", package.manifest_path.display())
                })?;
                Ok(Guest {
                    name: package.name.clone(),
                    folder: own.to_owned(),
                    language: Language::Rust,
                    target: metadata.target(),
                    workspace: self.workspace_root.clone(),
                    dependencies: self.dependencies(package),
                })
            })
        });
        found.collect()
    }

    /// Returns the folders of the direct and transitive path dependencies of `package`, without those of its tests.
    fn dependencies(&self, package: &Package) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut left = vec![package];
        while let Some(package) = left.pop() {
            let built = package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
            for path in built.filter_map(|dependency| dependency.path.clone()) {
                if !found.contains(&path) {
                    left.extend(self.packages.iter().find(|package| package.manifest_path.parent() == Some(&path)));
                    found.push(path);
                }
            }
        }
        found
    }
}

/// Builds guests, with one run of cargo for each workspace and target. Installs a target that is missing.
///
/// # Errors
/// When a target cannot be installed, or cargo cannot be started.
pub(super) async fn build(guests: &[&Guest], screen: &Screen, built: &mut BuildResult) -> Result<()> {
    let of = |guest: &Guest| (guest.workspace.clone(), guest.target);
    let mut runs: Vec<(PathBuf, Target)> = guests.iter().map(|guest| of(guest)).collect();
    runs.sort();
    runs.dedup();
    for run in runs {
        let guests: Vec<&Guest> = guests.iter().copied().filter(|guest| of(guest) == run).collect();
        build_together(&guests, run.1, screen, built).await?;
    }
    Ok(())
}

/// Builds guests of one workspace for one target.
async fn build_together(guests: &[&Guest], target: Target, screen: &Screen, built: &mut BuildResult) -> Result<()> {
    add_target(&guests[0].folder, target, screen).await?;
    // Runs in the first guest's folder, so that its toolchain and its `.cargo/config.toml` apply.
    let mut command = tool("cargo", &guests[0].folder);
    command.args([
        "build",
        "--release",
        "--keep-going",
        "--target",
        target.name(),
        "--message-format=json-render-diagnostics",
    ]);
    command.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    command.args(guests.iter().flat_map(|guest| ["-p", &guest.name]));
    command.args(["--color", if screen.is_live() { "always" } else { "never" }]);
    command.env("CARGO_TERM_PROGRESS_WHEN", "never");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let (stdout, stderr) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let (artifacts, mut said, status) =
        tokio::join!(read_artifacts(stdout), read_diagnostics(stderr, screen), child.wait());
    let (artifacts, status): (Vec<Artifact>, ExitStatus) = (artifacts?, status.context("cannot wait for cargo")?);
    let missing = |guest: &&&Guest| !artifacts.iter().any(|artifact| artifact.name == guest.name);
    let failed: Vec<String> = guests.iter().filter(missing).map(|guest| guest.name.clone()).collect();
    if status.success() && !failed.is_empty() {
        return Err(anyhow!(
            "cargo built no component for {}: does the crate have `crate-type = [\"cdylib\"]`?",
            failed.join(", ")
        ));
    }
    if let Some(hint) = target.hint(&said).filter(|_| !failed.is_empty()) {
        said.push_str(&hint);
    }
    built.diagnostics.push_str(&said);
    built.failed.extend(failed);
    for artifact in artifacts.into_iter().filter(|artifact| guests.iter().any(|guest| guest.name == artifact.name)) {
        match target {
            Target::Wasip2 => built.artifacts.push(artifact),
            Target::Unknown => match component(&artifact)? {
                Ok(component) => built.artifacts.push(component),
                Err(reason) => {
                    let hint = target.hint(target.name()).unwrap_or_default();
                    built.diagnostics.push_str(&format!("error: {}: {reason}\n{hint}", artifact.name));
                    built.failed.push(artifact.name);
                }
            },
        }
    }
    Ok(())
}

/// Makes the component of a core module, in a file beside it. The inner error is the module's.
///
/// # Errors
/// When a file cannot be read or written.
fn component(module: &Artifact) -> Result<Result<Artifact, String>> {
    let bytes = std::fs::read(&module.file)
        .with_context(|| format!("the core module {} cannot be read", module.file.display()))?;
    let component = match componentize_typed(&bytes) {
        Ok(component) => component,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let file = module.file.with_extension("component.wasm");
    std::fs::write(&file, component).with_context(|| format!("the component {} cannot be written", file.display()))?;
    Ok(Ok(Artifact { name: module.name.clone(), file }))
}

/// The fields of cargo's messages that are used.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    package_id: String,
}

async fn read_artifacts(stdout: impl AsyncRead + Unpin) -> Result<Vec<Artifact>> {
    let mut lines = BufReader::new(stdout).lines();
    let mut artifacts = Vec::new();
    while let Some(line) = lines.next_line().await.context("cannot read cargo's output")? {
        artifacts.extend(artifact(&line));
    }
    Ok(artifacts)
}

/// Parses one of cargo's messages. Returns `None` if it is not about a component.
fn artifact(line: &str) -> Option<Artifact> {
    let message: Message = serde_json::from_str(line).ok()?;
    let file = message.filenames.into_iter().find(|file| file.extension() == Some(OsStr::new("wasm")))?;
    // `path+file:///…/folder#name@0.1.0`, or `…/name#0.1.0` if folder and package have the same name.
    let id = message.package_id.rsplit('#').next()?;
    let folder = message.manifest_path.parent()?.file_name()?.to_str()?;
    let name = id.split_once('@').map_or(folder, |(name, _)| name);
    (message.reason == "compiler-artifact").then(|| Artifact { name: name.to_owned(), file })
}

/// Reads cargo's standard error: progress goes to the status line, warnings and errors are returned.
async fn read_diagnostics(stderr: impl AsyncRead + Unpin, screen: &Screen) -> String {
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let plain = strip_str(&line).to_string();
        if is_progress(&plain) {
            screen.status(&format!("building: {}", plain.trim()));
        } else if said.len() + line.len() < DIAGNOSTICS_BYTES_MAX {
            said.push_str(&line);
            said.push('\n');
        }
    }
    said
}

/// Returns whether a line is progress: cargo right-aligns its verb in twelve columns; compiler output starts
/// at the left.
fn is_progress(line: &str) -> bool {
    let verb = line.trim_start();
    let indent = line.len() - verb.len();
    let end = verb.find(' ').unwrap_or(verb.len());
    verb.starts_with(|first: char| first.is_ascii_uppercase()) && indent > 0 && indent + end == 12
}

#[cfg(test)]
mod tests;
