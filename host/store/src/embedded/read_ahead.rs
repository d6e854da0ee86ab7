//! Reads a file ahead of its integrity check.
//!
//! The check reads page by page, in the order of the trees, one small read at a time: most of the time of
//! opening is waiting for the disk. So another thread reads the same file sequentially in large pieces, which
//! loads it into the page cache.
//!
//! Deliberately absent: any influence on the result. The data is discarded; the check itself finds the
//! errors.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Bytes per read.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes read ahead at most. The page cache might evict the beginning of a larger file before it is needed.
const AHEAD_BYTES_MAX: u64 = 4 << 30;

/// A read-ahead. Stops when it is dropped, or at the end of the file.
pub(super) struct ReadAhead {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Starts at the beginning of the file. If that fails, nothing is read ahead.
    pub(super) fn of(path: &Path) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = File::open(path).ok().and_then(|file| {
            let is_over = Arc::clone(&is_over);
            thread::Builder::new().name("homeostat-ahead".to_owned()).spawn(move || read(file, &is_over)).ok()
        });
        Self { is_over, thread }
    }
}

impl Drop for ReadAhead {
    /// Waits for one piece at most.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and nothing depends on it.
            thread.join().ok();
        }
    }
}

fn read(file: File, is_over: &AtomicBool) {
    let (mut file, mut piece) = (file.take(AHEAD_BYTES_MAX), vec![0; PIECE_BYTES]);
    while !is_over.load(Ordering::Relaxed) && file.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
}
