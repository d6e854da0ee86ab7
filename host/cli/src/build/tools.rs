//! The tools that build guests: where they are, and what to do when one is missing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::cargo;
use crate::language::Language;

/// Where Go is from, and its oldest version.
const GO: &str = "Go 1.26 or newer is not on PATH: install it from https://go.dev/dl";
/// Where Node is from, and its oldest version.
const NODE: &str = "Node 20 or newer with npm is not on PATH: install it from https://nodejs.org";
/// Where Python is from, and its oldest version.
const PYTHON: &str = "Python 3.10 or newer with venv is not on PATH: install it from https://www.python.org/downloads";
/// Where Rust is from.
const RUST: &str = "Rust 1.95 or newer is not on PATH: install it from https://rustup.rs";
/// The folder of the WASI SDK, with its clang and its wasi-libc.
const WASI_SDK: &str = "WASI_SDK_PATH";

/// A program with its first arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Tool {
    fn new(program: PathBuf) -> Self {
        Self { program, arguments: Vec::new() }
    }

    fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(OsString::from));
        self
    }

    /// Returns a command that runs in `folder`, and is killed when it is dropped.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Returns the text that changes when another tool builds.
    pub(super) fn identity(&self) -> String {
        format!("{:?} {:?}", self.program, self.arguments)
    }
}

/// The state of a tool of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The version of the tool, or where it is.
    Found(String),
    /// The sentence that names the missing tool, and the way to get it.
    Missing(String),
}

/// Returns the tool that compiles a guest in `folder`, or a sentence about the missing tool.
pub(super) fn compiler(language: Language, folder: &Path) -> Result<Tool, String> {
    match language {
        Language::Rust => program("cargo").map(Tool::new).ok_or_else(|| RUST.to_owned()),
        Language::Go => program("go").map(Tool::new).ok_or_else(|| GO.to_owned()),
        Language::Python => {
            in_environment(folder, "componentize-py").map(Tool::new).ok_or_else(|| not_installed("componentize-py"))
        }
        Language::Js => {
            let own = folder.join("node_modules/.bin/componentize-js");
            let found = Some(own).filter(|own| own.is_file()).or_else(|| program("componentize-js"));
            found.map(Tool::new).ok_or_else(|| not_installed("componentize-js"))
        }
        Language::C => c_compiler(folder).ok_or_else(|| not_installed("a C compiler with wasi-libc")),
    }
}

fn not_installed(what: &str) -> String {
    format!(
        "{what} is not installed in the project: add --install, which installs what the project pins into its own folder"
    )
}

/// Returns a C compiler for WASI: the WASI SDK that the environment names, the project's own, or that of a zig.
fn c_compiler(folder: &Path) -> Option<Tool> {
    let sdk = environment(WASI_SDK).map(|sdk| Path::new(&sdk).join("bin/clang")).filter(|clang| clang.is_file());
    let zig = ["cc", "-target", "wasm32-wasi"];
    let own = folder.join(".venv/bin/python");
    let pinned =
        folder.join(".venv/bin/python-zig").is_file().then(|| Tool::new(own).with(&["-m", "ziglang"]).with(&zig));
    sdk.map(|clang| Tool::new(clang).with(&["--target=wasm32-wasip1"]))
        .or(pinned)
        .or_else(|| Some(Tool::new(program("zig")?).with(&zig)))
}

/// Returns a program of the virtual environment in `folder`, else of the one that is active.
fn in_environment(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(".venv/bin").join(name)).filter(|own| own.is_file()).or_else(|| program(name))
}

/// Returns the tool that installs the packages of a guest in Python or C, or a sentence about the missing tool.
pub(super) async fn python() -> Result<Tool, String> {
    match python_version().await {
        Check::Found(_) => program("python3").map(Tool::new).ok_or_else(|| PYTHON.to_owned()),
        Check::Missing(why) => Err(why),
    }
}

/// Returns the tool that installs the packages of a guest in JavaScript, or a sentence about the missing tool.
pub(super) async fn npm() -> Result<Tool, String> {
    match node_version().await {
        Check::Found(_) => program("npm").map(Tool::new).ok_or_else(|| NODE.to_owned()),
        Check::Missing(why) => Err(why),
    }
}

/// Checks the tools of this machine that build guests in `language`. Looks at no project: a pinned tool that `--install`
/// can install counts as found.
pub(crate) async fn check_tools(language: Language) -> Check {
    match language {
        Language::Rust => rust_version().await,
        Language::Python => python_version().await,
        Language::Js => node_version().await,
        Language::Go => version_of("go", &["env", "GOVERSION"], "go1.", 26, GO).await,
        Language::C => match c_compiler(Path::new("/")) {
            Some(tool) => Check::Found(tool.program.display().to_string()),
            None => match python_version().await {
                Check::Found(version) => Check::Found(format!("ziglang through Python {version}")),
                Check::Missing(why) => Check::Missing(format!("{why}, or the WASI SDK, and set {WASI_SDK}")),
            },
        },
    }
}

/// Checks cargo, and whether its target for guests is there or can be added.
async fn rust_version() -> Check {
    match version_of("cargo", &["--version"], "cargo 1.", 95, RUST).await {
        Check::Found(version) => match cargo::has_target(Path::new("/"), cargo::Target::default()).await {
            Ok(true) => Check::Found(format!("{version}, with the target {}", cargo::Target::default().name())),
            _ if program("rustup").is_some() => {
                Check::Found(format!("{version}; `build` adds the target {}", cargo::Target::default().name()))
            }
            _ => Check::Missing(format!(
                "the target {} is not installed: install Rust through https://rustup.rs, or the target with the package manager that Rust came from",
                cargo::Target::default().name()
            )),
        },
        missing => missing,
    }
}

async fn python_version() -> Check {
    let script = "import ensurepip, sys, venv; print('3.%d' % sys.version_info.minor)";
    version_of("python3", &["-c", script], "3.", 10, PYTHON).await
}

async fn node_version() -> Check {
    match version_of("node", &["--version"], "v", 20, NODE).await {
        Check::Found(_) if first_line("npm", &["--version"]).await.is_none() => Check::Missing(NODE.to_owned()),
        found => found,
    }
}

/// Checks that the number after `prefix` in the output of a program is at least `least`.
async fn version_of(program: &str, arguments: &[&str], prefix: &str, least: u32, missing: &str) -> Check {
    match first_line(program, arguments).await {
        Some(line) if number_after(&line, prefix).is_some_and(|number| number >= least) => Check::Found(line),
        Some(line) => Check::Missing(format!("{missing}; this one is {line}")),
        None => Check::Missing(missing.to_owned()),
    }
}

/// Returns the number that follows `prefix` at the beginning of a text.
fn number_after(text: &str, prefix: &str) -> Option<u32> {
    let rest = text.strip_prefix(prefix)?;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the first line of a program's output. `None` if the program is missing or fails.
pub(super) async fn first_line(name: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(name);
    let output = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.ok()?;
    let line = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    output.status.success().then_some(line)
}

/// Returns the file of a program on `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let path = environment("PATH")?;
    let mut files = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    files.find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns an environment variable.
#[allow(clippy::disallowed_methods, reason = "this is the binary: it reads the environment")]
pub(super) fn environment(name: impl AsRef<OsStr>) -> Option<OsString> {
    std::env::var_os(name)
}

#[cfg(test)]
mod tests;
