//! Defragments the file: returns free space to the file system.
//!
//! A file grows with its history. redb reuses the space of compacted history, but returns little of it: the
//! used pages lie between free ones. Opening a store reads the whole file, so a mostly empty file would open
//! as slowly as a full one. So a file that is more than half free is defragmented when it is closed, and when
//! it is opened after a crash. The amount of data to move is bounded; a larger store shrinks by a backup and
//! a restore.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableStats};

use super::codec::{INDEX_ENTRIES, LOG, META, OWNERS, RESOURCES, TIMES};
use super::indexes::existing;
use super::writer::{EngineResult, engine_error};

/// Smaller files are read quickly and stay as they are.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// Data moved at most: about a second's worth.
const USED_BYTES_MAX: u64 = 256 << 20;

/// Defragments a file that is more than half free. `bytes` is its length. A failure leaves the content
/// unchanged.
pub(super) fn defragment(database: &mut Database, path: &Path, bytes: u64) {
    if bytes < FILE_BYTES_MIN {
        return;
    }
    let path = path.display();
    match used_bytes(database) {
        Ok(used) if used > USED_BYTES_MAX || used >= bytes / 2 => {}
        Ok(used) => match database.compact() {
            Ok(_) => tracing::info!(%path, bytes, used, "defragmented the store's file"),
            Err(error) => tracing::warn!(%error, %path, bytes, used, "cannot defragment the store's file"),
        },
        Err(error) => tracing::warn!(%error, %path, "cannot determine how much of the store's file is in use"),
    }
}

/// Returns the size of the tables, including the free space within their pages.
fn used_bytes(database: &Database) -> EngineResult<u64> {
    let transaction = database.begin_read().map_err(engine_error)?;
    let bytes = |stats: TableStats| stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    let stats = [
        transaction.open_table(RESOURCES).map_err(engine_error)?.stats(),
        transaction.open_table(OWNERS).map_err(engine_error)?.stats(),
        transaction.open_table(LOG).map_err(engine_error)?.stats(),
        transaction.open_table(META).map_err(engine_error)?.stats(),
    ];
    let mut used = 0;
    for stats in stats {
        used += bytes(stats.map_err(engine_error)?);
    }
    if let Some(times) = existing(transaction.open_table(TIMES))? {
        used += bytes(times.stats().map_err(engine_error)?);
    }
    if let Some(entries) = existing(transaction.open_table(INDEX_ENTRIES))? {
        used += bytes(entries.stats().map_err(engine_error)?);
    }
    Ok(used)
}
