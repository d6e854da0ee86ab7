//! Our controller: a guest in the host's own program, with its default settings and a kind that is routed to the cluster.
//!
//! The controller begins when its manifest appears in the folder that the host follows. Its component was compiled
//! before, as that of a host that starts again.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::guests;
use crate::plan::Work;
use crate::process::Programs;

/// The text of a host before the address of its API.
const SERVING: &str = " serving ";
/// The text of a host after it has added a controller.
const ADDED: &str = " added ";
/// How long the component may compile.
const COMPILE_MAX: Duration = Duration::from_secs(60);

/// The process of a host. It is killed when this is dropped.
pub(super) struct HostController {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    manifest: Manifest,
    _folder: TempDir,
}

/// The manifest of the controller, which is not in the host's folder yet.
struct Manifest {
    path: PathBuf,
    text: String,
}

impl HostController {
    /// Compiles the component, starts a host whose kind lives in the cluster, and waits until it serves.
    pub(super) async fn prepare(programs: &Programs, work: &Work, kubeconfig: &str) -> Result<HostController> {
        let folder = tempfile::tempdir().context("no folder for the host can be created")?;
        let (manifests, data) = (folder.path().join("manifests"), folder.path().join("data"));
        for folder in [&manifests, &data] {
            std::fs::create_dir(folder).context("no folder for the host can be created")?;
        }
        std::fs::write(manifests.join("status.wasm"), guests::read(&programs.guests, "status")?)?;
        let manifest = Manifest { path: manifests.join("controller.yaml"), text: controller(work).to_string() };
        compile(&programs.host, &manifests, &manifest, &data).await?;
        std::fs::write(manifests.join("stores.yaml"), stores(kubeconfig).to_string())?;
        let mut child = start(&programs.host, &manifests, &data)?;
        let mut lines = lines(&mut child)?;
        until(&mut lines, SERVING).await?;
        Ok(HostController { child, lines, manifest, _folder: folder })
    }

    /// Adds the controller to the folder of the host.
    pub(super) fn start(&self) -> Result<()> {
        self.manifest.write()
    }

    /// Returns why the host ended, once it has.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        // No line of a host has this text.
        until(&mut self.lines, "\n").await.err().unwrap_or_else(|| anyhow::anyhow!("it ended"))
    }

    /// Returns the number of the process.
    pub(super) fn process(&self) -> Result<String> {
        Ok(self.child.id().context("it ended")?.to_string())
    }

    /// Stops the host, and waits for that.
    pub(super) async fn end(mut self) -> Result<()> {
        stop(&mut self.child).await
    }
}

impl Manifest {
    fn write(&self) -> Result<()> {
        std::fs::write(&self.path, &self.text).context("the manifest of the controller cannot be written")
    }
}

/// Runs a host with the controller and without a cluster until the component is compiled into `data`.
async fn compile(program: &Path, manifests: &Path, manifest: &Manifest, data: &Path) -> Result<()> {
    manifest.write()?;
    let before = tempfile::tempdir_in(data.parent().context("the folder has no parent")?)?;
    let mut child = start(program, manifests, before.path())?;
    let mut lines = lines(&mut child)?;
    let added = tokio::time::timeout(COMPILE_MAX, until(&mut lines, ADDED)).await;
    added.context("the component does not compile")??;
    stop(&mut child).await?;
    std::fs::remove_file(&manifest.path)?;
    std::fs::rename(before.path().join("compiled"), data.join("compiled")).context("no component is compiled")
}

/// Starts `homeostat run`.
fn start(program: &Path, manifests: &Path, data: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.arg("run").arg(manifests).arg("--data").arg(data).args(["--listen", "http://127.0.0.1:0"]);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().context("the host does not start")
}

fn lines(child: &mut Child) -> Result<Lines<BufReader<ChildStderr>>> {
    Ok(BufReader::new(child.stderr.take().context("it has no errors")?).lines())
}

/// Reads lines up to one with this text.
///
/// # Errors
/// The host ended; the error has its lines.
async fn until(lines: &mut Lines<BufReader<ChildStderr>>, text: &str) -> Result<()> {
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if line.contains(text) {
            return Ok(());
        }
        said.push(line);
    }
    anyhow::bail!("it ended: {}", said.join("\n"))
}

/// Asks a host to stop, and waits for that.
async fn stop(child: &mut Child) -> Result<()> {
    let process = child.id().context("the host ended")?.to_string();
    let status = Command::new("kill").args(["-TERM", &process]).status().await?;
    anyhow::ensure!(status.success(), "the host cannot be stopped");
    child.wait().await?;
    Ok(())
}

/// The manifest of the controller, which may do everything, as its peers may.
fn controller(work: &Work) -> serde_json::Value {
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "measured"},
        "spec": {
            "component": {"file": "status.wasm"}, "concurrency": work.size.workers,
            "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
        },
    })
}

/// The file of stores, which routes the kind to the cluster.
fn stores(kubeconfig: &str) -> serde_json::Value {
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Stores",
        "stores": [{"name": "cluster", "kubernetes": {"kubeconfig": kubeconfig}}],
        "routes": [{"kinds": ["demo.homeostat.dev/*"], "store": "cluster"}],
    })
}
