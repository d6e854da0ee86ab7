//! Checking a file leaves it unchanged. A sound file is restored to a sound store with the same resources,
//! and any other file is not restored.

use std::fs;
use std::path::Path;

use homeostat_store::embedded::{EmbeddedStore, RestoreOptions, fsck, restore};
use homeostat_store::{Query, Store};
use serde_json::Value;

use crate::target::{Acceptance, Outcome, must, same};
use crate::test_store;

/// The requested length of the write-ahead log. The file states its own length, which is used.
const JOURNAL_BYTES: u64 = 0;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, input).map_err(|error| error.to_string())?;
    let found = fsck(&from);
    must("a file that is checked is left as it was", is(&from, input))?;
    let restored = restore(&from, &to, &RestoreOptions::default());
    must("a file that is restored is left as it was", is(&from, input))?;
    let left = fs::read_dir(folder.path()).map_err(|error| error.to_string())?.count();
    same("a copy is there when it is whole, and nothing else is", &left, &if restored.is_ok() { 2 } else { 1 })?;
    let Some(found) = found.ok().filter(|found| found.is_sound()) else {
        must("an unsound file is not restored", restored.is_err())?;
        return Ok(Acceptance::Rejected);
    };
    let restored = restored.map_err(|error| format!("a sound file cannot be restored: {error}"))?;
    same("all resources are restored", &restored.resources, &found.resources)?;
    let copy = fsck(&to).map_err(|error| format!("a restored file cannot be read: {error}"))?;
    must("a restored file is sound", copy.is_sound())?;
    same("the resources are the same", &documents(&to)?, &documents(&from)?)?;
    Ok(Acceptance::Accepted)
}

fn is(path: &Path, bytes: &[u8]) -> bool {
    fs::read(path).is_ok_and(|now| now == bytes)
}

/// Opens a store and returns its documents.
fn documents(path: &Path) -> Result<Vec<Value>, String> {
    let store = EmbeddedStore::open(path, test_store::options(JOURNAL_BYTES))
        .map_err(|error| format!("a sound file cannot be opened: {error}"))?;
    let listed = test_store::wait(store.list(&Query::all(test_store::kind())));
    let listed = listed.map_err(|error| format!("a sound file cannot be listed: {error}"))?;
    Ok(listed.items.iter().map(|item| item.document().clone()).collect())
}
