//! Giving back the room in a file that a store no longer needs.
//!
//! A file grows with the history in it, and the engine uses the room of what is cut off again, but gives little of it back: what is in use
//! lies between what is not. As all of a file is read when it is opened, one with little in it would take as long as a full one. So a file of
//! which more than half is free is made as small as it can be: when it is closed, and when it is opened after a life that was cut short.
//! Both are bounded by how much there is to move; a larger store becomes small by a backup that is restored.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableError, TableStats};

use super::codec::{LOG, META, OWNERS, RESOURCES, TIMES};
use super::writer::{EngineResult, engine_error};

/// Files that are smaller are read in no time.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// What is moved at most: about a second's worth.
const USED_BYTES_MAX: u64 = 256 << 20;

/// Makes a file small of which more than half is free. `bytes` is how long it is. What fails leaves what is in it as it is.
pub(super) fn defragment(database: &mut Database, path: &Path, bytes: u64) {
    if bytes < FILE_BYTES_MIN {
        return;
    }
    let path = path.display();
    match used_bytes(database) {
        Ok(used) if used > USED_BYTES_MAX || used >= bytes / 2 => {}
        Ok(used) => match database.compact() {
            Ok(_) => tracing::info!(%path, bytes, used, "the file of the store was mostly free, and is small again"),
            Err(error) => tracing::warn!(%error, %path, bytes, used, "the file of the store cannot be made smaller"),
        },
        Err(error) => tracing::warn!(%error, %path, "it is not known how much of the file of the store is in use"),
    }
}

/// Returns how many bytes the tables take, with what is free within their pages.
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
    match transaction.open_table(TIMES) {
        Err(TableError::TableDoesNotExist(_)) => {}
        times => used += bytes(times.map_err(engine_error)?.stats().map_err(engine_error)?),
    }
    Ok(used)
}
