//! The state of one disk between two faults, and the check of its store.

use homeostat_store::{Options, Store};
use tokio::runtime::Runtime;

use crate::disk::Disk;
use crate::findings::Findings;
use crate::ledger::Ledger;
use crate::store_check::StoreCheck;

/// Lengths of write-ahead logs: none, one that fills up after a few changes, and one that fills up now and
/// then.
const JOURNAL_BYTES: [u64; 3] = [0, 16 << 10, 128 << 10];

/// Returns the options of the store on disk number `number`.
pub(crate) fn options(number: u64) -> Options {
    let length = JOURNAL_BYTES[usize::try_from(number % 3).expect("less than three")];
    Options { wal_bytes: length, ..Options::default() }
}

/// A disk between two faults.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ledger: Ledger,
    /// Whether a store was ever opened. Before that, the bytes need not be a store.
    pub(crate) was_open: bool,
}

impl Machine {
    /// Opens the store on a healthy disk, compares, and closes it. Returns `None` if there was never a store.
    pub(crate) fn open_and_compare(&mut self, runtime: &Runtime, disk: &Disk, options: Options) -> Option<Findings> {
        let store = match disk.open(options) {
            Ok(store) => store,
            // The store was never open.
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
