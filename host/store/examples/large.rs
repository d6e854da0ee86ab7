//! Measures the opening time and memory of a large store in a file: after a clean close and after a kill.
//!
//! `cargo run --release -p homeostat-store --example large -- --resources 1000000 [--history MIB] [--folder
//! FOLDER]`
//!
//! `--history` rewrites the resources until the history has that size, and raises the store's bound
//! accordingly; without it, the default bound applies.
//!
//! The file is created by ordinary concurrent writes, and removed at the end. Each opening runs in its own
//! process, so that it starts with empty memory; the file itself may be in the page cache.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that cannot go on says so and ends")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use homeostat_store::embedded::{EmbeddedStore, fsck};
use homeostat_store::{Kind, Options, Precondition, Query, Scope, Store, Write};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Concurrent writes.
const WRITERS: u64 = 1024;

/// Bytes of a document that differ in every round of history, approximately.
const HISTORY_NOTE_BYTES: usize = 8192;

struct Arguments {
    resources: u64,
    history_mib: u64,
    folder: PathBuf,
    /// The action of a child process on the file: `open`, `kill` or `fsck`.
    child: Option<(String, PathBuf)>,
}

fn arguments() -> Outcome<Arguments> {
    let mut parsed = Arguments { resources: 100_000, history_mib: 0, folder: std::env::temp_dir(), child: None };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--resources" => parsed.resources = value()?.parse()?,
            "--history" => parsed.history_mib = value()?.parse()?,
            "--folder" => parsed.folder = value()?.into(),
            "--child" => parsed.child = Some((value()?, value()?.into())),
            _ => return Err(format!("unknown argument {name}").into()),
        }
    }
    Ok(parsed)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let Arguments { resources, history_mib, folder, child } = arguments()?;
    if let Some((what, path)) = child {
        return act(&what, &path, options(history_mib)).await;
    }
    let path = folder.join(format!("large-{}.store", std::process::id()));
    let measured = measure(&path, resources, history_mib).await;
    std::fs::remove_file(&path)?;
    measured
}

async fn measure(path: &Path, resources: u64, history_mib: u64) -> Outcome<()> {
    let begun = Instant::now();
    build(path, resources, history_mib).await?;
    let megabytes = std::fs::metadata(path)?.len() >> 20;
    println!("built: {resources} resources, {megabytes} MiB, in {:.1} s", begun.elapsed().as_secs_f64());
    for (name, what) in [
        ("after a clean close", "open"),
        ("(a write, then a kill)", "kill"),
        ("after a kill", "open"),
        ("checked", "fsck"),
    ] {
        println!("{name}:");
        let status = Command::new(std::env::current_exe()?)
            .args(["--history", &history_mib.to_string()])
            .args(["--child", what])
            .arg(path)
            .status()?;
        if !status.success() && what != "kill" {
            return Err(format!("{name}: {status}").into());
        }
    }
    Ok(())
}

fn options(history_mib: u64) -> Options {
    let default = Options::default();
    let history_bytes_max = default.history_bytes_max.max(history_mib << 20);
    let history_max = if history_mib > 0 { u64::MAX } else { default.history_max };
    Options { history_bytes_max, history_max, ..default }
}

fn document(number: u64) -> Value {
    let metadata = json!({
        "namespace": format!("team-{}", number % 100),
        "name": format!("deployment-{number}"),
        "labels": {"app": format!("app-{}", number % 1000), "tier": "web"},
    });
    let spec = json!({"replicas": 3, "image": "registry.example.dev/team/app:1.2.3", "ports": [80, 443], "note": "x".repeat(100)});
    json!({"apiVersion": "example.dev/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
}

async fn build(path: &Path, resources: u64, history_mib: u64) -> Outcome<()> {
    let store = Arc::new(EmbeddedStore::open(path, options(history_mib))?);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for number in (writer..resources).step_by(usize::try_from(WRITERS).expect("it is small")) {
                store.write(Write::Create { document: document(number) }).await.expect("it is new");
            }
        });
    }
    writers.join_all().await;
    let (mut written, mut round) = (0, 0);
    while written < history_mib << 20 {
        round += 1;
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..resources {
            let store = Arc::clone(&store);
            let mut document = document(number);
            document["spec"]["note"] = format!("{round} ").repeat(HISTORY_NOTE_BYTES / 4).into();
            written += HISTORY_NOTE_BYTES as u64 * 2;
            let write = Write::Update { document, precondition: Precondition::default() };
            writers.spawn(async move { store.write(write).await.map(drop) });
        }
        writers.join_all().await.into_iter().collect::<Result<Vec<()>, _>>()?;
    }
    store.close().await;
    Ok(())
}

async fn act(what: &str, path: &Path, options: Options) -> Outcome<()> {
    let (before, begun) = (memory()?, Instant::now());
    if what == "fsck" {
        let found = fsck(path)?;
        println!(
            "  {:.2} s, {} resources, {} problems",
            begun.elapsed().as_secs_f64(),
            found.resources,
            found.problems_total
        );
        println!("  memory: {before} before, {} after", memory()?);
        return Ok(());
    }
    let store = EmbeddedStore::open(path, options)?;
    println!(
        "  opened in {:.3} s at revision {}; memory: {before} before, {} after",
        begun.elapsed().as_secs_f64(),
        store.revision(&Scope::Everything).await?,
        memory()?
    );
    let begun = Instant::now();
    store.write(Write::Create { document: document(u64::from(std::process::id()) + (1 << 40)) }).await?;
    println!("  first write in {:.3} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let kind = Kind::new("example.dev", "v1", "Deployment");
    let page = store.list(&Query { limit: Some(500), ..Query::all(kind) }).await?;
    println!("  first page of {} in {:.3} s; memory: {}", page.items.len(), begun.elapsed().as_secs_f64(), memory()?);
    if what == "kill" {
        std::process::abort();
    }
    let begun = Instant::now();
    store.close().await;
    println!("  closed in {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Prints the present and the peak memory of this process.
fn memory() -> Outcome<String> {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return Ok("unknown".to_owned()) };
    let field = |name: &str| -> Outcome<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? >> 10)
    };
    Ok(format!("{} MiB (peak {})", field("VmRSS:")?, field("VmHWM:")?))
}
