//! Measures lists of ten resources by an indexed label, among a thousand resources and among many.
//!
//! `cargo run --release -p homeostat-store --example indexes -- [--resources 1000000] [--folder FOLDER]`
//!
//! Each list is repeated, and the median counts. `examined` is the number of resources that one list compares with its
//! selector. Without an index, a list by another label of the same ten resources looks at all of them.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that cannot go on says so and ends")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{IndexTerm, Kind, LabelRequirement, Options, Query, Selector, Store, Write};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Concurrent writers.
const WRITERS: usize = 1024;
/// Resources that a list returns.
const MATCHES: usize = 10;
/// Lists with an index of which the median is taken.
const LISTS: usize = 1001;

fn arguments() -> Outcome<(usize, PathBuf)> {
    let (mut resources, mut folder) = (1_000_000, std::env::temp_dir());
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
    for count in [1_000, resources] {
        let folder = tempfile::tempdir_in(&folder)?;
        let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), Options::default())?);
        let filled = Instant::now();
        fill(Arc::clone(&store) as Arc<dyn Store>, count).await;
        println!("file, {count} resources: filled in {:.1} s", filled.elapsed().as_secs_f64());
        let examined = || store.examined();
        measure("without an index", &*store, "plain", 3, examined).await?;
        let built = Instant::now();
        declare(&*store);
        while store.complete_indexes(&kind()).await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("  the index was built in {:.3} s", built.elapsed().as_secs_f64());
        measure("with an index", &*store, "app", LISTS, examined).await?;
    }
    for count in [1_000, resources] {
        let store = Arc::new(MemoryStore::new(Options::default()));
        fill(Arc::clone(&store) as Arc<dyn Store>, count).await;
        declare(&*store);
        println!("memory, {count} resources");
        let examined = || store.examined().unwrap_or_default();
        measure("first list, which builds the index", &*store, "app", 1, examined).await?;
        measure("with an index", &*store, "app", LISTS, examined).await?;
    }
    Ok(())
}

fn kind() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

fn declare(store: &dyn Store) {
    if let Some(schemas) = store.schemas() {
        schemas.set_indexes(&kind(), &[IndexTerm::Label("app".to_owned())]);
    }
}

async fn fill(store: Arc<dyn Store>, resources: usize) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for number in (writer..resources).step_by(WRITERS) {
                let app = if number % (resources / MATCHES) == 0 { "wanted".into() } else { format!("app-{number}") };
                let labels = json!({ "app": app, "plain": app });
                let metadata = json!({ "namespace": "default", "name": format!("map-{number}"), "labels": labels });
                let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
                store.write(Write::Create { document }).await.expect("it is new");
            }
        });
    }
    writers.join_all().await;
}

/// Prints the median time of a list by a label, and the resources that it looks at.
async fn measure(name: &str, store: &dyn Store, label: &str, lists: usize, examined: impl Fn() -> u64) -> Outcome<()> {
    let labels = vec![LabelRequirement::Equals(label.to_owned(), "wanted".to_owned())];
    let query = Query { selector: Selector { labels, ..Selector::default() }, ..Query::all(kind()) };
    let before = examined();
    let mut times = Vec::with_capacity(lists);
    for _ in 0..lists {
        let begun = Instant::now();
        let found = store.list(&query).await?.items.len();
        times.push(begun.elapsed());
        assert_eq!(found, MATCHES, "every list is complete");
    }
    times.sort_unstable();
    let (median, examined) = (times[times.len() / 2], (examined() - before) / lists as u64);
    println!("  {name}: {:.1} us, {examined} examined", median.as_secs_f64() * 1e6);
    Ok(())
}
