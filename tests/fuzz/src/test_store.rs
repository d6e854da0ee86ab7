//! The store that inputs are written to: in memory, and the same every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use homeostat_store::memory::MemoryStore;
use homeostat_store::{
    ClockAndIds, Error, FieldValidation, Kind, Options, Request, Revision, Scope, Store, Write, WriteResponse,
};
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// A fixed time, and uids that count up.
#[derive(Debug, Default)]
struct FixedSource(AtomicU64);

impl ClockAndIds for FixedSource {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    fn uid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn suffix(&self) -> String {
        format!("{:05}", self.0.fetch_add(1, Ordering::Relaxed) % 100_000)
    }
}

/// Returns the options of a store, with a write-ahead log of this length.
pub(crate) fn options(journal_bytes: u64) -> Options {
    Options { wal_bytes: journal_bytes, clock: Arc::new(FixedSource::default()), ..Options::default() }
}

/// Makes an empty store.
pub(crate) fn store() -> MemoryStore {
    MemoryStore::new(options(0))
}

/// The kind of the documents that targets make.
pub(crate) fn kind() -> Kind {
    Kind::new("demo.dev", "v1", "Widget")
}

/// Returns a document of that kind.
pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "demo.dev/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name, "tier": "back"}},
        "spec": spec,
    })
}

/// Returns the revision of a store.
pub(crate) fn revision(store: &dyn Store) -> Revision {
    wait(store.revision(&Scope::Everything)).expect("the store is open")
}

/// Runs a future to its end.
pub(crate) fn wait<F: Future>(what: F) -> F::Output {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime without threads takes no more than memory")
        .block_on(what)
}

/// Writes as a client that is warned about unknown fields.
pub(crate) fn submit(store: &impl Store, write: Write, dry_run: bool) -> Result<WriteResponse, Error> {
    let request =
        Request { manager: "fuzz".to_owned(), dry_run, field_validation: FieldValidation::Warn, ..write.into() };
    wait(store.submit(request))
}
