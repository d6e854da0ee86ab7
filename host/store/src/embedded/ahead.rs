//! Reading a file ahead of whoever goes through all of it.
//!
//! A file is checked page by page in the order of its trees, each page as it is needed: a disk has one small read to do at a time then, and
//! most of the time of opening is waiting for it. So another thread reads the same file from its beginning to its end in large pieces, which leaves it
//! in the memory of the system.
//!
//! Deliberately absent: everything that matters. What it reads is thrown away, what fails is found by whoever needs it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 4 << 20;
/// What is read ahead of a file at most: of a larger one, the beginning might have to go again before it is needed.
const AHEAD_BYTES_MAX: u64 = 4 << 30;

/// Reads a file until it is dropped, or at the end.
pub(super) struct ReadAhead {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins at the beginning. Where that does not work, nothing is read ahead.
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
            // It cannot panic, and nothing depends on it.
            thread.join().ok();
        }
    }
}

fn read(file: File, is_over: &AtomicBool) {
    let (mut file, mut piece) = (file.take(AHEAD_BYTES_MAX), vec![0; PIECE_BYTES]);
    while !is_over.load(Ordering::Relaxed) && file.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
}
