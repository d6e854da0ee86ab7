//! Builds guests: finds them by their files, runs the tools of their languages, and puts the components beside the
//! manifests.
//!
//! The tools do the work and report errors in their own words. Nothing here parses a guest or knows what it does.

mod cargo;
mod command;
mod project;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) use cargo::Target;

use crate::language::Language;
use crate::terminal::Screen;

pub(crate) use command::{BuildArgs, InstallArgs, run};
pub(crate) use tools::{Check, check_tools};

/// Subfolders that are searched for guests, at most.
const FOLDERS_MAX: usize = 1000;

/// The sources of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// The name of the package or of the folder. The component is `NAME.wasm`.
    pub(crate) name: String,
    /// The folder of its sources.
    pub(crate) folder: PathBuf,
    /// The language of its sources.
    pub(crate) language: Language,
    /// The folder of its workspace's `Cargo.toml`. In other languages than Rust its own folder.
    workspace: PathBuf,
    /// The target that it is compiled for, if it is in Rust.
    target: Target,
    /// The folders of its path dependencies, direct and transitive.
    pub(crate) dependencies: Vec<PathBuf>,
}

/// A component that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    /// Name of the guest.
    pub(crate) name: String,
    /// The file that the build wrote.
    pub(crate) file: PathBuf,
}

/// The result of a build.
#[derive(Debug, Default)]
pub(crate) struct BuildResult {
    /// Components that were built or were up to date.
    pub(crate) artifacts: Vec<Artifact>,
    /// Guests that were not built again, because their sources have not changed.
    pub(crate) unchanged: Vec<String>,
    /// Cargo's warnings and errors, as cargo prints them.
    pub(crate) diagnostics: String,
    /// The output of other tools whose build failed.
    pub(crate) tool_output: String,
    /// Guests that could not be built.
    pub(crate) failed: Vec<String>,
}

/// Finds the guests of a folder: projects in the folder itself and in its direct subfolders. With `install`, the tools
/// that their projects pin are installed where they are missing; the wasm target of Rust always is.
///
/// # Errors
/// When a tool is missing, with what to do; when cargo cannot read a `Cargo.toml`, with cargo's message; when two guests
/// have one name.
pub(crate) async fn prepare(folder: &Path, install: bool, screen: &Screen) -> Result<Vec<Guest>> {
    if guest_folders(folder)?.iter().any(|folder| Language::of(folder) == Some(Language::Rust)) {
        cargo::prepare(folder).await?;
    }
    let guests = discover(folder).await?;
    for guest in &guests {
        project::prepare(guest, install, screen).await?;
    }
    Ok(guests)
}

/// Finds the guests of a folder, as [`prepare`] does, and installs nothing.
///
/// # Errors
/// As [`prepare`], except for missing tools other than cargo.
pub(crate) async fn discover(folder: &Path) -> Result<Vec<Guest>> {
    let mut guests: Vec<Guest> = Vec::new();
    let mut crates: Vec<PathBuf> = Vec::new();
    for guest_folder in guest_folders(folder)? {
        match Language::of(&guest_folder) {
            Some(Language::Rust) => crates.push(guest_folder),
            Some(language) => guests.push(project::guest(guest_folder, language)?),
            None => {}
        }
    }
    guests.extend(cargo::discover(folder, &crates).await?);
    guests.sort_by(|a, b| a.name.cmp(&b.name));
    guests.dedup();
    if let Some(pair) = guests.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!(
            "two guests have the name {}: {} and {}; rename one, because both write the same component file",
            pair[0].name,
            pair[0].folder.display(),
            pair[1].folder.display()
        );
    }
    Ok(guests)
}

/// Returns the absolute paths of folders that may hold a guest, sorted.
pub(crate) fn guest_folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = folder.canonicalize().with_context(|| format!("the folder {} cannot be read", folder.display()))?;
    let mut folders = vec![folder.clone()];
    for entry in
        std::fs::read_dir(&folder).with_context(|| format!("the folder {} cannot be read", folder.display()))?
    {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_dir() && folders.len() < FOLDERS_MAX {
            folders.push(path);
        }
    }
    folders.retain(|folder| Language::of(folder).is_some());
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
impl Guest {
    /// Returns a guest in a workspace of its own.
    pub(crate) fn for_test(name: &str, folder: PathBuf, dependencies: Vec<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            language: Language::Rust,
            workspace: folder.clone(),
            target: Target::default(),
            folder,
            dependencies,
        }
    }
}

/// Builds guests, with one run of cargo for each workspace, and one run of the tools for each guest in another
/// language. The result lists failed guests; the others are built all the same.
///
/// # Errors
/// When a tool is missing or cannot be started.
pub(crate) async fn build(guests: &[Guest], screen: &Screen) -> Result<BuildResult> {
    let mut built = BuildResult::default();
    let (crates, projects): (Vec<&Guest>, Vec<&Guest>) =
        guests.iter().partition(|guest| guest.language == Language::Rust);
    cargo::build(&crates, screen, &mut built).await?;
    for guest in projects {
        project::build(guest, &mut built).await?;
    }
    Ok(built)
}

/// Prints what the tools of a build wrote.
pub(crate) fn show_output(built: &BuildResult, screen: &Screen) {
    if !built.diagnostics.is_empty() {
        screen.cargo_output(&built.diagnostics);
    }
    if !built.tool_output.is_empty() {
        screen.line(&built.tool_output);
    }
}

/// Installs a component under the name that manifests use. Returns whether it differs from the old one.
///
/// Readers see the old component or the new one, never a part.
///
/// # Errors
/// When one of the files cannot be read or written.
pub(crate) fn install(artifact: &Artifact, folder: &Path) -> Result<bool> {
    let to = folder.join(format!("{}.wasm", artifact.name));
    let bytes = std::fs::read(&artifact.file)
        .with_context(|| format!("the component {} cannot be read", artifact.file.display()))?;
    if std::fs::read(&to).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let temporary = folder.join(format!(".{}.wasm.{}", artifact.name, std::process::id()));
    let written = std::fs::write(&temporary, &bytes).and_then(|()| std::fs::rename(&temporary, &to));
    written.with_context(|| format!("the component {} cannot be written", to.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests;
