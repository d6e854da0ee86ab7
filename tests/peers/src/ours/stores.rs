//! Our side of the works with stores that are far away.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use homeostat_component::{Engine, EngineOptions};
use homeostat_nats::NatsStore;
use homeostat_nats::settings::{BucketSettings, Create};
use homeostat_runtime::Options;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::schema::Schemas;
use homeostat_store::{Query, Store, View};

use super::host::{BenchHost, CountingObserver};
use super::idle::compiled;
use super::loops::status_over;
use super::store::{in_process, kind, writes};
use crate::arguments::Size;
use crate::plan::STATUS_EMBEDDED;
use crate::values::Values;

pub(crate) async fn run(work: &str, size: &Size, guests: &Path, server: Option<&str>) -> Result<Values> {
    match (work, server) {
        (STATUS_EMBEDDED, _) => status_embedded(size, guests).await,
        ("write" | "write flushed", Some(server)) => nats_writes(size, server).await,
        _ => bail!("the stores have no work {work}, or it needs a server"),
    }
}

/// Returns an engine that finds what another process compiled.
fn engine() -> Result<Engine> {
    let options = EngineOptions { compiled: Some(compiled()), ..EngineOptions::default() };
    Engine::new(options).context("the engine does not start")
}

async fn status_embedded(size: &Size, guests: &Path) -> Result<Values> {
    let folder = tempfile::tempdir().context("no folder for the store can be created")?;
    let store = EmbeddedStore::open(folder.path().join("store.redb"), homeostat_store::Options::default())?;
    let count = CountingObserver::default();
    let options = Options::new(engine()?, Arc::new(store));
    let measured = BenchHost::over(Options { observer: Arc::new(count.clone()), ..options }).await?;
    status_over(&measured, &count, size, guests).await
}

/// Writes resources whose kind is in use, so that the store has a cache of it.
async fn nats_writes(size: &Size, server: &str) -> Result<Values> {
    let store: Arc<dyn Store> = Arc::new(nats_store(server, &format!("ours-{}", std::process::id()))?);
    let _subscription = store.subscribe(&kind(), View::Whole);
    store.list(&Query::all(kind())).await?;
    writes(in_process(Arc::clone(&store)), size).await
}

/// Opens the store of a bucket in files, which it creates.
///
/// # Errors
/// The settings are refused.
pub(crate) fn nats_store(server: &str, bucket: &str) -> Result<NatsStore> {
    let settings = BucketSettings { create: Some(Create::default()), ..BucketSettings::new(server, bucket) };
    Ok(homeostat_nats::open(settings, Schemas::default(), homeostat_store::cached::Options::default())?)
}
