//! Guests in other languages than Rust: a project has its sources, the contract in `wit`, and its pinned tools. One run
//! of its compiler makes the component, or a core module that becomes one here.

use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, anyhow};
use homeostat_componentize::componentize;
use tokio::process::Command;

use super::tools::{self, Tool};
use super::{Artifact, BuildResult, Guest, Target};
use crate::language::Language;
use crate::project_files::ProjectFiles;
use crate::terminal::Screen;

/// The stack of a component in C: 128 KiB of its memory. Some compilers would reserve 16 MiB in each instance.
const C_STACK: &str = "-Wl,-z,stack-size=131072";
/// The folder for the output of a build, inside the project.
const BUILD: &str = "build";
/// The world of the contract that a guest implements.
const WORLD: &str = "controller";
/// Bytes of a tool's output that are kept: its end.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a component or a core module, at most.
const MODULE_BYTES_MAX: u64 = 256 << 20;
/// The file that names the packages of a finished installation, inside the folder of the packages.
const INSTALLED: &str = ".homeostat-installed";
/// Bytes of a list of packages, at most.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// Returns the guest in a folder. Its name is that of the folder.
///
/// # Errors
/// When the folder has no name that a file can have.
pub(super) fn guest(folder: PathBuf, language: Language) -> Result<Guest> {
    let name = folder.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = name.ok_or_else(|| anyhow!("the folder {} has no name for its component", folder.display()))?;
    Ok(Guest { name, language, workspace: folder.clone(), target: Target::default(), folder, dependencies: Vec::new() })
}

/// Checks that the tools of a guest are there. With `install`, the packages that it pins are installed first.
///
/// # Errors
/// When a tool is missing or the installation fails.
pub(super) async fn prepare(guest: &Guest, install: bool, screen: &Screen) -> Result<()> {
    if install && let Some(packages) = Packages::of(guest) {
        packages.install(guest, screen).await?;
    }
    compiler(guest).map(drop)
}

fn compiler(guest: &Guest) -> Result<Tool> {
    tools::compiler(guest.language, &guest.folder)
        .map_err(|missing| anyhow!("{} ({}) cannot be built: {missing}", guest.name, guest.language.name()))
}

/// The packages that a project pins.
struct Packages {
    /// The list of the packages, by version and checksum.
    list: PathBuf,
    /// The folder that they are installed into.
    into: PathBuf,
}

impl Packages {
    /// Returns the packages of a guest. `None` if it pins none.
    fn of(guest: &Guest) -> Option<Self> {
        let (list, into) = match guest.language {
            Language::Python | Language::C => ("requirements.txt", ".venv"),
            Language::Js => ("package-lock.json", "node_modules"),
            Language::Rust | Language::Go => return None,
        };
        let packages = Self { list: guest.folder.join(list), into: guest.folder.join(into) };
        packages.list.is_file().then_some(packages)
    }

    /// Installs the packages with the package manager of the language, unless exactly these are installed.
    async fn install(&self, guest: &Guest, screen: &Screen) -> Result<()> {
        let read = |path: &Path| homeostat_files::read(path, LIST_BYTES_MAX);
        let wanted = read(&self.list).with_context(|| format!("{} cannot be read", self.list.display()))?;
        if read(&self.into.join(INSTALLED)).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        screen.line(&format!("installing the packages of {} into {}", self.list.display(), self.into.display()));
        for command in &mut self.commands(guest).await? {
            let output = run(command).await?;
            if !output.status.success() {
                return Err(anyhow!("the packages of {} cannot be installed:\n{}", guest.name, said(&output)));
            }
        }
        // This comes last, so that an interrupted installation is repeated.
        let marked = std::fs::write(self.into.join(INSTALLED), wanted.unwrap_or_default());
        marked.with_context(|| format!("{} cannot be written", self.into.display()))
    }

    async fn commands(&self, guest: &Guest) -> Result<Vec<Command>> {
        let missing = |missing: String| anyhow!("{} cannot be installed: {missing}", guest.name);
        if guest.language == Language::Js {
            let mut npm = tools::npm().await.map_err(missing)?.command(&guest.folder);
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
            return Ok(vec![npm]);
        }
        let mut venv = tools::python().await.map_err(missing)?.command(&guest.folder);
        venv.args(["-m", "venv", "--clear"]).arg(&self.into);
        let mut pip = Command::new(self.into.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:", "-r"]);
        pip.arg(&self.list).current_dir(&guest.folder).stdin(std::process::Stdio::null()).kill_on_drop(true);
        Ok(vec![venv, pip])
    }
}

/// Builds one guest, unless its sources are those of its last build.
///
/// # Errors
/// When a tool is missing or cannot be started, and when a file cannot be read or written. A guest that does not compile
/// is no error: `built` has its name and the output of the compiler.
pub(super) async fn build(guest: &Guest, built: &mut BuildResult) -> Result<()> {
    let compiler = compiler(guest)?;
    let folder = guest.folder.join(BUILD);
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be written", folder.display()))?;
    let (component, record) =
        (folder.join(format!("{}.wasm", guest.name)), folder.join(format!("{}.digest", guest.name)));
    let identity = format!("{} {:?} {}", env!("CARGO_PKG_VERSION"), guest.language, compiler.identity());
    let scanned = guest.folder.clone();
    let digest = tokio::task::spawn_blocking(move || ProjectFiles::scan(&scanned).digest(&scanned, &identity));
    let digest = digest.await.context("the sources cannot be read")?.context("the sources cannot be read")?.to_string();
    let artifact = Artifact { name: guest.name.clone(), file: component.clone() };
    if component.is_file() && homeostat_files::read_text(&record, 1024).is_ok_and(|recorded| recorded == digest) {
        built.unchanged.push(guest.name.clone());
        built.artifacts.push(artifact);
        return Ok(());
    }
    // An interrupted build leaves no component that looks finished.
    let _absent = std::fs::remove_file(&record);
    match compile(guest, &compiler, &folder).await? {
        Ok((bytes, warnings)) => {
            built.tool_output.push_str(&warnings);
            let written = std::fs::write(&component, bytes).and_then(|()| std::fs::write(&record, digest));
            written.with_context(|| format!("{} cannot be written", component.display()))?;
            built.artifacts.push(artifact);
        }
        Err(errors) => {
            built.tool_output.push_str(&errors);
            built.failed.push(guest.name.clone());
        }
    }
    Ok(())
}

/// Compiles the sources. Returns the component and the compiler's warnings, or the compiler's errors.
async fn compile(guest: &Guest, compiler: &Tool, folder: &Path) -> Result<Result<(Vec<u8>, String), String>> {
    let scratch = tempfile::tempdir_in(folder).with_context(|| format!("{} cannot be written", folder.display()))?;
    let output_file = scratch.path().join("compiled.wasm");
    let mut command = compiler.command(&guest.folder);
    match guest.language {
        Language::Python => {
            // Python writes its bytecode beside the sources.
            let sources = scratch.path().join("src");
            copy_sources(&guest.folder.join("src"), &sources)?;
            command.args(["-d", "wit", "-w", WORLD, "componentize", "app", "-p"]).arg(sources);
        }
        Language::Js => drop(command.args(["src/app.js", "-w", "wit", "-n", WORLD])),
        Language::Go => {
            command.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w"]);
            command.env("GOOS", "wasip1").env("GOARCH", "wasm");
        }
        Language::C => {
            command.args(["-mexec-model=reactor", "-std=c17", "-O2", "-Wall", "-Wextra", "-s", C_STACK]);
            let sources = ProjectFiles::scan(&guest.folder.join("src")).files;
            command.args(sources.iter().filter(|file| file.extension().is_some_and(|ending| ending == "c")));
        }
        Language::Rust => return Err(anyhow!("cargo builds {}", guest.name)),
    }
    let output = run(command.arg("-o").arg(&output_file)).await?;
    if !output.status.success() {
        return Ok(Err(said(&output)));
    }
    let bytes = homeostat_files::read(&output_file, MODULE_BYTES_MAX).context("the compiler wrote no component")?;
    let bytes = bytes.ok_or_else(|| anyhow!("the component has more than {} MiB", MODULE_BYTES_MAX >> 20))?;
    if matches!(guest.language, Language::Python | Language::Js) {
        // These compilers write components, and report progress where others write warnings.
        return Ok(Ok((bytes, String::new())));
    }
    let wit = guest.folder.join("wit");
    let made = tokio::task::spawn_blocking(move || componentize(bytes, &wit, WORLD));
    let warnings = said(&output);
    Ok(made
        .await
        .context("the component cannot be made")?
        .map(|bytes| (bytes, warnings))
        .map_err(|error| error.to_string()))
}

/// Copies the sources of a guest, without the output of tools.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    for file in ProjectFiles::scan(from).files {
        let target = to.join(file.strip_prefix(from).unwrap_or(&file));
        let made = target.parent().map_or(Ok(()), std::fs::create_dir_all);
        let copied = made.and_then(|()| std::fs::copy(&file, &target));
        copied.with_context(|| format!("{} cannot be copied to {}", file.display(), target.display()))?;
    }
    Ok(())
}

async fn run(command: &mut Command) -> Result<Output> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.output().await.with_context(|| format!("cannot run {program}"))
}

/// Returns the end of the output of a tool.
fn said(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    let end = &all[all.len().saturating_sub(OUTPUT_BYTES_MAX)..];
    let text = String::from_utf8_lossy(end);
    if text.is_empty() || text.ends_with('\n') { text.into_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests;
