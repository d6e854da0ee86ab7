//! An overlay for reading a file without changing it: redb's writes while it opens or repairs the file stay
//! in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::files;

/// A file with writes that are only in memory.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Arc<dyn StorageBackend>,
    written: Mutex<OverlayPages>,
}

#[derive(Debug)]
struct OverlayPages {
    len: u64,
    /// The length of the file that is still visible: the smallest length that was set.
    file_len: u64,
    /// Written pages, whole, by number.
    pages: BTreeMap<u64, Box<[u8]>>,
}

const PAGE: u64 = 4096;

impl Overlay {
    pub(super) fn over(file: Arc<dyn StorageBackend>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, written: Mutex::new(OverlayPages { len, file_len: len, pages: BTreeMap::new() }) })
    }

    fn written(&self) -> MutexGuard<'_, OverlayPages> {
        self.written.lock().expect("no thread panics while holding the pages")
    }

    /// Reads from the file; the bytes past its end are zero.
    fn read_below(&self, file_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let there = usize::try_from(file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        if there == 0 { Ok(()) } else { self.file.read(offset, &mut out[..there]) }
    }
}

/// Calls `piece` for every page in a range of bytes: page number, first byte in the page, range in the
/// buffer.
fn pages(
    offset: u64,
    len: usize,
    mut piece: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let inside = usize::try_from(at % PAGE).expect("less than a page");
        let count = (usize::try_from(PAGE).expect("a page is small") - inside).min(len - done);
        piece(at / PAGE, inside, done..done + count)?;
        done += count;
    }
    Ok(())
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_below(written.file_len, offset, out)?;
        pages(offset, out.len(), |page, inside, range| {
            if let Some(bytes) = written.pages.get(&page) {
                let count = range.len();
                out[range].copy_from_slice(&bytes[inside..inside + count]);
            }
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        written.file_len = written.file_len.min(len);
        written.pages.retain(|page, _| page * PAGE < len);
        if let Some(bytes) = written.pages.get_mut(&(len / PAGE)) {
            bytes[usize::try_from(len % PAGE).expect("less than a page")..].fill(0);
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        let OverlayPages { len, file_len, pages: kept } = &mut *written;
        *len = (*len).max(offset + data.len() as u64);
        pages(offset, data.len(), |page, inside, range| {
            let bytes = match kept.entry(page) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let mut bytes = vec![0; usize::try_from(PAGE).expect("a page is small")].into_boxed_slice();
                    self.read_below(*file_len, page * PAGE, &mut bytes)?;
                    entry.insert(bytes)
                }
            };
            let count = range.len();
            bytes[inside..inside + count].copy_from_slice(&data[range]);
            Ok(())
        })
    }

    files::pass_on_locks!();
}
