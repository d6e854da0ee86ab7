//! The file in the host's data that remembers which content each far store had.
//!
//! A host that starts compares: a store whose server was emptied, restored or exchanged meanwhile is not used until a
//! person accepts it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use async_trait::async_trait;
use homeostat_store::cached::{ContentRecord, KnownContent, server_id};
use homeostat_store::{Error, Result, Revision};
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::layout::CONTENTS;

/// Records at most. Beyond that, those of stores that the host does not have any more are dropped.
const RECORDS_MAX: usize = 64;
/// Bytes of an id at most: that of a store is below 100.
const ID_BYTES_MAX: usize = 1024;
/// Bytes of the file at most: its records with their names, escaped.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The records of all far stores of a host.
#[derive(Debug)]
pub(crate) struct ContentRecords {
    path: PathBuf,
    /// The names of the stores that the host has.
    names: Vec<Arc<str>>,
    records: Mutex<File>,
}

/// The file. Fields that this version does not know are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct File {
    stores: BTreeMap<String, Record>,
}

/// What is remembered of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The id of the content that was used last.
    content: String,
    /// A revision that the content had reached, if the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reached: Option<u64>,
}

impl ContentRecords {
    /// Reads the file below `data`. `names` are the stores that the host has now.
    ///
    /// # Errors
    /// When the file cannot be read or parsed: the host would then take any content for its own.
    pub(crate) fn open(data: &Path, names: Vec<Arc<str>>) -> anyhow::Result<Arc<Self>> {
        let path = data.join(CONTENTS);
        let file = match homeostat_files::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                exit::failed(format!(
                    "{} remembers which content the stores had, and cannot be parsed ({error}): restore it, or remove it if the stores have the content that they should have",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => File::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(Arc::new(Self { path, names, records: Mutex::new(file) }))
    }

    /// Returns the content that a store had when this host last used it.
    pub(crate) fn of(&self, store: &str) -> Option<KnownContent> {
        let Record { content: id, reached } = self.lock().stores.get(store)?.clone();
        Some(KnownContent { id, reached: reached.map(Revision) })
    }

    /// Returns the record of one store.
    pub(crate) fn record(self: &Arc<Self>, store: &Arc<str>) -> Arc<dyn ContentRecord> {
        Arc::new(StoreRecord { records: Arc::clone(self), store: Arc::clone(store) })
    }

    /// Replaces the record of a store. Returns when that is durable.
    fn write(&self, store: &str, content: &KnownContent) -> io::Result<()> {
        let KnownContent { id, reached } = content;
        if id.len() > ID_BYTES_MAX {
            let reason = format!("the id of its content has more than {ID_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        // The lock is held while the file is written, so that no older state replaces a newer one.
        let mut records = self.lock();
        let mut changed = records.clone();
        changed
            .stores
            .insert(store.to_owned(), Record { content: id.clone(), reached: reached.map(|reached| reached.0) });
        let is_old = |name: &&String| !self.names.iter().any(|known| **known == ***name);
        while changed.stores.len() > RECORDS_MAX
            && let Some(old) = changed.stores.keys().find(is_old).cloned()
        {
            changed.stores.remove(&old);
        }
        if let Some(folder) = self.path.parent() {
            homeostat_files::make_private_folder(folder)?;
        }
        homeostat_files::replace_durable(&self.path, &serde_json::to_vec_pretty(&changed)?)?;
        *records = changed;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record of one store.
struct StoreRecord {
    records: Arc<ContentRecords>,
    store: Arc<str>,
}

#[async_trait]
impl ContentRecord for StoreRecord {
    async fn write(&self, content: &KnownContent) -> Result<()> {
        let (records, store, content) = (Arc::clone(&self.records), Arc::clone(&self.store), content.clone());
        let path = self.records.path.display();
        let written = tokio::task::spawn_blocking(move || records.write(&store, &content)).await;
        written
            .map_err(io::Error::other)
            .and_then(|written| written)
            .map_err(|error| Error::unavailable(format!("its content cannot be remembered in {path}: {error}")))
    }

    fn other_name(&self, id: &str) -> Option<String> {
        let records = self.records.lock();
        let has_it = |record: &Record| server_id(&record.content) == id;
        let other = records.stores.iter().find(|(name, record)| **name != *self.store && has_it(record));
        other.map(|(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests;
