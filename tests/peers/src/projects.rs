//! Writes a project in each language with `homeostat new`, and builds their components with `homeostat build`.
//!
//! The toolchains are those of the tests, with pinned versions.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use homeostat_servers::{node_tool, python_tool, repository};
use tokio::process::Command;

use crate::guests::manifest_folder;

/// The name of each project.
const NAME: &str = "greeter";

/// Builds a component for each language, and returns the folder with `guest_LANGUAGE.wasm`.
///
/// # Errors
/// `homeostat` or a component does not build.
pub(crate) async fn build(target: &Path, languages: &[&str]) -> Result<PathBuf> {
    let program = host(target).await?;
    let components = target.join("peers/languages");
    std::fs::create_dir_all(&components).context("the folder of the components cannot be made")?;
    let scratch = tempfile::tempdir().context("no folder for the projects can be made")?;
    for language in languages {
        let project = scratch.path().join(language);
        std::fs::create_dir_all(&project).context("the folder of a project cannot be made")?;
        let mut new = Command::new(&program);
        new.args(["new", NAME, "--lang", language]).current_dir(&project);
        if *language == "rust" {
            new.arg("--sdk").arg(repository().join("guest-sdk"));
        }
        succeed(new).await?;
        let project = project.join(NAME);
        link_tools(language, &project).await?;
        let mut build = Command::new(&program);
        build.args(["build", "."]).current_dir(&project);
        build.env("CARGO_TARGET_DIR", repository().join("target/tools/languages"));
        succeed(build).await?;
        std::fs::copy(project.join(format!("{NAME}.wasm")), components.join(format!("guest_{language}.wasm")))
            .context("a component cannot be copied")?;
    }
    Ok(components)
}

/// Builds `homeostat` beside this program, with the same profile, and returns its path.
///
/// # Errors
/// It does not build.
pub(crate) async fn host(target: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--release", "--locked", "--package", "homeostat"]);
    command.env("CARGO_TARGET_DIR", target).current_dir(manifest_folder());
    succeed(command).await?;
    Ok(target.join("release/homeostat"))
}

/// Gives a project the tools that `build --install` would install into it.
async fn link_tools(language: &str, project: &Path) -> Result<()> {
    // Both install on the first call, and block meanwhile.
    let tools = |tool: fn(&'static str) -> PathBuf, name| async move {
        let installed = tokio::task::spawn_blocking(move || tool(name)).await?;
        anyhow::Ok(installed)
    };
    let (link, folder) = match language {
        "js" => ("node_modules", tools(node_tool, "componentize-js").await?.ancestors().nth(2).map(Path::to_owned)),
        "python" | "c" => (".venv", tools(python_tool, "python").await?.ancestors().nth(2).map(Path::to_owned)),
        _ => return Ok(()),
    };
    let folder = folder.context("the tool is in no folder")?;
    std::os::unix::fs::symlink(folder, project.join(link)).context("the tools cannot be linked")
}

async fn succeed(mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.with_context(|| format!("{:?} does not start", command.as_std()))?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{:?}: {}", command.as_std(), String::from_utf8_lossy(&said));
    Ok(())
}
