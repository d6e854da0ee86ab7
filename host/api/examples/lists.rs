//! Measures the memory that a host uses to send a long list, compared with the whole list in memory.
//!
//! `cargo run --release -p homeostat-api --example lists -- --resources 100000 [--folder FOLDER]`
//!
//! The store is a file in a new folder, with resources of about a kilobyte. Each list is requested over the
//! host's socket, and the bytes are counted and dropped. The first list also fills the store's page cache,
//! which takes at most 128 MiB.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that cannot go on says so and ends")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use homeostat_api::{Address, Handle, Options, serve};
use homeostat_component::{Engine, EngineOptions, KindDeclaration};
use homeostat_runtime::{Host, KindInfo, Options as HostOptions};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Kind, Options as StoreOptions, Query, Store, Write};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Concurrent writers.
const WRITERS: usize = 1024;

const LIST: &str = "/api/v1/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn arguments() -> Outcome<(usize, PathBuf)> {
    let (mut resources, mut folder) = (100_000, std::env::temp_dir());
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--resources" => resources = value.parse()?,
            "--folder" => folder = value.into(),
            _ => return Err(format!("unknown argument {name}").into()),
        }
    }
    Ok((resources, folder))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let (resources, folder) = arguments()?;
    let folder = tempfile::tempdir_in(folder)?;
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), StoreOptions::default())?);
    fill(&store, resources).await;
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() })?;
    let host = Host::start(HostOptions::new(engine, store.clone())).await?;
    let declaration =
        KindDeclaration { kind: kind(), plural: "configmaps".into(), namespaced: true, keys_only: false, schema: None };
    host.kinds().declare(KindInfo::declared(&declaration, "example"))?;
    let address = format!("unix:{}", folder.path().join("host.sock").display());
    let handle = serve(Options { address, ..Options::default() }, host.clone()).await?;
    let watch = format!("{LIST}?watch=1&timeoutSeconds=1");
    let asked = [
        ("first list", LIST, "application/json"),
        ("list", LIST, "application/json"),
        ("table", LIST, TABLE),
        ("metadata", LIST, METADATA),
        ("watch from the beginning", watch.as_str(), "application/json"),
    ];
    for (name, path, accept) in asked {
        measure(name, ask(&handle, path, accept)).await?;
    }
    measure("the whole list in memory, once as resources and once as text", whole(&store)).await?;
    handle.stop(Duration::from_secs(1)).await;
    host.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

fn kind() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

async fn fill(store: &Arc<EmbeddedStore>, resources: usize) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        writers.spawn(async move {
            for number in (writer..resources).step_by(WRITERS) {
                let metadata = json!({ "namespace": "default", "name": format!("map-{number}") });
                let data = json!({ "text": "x".repeat(700) });
                let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
                store.write(Write::Create { document }).await.expect("it is new");
            }
        });
    }
    writers.join_all().await;
}

/// Requests a path, and returns the number of bytes in the response.
async fn ask(handle: &Handle, path: &str, accept: &str) -> Outcome<u64> {
    let Address::Unix(socket) = handle.address() else { return Err("not a socket".into()) };
    let (mut sender, connection) = http1::handshake(TokioIo::new(UnixStream::connect(socket).await?)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost").header("accept", accept).body(Empty::<Bytes>::new())?;
    let mut body = sender.send_request(request).await?.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(bytes)
}

/// Reads a whole list and encodes it, like a server that does not stream.
async fn whole(store: &EmbeddedStore) -> Outcome<u64> {
    let page = store.list(&Query::all(kind())).await?;
    let items: Vec<&Value> = page.items.iter().map(|resource| resource.document()).collect();
    Ok(serde_json::to_vec(&items)?.len() as u64)
}

/// Prints how far the memory of this process rises during `work`.
async fn measure(name: &str, work: impl Future<Output = Outcome<u64>>) -> Outcome<()> {
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let (before, begun) = (memory("VmRSS:")?, Instant::now());
    let bytes = work.await?;
    let seconds = begun.elapsed().as_secs_f64();
    let peak = memory("VmHWM:")?;
    println!("{name}: {} MiB in {seconds:.2} s; memory {before} MiB before, {peak} MiB at most", bytes >> 20);
    Ok(())
}

/// Returns a field of `/proc/self/status`, in MiB.
fn memory(name: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? >> 10)
}
