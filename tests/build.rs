//! Checks which foreign programs this machine has, and sets a `cfg` for each missing one, such as
//! `cfg(missing_go)`.
//!
//! A test that needs a program has `#[cfg_attr(missing_go, ignore = "…")]`. So it is ignored where the
//! program is missing, and the reason says what to install. With `CI=true` no program counts as missing, so
//! such a test fails there.

use std::path::Path;
use std::process::{Command, Stdio};

/// A program that tests use.
struct Tool {
    /// The end of its `cfg(missing_…)`.
    name: &'static str,
    /// Returns whether a sufficient version is installed.
    is_there: fn() -> bool,
}

/// The programs that tests use. `it/tools.rs` has the reasons for ignored tests, and the functions that use a
/// program.
const TOOLS: [Tool; 3] = [
    Tool { name: "go", is_there: has_go },
    Tool { name: "node", is_there: has_node },
    Tool { name: "python", is_there: has_python },
];

pub(crate) fn main() {
    // The packages that use this script lie at different depths.
    let above = if Path::new("build.rs").is_file() { "" } else { "../" };
    say(&format!("rerun-if-changed={above}build.rs"));
    say("rerun-if-env-changed=PATH");
    say("rerun-if-env-changed=CI");
    for tool in &TOOLS {
        say(&format!("rustc-check-cfg=cfg(missing_{})", tool.name));
    }
    #[expect(clippy::disallowed_methods, reason = "cargo tells a build script everything by its environment")]
    let (ci, path) = (std::env::var_os("CI"), std::env::var_os("PATH").unwrap_or_default());
    if ci.is_some_and(|ci| ci == "true") {
        return;
    }
    let mut missing = TOOLS.iter().filter(|tool| !(tool.is_there)()).peekable();
    if missing.peek().is_some() {
        // A later installation changes one of these folders.
        for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute() && folder.is_dir()) {
            say(&format!("rerun-if-changed={}", folder.display()));
        }
    }
    for tool in missing {
        say(&format!("rustc-cfg=missing_{}", tool.name));
    }
}

fn say(what: &str) {
    println!("cargo::{what}");
}

/// Returns the first line of a program's output. `None` if the program fails.
fn first_line(program: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}

/// Returns whether Go is 1.26 or newer. It runs in the folder of the module, where an older Go fetches the
/// version that the module needs.
fn has_go() -> bool {
    let folder = if Path::new("tools").is_dir() { Path::new("tools") } else { Path::new("../tools") };
    let version = first_line("go", &["env", "GOVERSION"], folder);
    let minor = version.as_deref().and_then(|version| version.strip_prefix("go1.")).map(leading_number);
    minor.is_some_and(|minor| minor >= 26)
}

/// Returns whether Node 20 or newer is installed, with npm.
fn has_node() -> bool {
    let here = Path::new(".");
    let version = first_line("node", &["--version"], here);
    let major = version.as_deref().and_then(|version| version.strip_prefix('v')).map(leading_number);
    major.is_some_and(|major| major >= 20) && first_line("npm", &["--version"], here).is_some()
}

/// Returns whether Python 3.10 or newer is installed, with `venv`, which some systems package separately.
fn has_python() -> bool {
    let version =
        first_line("python3", &["-c", "import ensurepip, sys, venv; print(sys.version_info.minor)"], Path::new("."));
    version.is_some_and(|minor| leading_number(&minor) >= 10)
}

/// Returns the number at the beginning of a text, or 0.
fn leading_number(text: &str) -> u32 {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}
