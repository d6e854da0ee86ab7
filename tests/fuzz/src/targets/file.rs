//! A store file is refused and left unchanged, or opened, and then answers with documents or errors. The
//! inputs are generated: with a write-ahead log after a clean close, after a crash, and without a log.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Result;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Query, Resource, Revision, Scope, Store, Write};
use redb::StorageBackend;
use serde_json::{Value, json};

use crate::target::{Acceptance, Outcome, must, same};
use crate::test_store;

/// Length of the write-ahead log, in bytes.
const JOURNAL_BYTES: u64 = 16 << 10;
/// Documents in a file.
const DOCUMENTS: usize = 6;

/// Bytes in memory. Clones are the same bytes.
#[derive(Debug, Clone, Default)]
struct MemoryBackend(Arc<Mutex<Vec<u8>>>);

impl MemoryBackend {
    fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl StorageBackend for MemoryBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let end = from.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes.get(from..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        // Like a full disk. A damaged header may request any length.
        if len > FILE_BYTES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes().resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let end =
            from.checked_add(data.len()).filter(|end| *end <= FILE_BYTES_MAX).ok_or(io::ErrorKind::StorageFull)?;
        let mut bytes = self.bytes();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(data);
        Ok(())
    }
}

/// The size of the disk.
const FILE_BYTES_MAX: usize = 16 << 20;

/// Makes intact files.
pub(crate) fn inputs() -> Result<Vec<Vec<u8>>> {
    let mut made = Vec::new();
    for journal_bytes in [JOURNAL_BYTES, 0] {
        let memory = MemoryBackend::default();
        let store = EmbeddedStore::over(memory.clone(), test_store::options(journal_bytes))?;
        for number in 0..DOCUMENTS {
            let document = test_store::widget(
                &format!("w{number}"),
                json!({"size": number, "text": "lorem ".repeat(number * 20)}),
            );
            test_store::submit(&store, Write::Create { document }, false)?;
        }
        // The state after a crash.
        made.push(memory.bytes().clone());
        test_store::wait(store.close());
        made.push(memory.bytes().clone());
    }
    Ok(made)
}

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let memory = MemoryBackend::of(input.to_vec());
    let Ok(store) = EmbeddedStore::over(memory.clone(), test_store::options(JOURNAL_BYTES)) else {
        must("a file that is refused is left as it was", *memory.bytes() == input)?;
        return Ok(Acceptance::Rejected);
    };
    let listed = test_store::wait(store.list(&Query::all(test_store::kind())));
    for item in listed.iter().flat_map(|page| &page.items) {
        must(
            "a stored text is a document",
            serde_json::from_str::<Value>(item.text()).is_ok_and(|read| read == *item.document()),
        )?;
        let read = Resource::from_document(item.document().clone());
        same("a stored document is a resource", &read.as_ref(), &Ok(&**item))?;
        if let Ok(one) = test_store::wait(store.get(item.key())) {
            same("a list and a get agree", &one, item)?;
        }
    }
    let watch = test_store::wait(store.watch(Scope::Everything, Revision::ZERO));
    if let (Ok(mut watch), true) = (watch, test_store::revision(&store) > Revision::ZERO) {
        let event = test_store::wait(watch.next());
        must(
            "history begins with the first change",
            event.is_err() || event.is_ok_and(|event| event.revision == Revision(1)),
        )?;
    }
    let document = test_store::widget("later", json!({}));
    let before = test_store::revision(&store);
    if test_store::submit(&store, Write::Create { document }, false).is_ok() {
        same("a write makes a revision", &test_store::revision(&store), &before.next())?;
    }
    test_store::wait(store.close());
    Ok(Acceptance::Accepted)
}
