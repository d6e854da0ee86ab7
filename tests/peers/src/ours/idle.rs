//! The memory of idle controllers: a whole host with its store on disk and its API, as in `homeostat run`.
//! The controllers are added directly, so the resource and revision of a folder's controllers are not
//! included.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use homeostat_component::{Engine, EngineOptions, Grants};
use homeostat_runtime::{Definition, Host, Options};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Store, Write};
use serde_json::json;
use tokio::process::Command;

use super::host::{CountingObserver, everything};
use crate::arguments::Size;
use crate::guests;
use crate::measure::{proportional_bytes, resident_bytes};
use crate::values::{Values, named};

/// Components are evicted sooner than by default, to shorten the wait.
const REST_AFTER: Duration = Duration::from_millis(200);
/// How often the eviction of all components is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time limit for all components to be evicted.
const REST_MAX: Duration = Duration::from_secs(60);
/// The pause in which idle threads and the like end.
const SETTLE: Duration = Duration::from_millis(500);

/// The beginning of the work that compiles a guest.
pub(super) const COMPILE_GUEST: &str = "compile guest ";

/// One component under many names.
pub(super) async fn one(size: &Size, guests: &Path) -> Result<Values> {
    compile_apart(1, guests).await?;
    let component = variant(&guests::read(guests, "noop")?, 0);
    values(size, |_| component.clone()).await
}

/// A component for each controller, all compiled before.
pub(super) async fn distinct(size: &Size, guests: &Path) -> Result<Values> {
    compile_apart(size.keys, guests).await?;
    let component = guests::read(guests, "noop")?;
    values(size, |number| variant(&component, number)).await
}

/// Compiles the distinct components and keeps them for the next process.
pub(super) async fn compile(size: &Size, guests: &Path) -> Result<Values> {
    let (engine, component) = (engine()?, guests::read(guests, "noop")?);
    for number in 0..size.keys {
        engine.load(variant(&component, number)).await?;
    }
    Ok(Values::new())
}

/// Compiles a guest and keeps it for the next process.
pub(super) async fn compile_guest(name: &str, guests: &Path) -> Result<Values> {
    engine()?.load(guests::read(guests, name)?).await?;
    Ok(Values::new())
}

/// Compiles distinct components in another process, whose memory is not measured.
pub(super) async fn compile_apart(components: usize, guests: &Path) -> Result<()> {
    compile_by("compile", components, guests).await
}

/// Compiles a guest in another process, whose memory is not measured.
pub(super) async fn compile_guest_apart(name: &str, guests: &Path) -> Result<()> {
    compile_by(&format!("{COMPILE_GUEST}{name}"), 1, guests).await
}

async fn compile_by(work: &str, components: usize, guests: &Path) -> Result<()> {
    let program = std::env::current_exe().context("this program does not know where it is")?;
    let mut command = Command::new(program);
    command.args(["contender", "homeostat", "density", work, "--keys", &components.to_string(), "--guests"]);
    let status = command.arg(guests).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).status().await;
    ensure!(status.context("the compiler does not start")?.success(), "the components do not compile");
    Ok(())
}

/// Returns an equivalent component with another digest: an unused custom section is appended.
pub(super) fn variant(component: &[u8], number: usize) -> Vec<u8> {
    const NAME: &[u8] = b"variant";
    let number = (number as u64).to_le_bytes();
    // The ID of a custom section, its length, and the length of its name.
    let head = [0, (1 + NAME.len() + number.len()) as u8, NAME.len() as u8];
    [component, &head, NAME, &number].concat()
}

/// The folder of compiled components, kept between runs.
pub(super) fn compiled() -> PathBuf {
    std::env::temp_dir().join("compiled")
}

/// Returns an engine with the settings of the host's binary.
pub(super) fn engine() -> Result<Engine> {
    let options =
        EngineOptions { compiled: Some(compiled()), rest_after: Some(REST_AFTER), ..EngineOptions::default() };
    Engine::new(options).context("the engine does not start")
}

/// Waits until all code is evicted from memory.
pub(super) async fn all_rest(engine: &Engine) -> Result<()> {
    let rest = async {
        while engine.components_in_memory() > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(REST_MAX, rest).await.context("the components do not rest")
}

/// Starts controllers, lets each reconcile once, and measures the process before the second and after the
/// last of them.
async fn values(size: &Size, component: impl Fn(usize) -> Vec<u8>) -> Result<Values> {
    let folder = tempfile::tempdir().context("no folder for the store can be created")?;
    let store: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(folder.path().join("store.redb"), homeostat_store::Options::default())?);
    let (engine, count) = (engine()?, CountingObserver::default());
    let options = Options { observer: Arc::new(count.clone()), ..Options::new(engine.clone(), store.clone()) };
    let host = Host::start(options).await.context("the host does not start")?;
    let _api = homeostat_api::serve(homeostat_api::Options::default(), host.clone()).await?;
    let grants = Grants { resources: vec![everything()], ..Grants::default() };
    let mut of_one = (0, 0);
    for number in 0..size.keys {
        let component = host.load(component(number)).await?;
        let kind = component.describe().manages.kind.clone();
        let name = format!("idle-{number}");
        let definition = Definition { grants: grants.clone(), ..Definition::new(&name, component) };
        host.put(definition).await?;
        host.ready(&name).await?;
        if number == 0 {
            let document = json!({
                "apiVersion": kind.api_version(), "kind": kind.name,
                "metadata": {"namespace": "default", "name": "it"},
            });
            store.write(Write::Create { document }).await?;
            count.until(1).await;
            all_rest(&engine).await?;
            tokio::time::sleep(SETTLE).await;
            of_one = (resident_bytes()?, proportional_bytes()?);
        }
    }
    count.until(size.keys).await;
    let failures = count.take().failures;
    ensure!(failures == 0, "{failures} reconciles failed");
    all_rest(&engine).await?;
    tokio::time::sleep(SETTLE).await;
    let of_all = (resident_bytes()?, proportional_bytes()?);
    let more = size.keys.saturating_sub(1).max(1);
    let each = |one: u64, all: u64| mib(all.saturating_sub(one)) / more as f64;
    Ok(named([
        ("each mib", each(of_one.0, of_all.0)),
        ("each pss mib", each(of_one.1, of_all.1)),
        ("all mib", mib(of_all.0)),
        ("all pss mib", mib(of_all.1)),
    ]))
}

pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
