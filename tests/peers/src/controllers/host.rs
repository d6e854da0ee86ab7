//! Our controller: a guest in the host's own program, with its default settings and a kind that is routed to the cluster.
//!
//! The controller begins when its manifest appears in the folder that the host follows. Its component was compiled
//! before, as that of a host that starts again.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;

use crate::guests;
use crate::host_process::HostProcess;
use crate::plan::Work;
use crate::process::Programs;

/// A text that a host writes once its API has an address.
const SERVING: &str = " serving ";
/// The text of a host after it has added a controller.
const ADDED: &str = " added ";
/// How long the component may compile.
const COMPILE_MAX: Duration = Duration::from_secs(60);

/// A host and its controller.
pub(super) struct HostController {
    process: HostProcess,
    manifest: Manifest,
    /// The last field: the process is killed before its folder is removed.
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
        let mut process = start(&programs.host, &manifests, &data)?;
        process.line_after(SERVING).await?;
        Ok(HostController { process, manifest, _folder: folder })
    }

    /// Adds the controller to the folder of the host.
    pub(super) fn start(&self) -> Result<()> {
        self.manifest.write()
    }

    /// Returns the process of the host.
    pub(super) fn process(&self) -> &HostProcess {
        &self.process
    }

    /// Waits until the host ends, and returns why it did.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        self.process.failure().await
    }

    /// Stops the host, and waits until it has ended.
    pub(super) async fn end(self) -> Result<()> {
        self.process.stop().await
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
    let mut process = start(program, manifests, before.path())?;
    let added = tokio::time::timeout(COMPILE_MAX, process.line_after(ADDED)).await;
    added.context("the component does not compile")??;
    process.stop().await?;
    std::fs::remove_file(&manifest.path)?;
    std::fs::rename(before.path().join("compiled"), data.join("compiled")).context("no component is compiled")
}

/// Starts a host that this user's programs reach.
fn start(program: &Path, manifests: &Path, data: &Path) -> Result<HostProcess> {
    HostProcess::start(program, manifests, data, &["--listen", "http://127.0.0.1:0"].map(OsStr::new))
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
