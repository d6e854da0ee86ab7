//! What one disk has of a store between two troubles, and what the store says when it is opened over it.

use homeostat_store::{Options, Store};
use tokio::runtime::Runtime;

use crate::check::StoreCheck;
use crate::disk::Disk;
use crate::findings::Findings;
use crate::ledger::Ledger;

/// Lengths of journals: none, one that is full after a few changes, and one that is full now and then.
const JOURNAL_BYTES: [u64; 3] = [0, 16 << 10, 128 << 10];

/// Returns what a store is told on disk number `number`.
pub(crate) fn options(number: u64) -> Options {
    let length = JOURNAL_BYTES[usize::try_from(number % 3).expect("less than three")];
    Options { wal_bytes: length, ..Options::default() }
}

/// A disk between two troubles.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ledger: Ledger,
    /// Whether a store was ever opened: until then there may be bytes that are none yet.
    pub(crate) was_open: bool,
}

impl Machine {
    /// Opens the store over a disk that is in order, compares, and closes it. `None` when there was never a store to open.
    pub(crate) fn open_and_compare(&mut self, runtime: &Runtime, disk: &Disk, options: Options) -> Option<Findings> {
        let store = match disk.open(options) {
            Ok(store) => store,
            // A store that nobody ever had.
            Err(_) if !self.was_open => return None,
            Err(error) => {
                let mut findings = Findings::default();
                findings.lost(error);
                return Some(findings);
            }
        };
        self.was_open = true;
        Some(runtime.block_on(async {
            let look = StoreCheck::run(&store, &self.ledger, None).await;
            store.close().await;
            look.accept(&mut self.ledger)
        }))
    }
}
