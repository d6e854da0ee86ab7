//! A disk in memory that loses power, or fails single operations.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use homeostat_store::Options;
use homeostat_store::embedded::{EmbeddedStore, OpenError};
use homeostat_testing::Dice;
use redb::StorageBackend;

/// The unit that survives a power loss as a whole or not at all, in bytes.
const SECTOR: usize = 512;

/// A disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Arc<Mutex<DiskState>>);

#[derive(Debug)]
struct DiskState {
    /// The bytes that a reader sees.
    bytes: Vec<u8>,
    /// The bytes at the last sync.
    synced: Vec<u8>,
    /// The changes since the last sync, in order.
    unsynced: Vec<Change>,
    /// The planned fault, and how many affected operations succeed before it.
    planned: Option<(DiskFault, u64)>,
    /// The fault that has occurred.
    struck: Option<DiskFault>,
    dice: Dice,
}

#[derive(Debug)]
enum Change {
    Length(u64),
    Write(u64, Vec<u8>),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(index(*length), 0),
            Self::Write(offset, data) => {
                let (from, to) = (index(*offset), index(*offset) + data.len());
                if bytes.len() < to {
                    bytes.resize(to, 0);
                }
                bytes[from..to].copy_from_slice(data);
            }
        }
    }
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// The power fails at a write, a change of length, or a sync, or the cable is pulled. Every later
    /// operation fails.
    PowerLoss,
    /// Writes and changes of length fail with this error, once or until healed.
    Write(io::ErrorKind, FaultLifetime),
    /// A sync fails, and some unsynced changes are lost, though a reader still sees them.
    Sync,
    /// Reads fail, once or until healed.
    Read(FaultLifetime),
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultLifetime {
    Once,
    UntilHealed,
}

/// Operations, by the faults that affect them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    Sync,
}

impl Disk {
    /// Makes a disk with these bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        let synced = bytes.clone();
        let (unsynced, dice) = (Vec::new(), Dice::new(0));
        Self(Arc::new(Mutex::new(DiskState { bytes, synced, unsynced, planned: None, struck: None, dice })))
    }

    /// Plans a fault, after so many affected operations have succeeded.
    pub(crate) fn plan(&self, trouble: DiskFault, after: u64, dice: &mut Dice) {
        let mut platter = self.platter();
        platter.planned = Some((trouble, after));
        platter.dice = Dice::new(dice.number());
    }

    /// Ends the current fault and cancels the planned one.
    pub(crate) fn heal(&self) {
        let mut platter = self.platter();
        (platter.planned, platter.struck) = (None, None);
    }

    /// Returns whether the fault has occurred.
    pub(crate) fn has_failed(&self) -> bool {
        self.platter().struck.is_some()
    }

    /// Returns the bytes that a reader sees.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.platter().bytes.clone()
    }

    /// Opens the store on the disk.
    pub(crate) fn open(&self, options: Options) -> Result<EmbeddedStore, OpenError> {
        let disk = self.clone();
        let forget = move || {
            let bytes = disk.arrived();
            disk.platter().bytes = bytes;
            Ok(())
        };
        EmbeddedStore::over_cached(self.clone(), forget, options)
    }

    /// Returns the bytes if all remaining changes reach the disk.
    pub(crate) fn arrived(&self) -> Vec<u8> {
        let platter = self.platter();
        let mut bytes = platter.synced.clone();
        platter.unsynced.iter().for_each(|change| change.apply(&mut bytes));
        bytes
    }

    /// Returns the bytes that a power loss now would leave.
    pub(crate) fn survivors(&self, dice: &mut Dice) -> Vec<u8> {
        self.platter().survivors(dice)
    }

    fn platter(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().expect("no code panics while holding the disk")
    }
}

impl DiskState {
    /// Returns the synced bytes with some of the unsynced changes. Each change is there, missing, or there in
    /// some of its sectors.
    fn survivors(&self, dice: &mut Dice) -> Vec<u8> {
        let kept_percent = dice.one(&[0, 10, 50, 90, 100]).copied().unwrap_or(0);
        let mut bytes = self.synced.clone();
        for change in &self.unsynced {
            let is_kept = dice.percent(kept_percent);
            match change {
                Change::Length(length) if is_kept => bytes.resize(index(*length), 0),
                Change::Length(_) => {}
                Change::Write(offset, data) => {
                    let is_torn = !is_kept && dice.percent(50);
                    for (from, sector) in sectors(*offset, data) {
                        // Bytes beyond the end of the file are lost.
                        if (is_kept || (is_torn && dice.percent(50))) && from + sector.len() <= bytes.len() {
                            bytes[from..from + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        bytes
    }

    /// Makes a change. If the power fails, the change may have been made; after any other fault it was not.
    fn change(&mut self, change: Change) -> io::Result<()> {
        let was_struck = self.struck.is_some();
        let checked = self.check(Operation::Write);
        if checked.is_ok() {
            change.apply(&mut self.bytes);
        }
        if checked.is_ok() || (!was_struck && self.struck == Some(DiskFault::PowerLoss)) {
            self.unsynced.push(change);
        }
        checked
    }

    /// Counts an operation, and returns its error if a fault affects it.
    fn check(&mut self, operation: Operation) -> io::Result<()> {
        if let Some((trouble, after)) = &mut self.planned
            && trouble.concerns(operation)
        {
            if *after == 0 {
                let trouble = *trouble;
                (self.planned, self.struck) = (None, Some(trouble));
                return self.strike(trouble);
            }
            *after -= 1;
        }
        match self.struck {
            Some(DiskFault::PowerLoss) => Err(io::Error::other("the power is off")),
            Some(DiskFault::Write(reason, FaultLifetime::UntilHealed)) if operation == Operation::Write => {
                Err(reason.into())
            }
            Some(DiskFault::Read(FaultLifetime::UntilHealed)) if operation == Operation::Read => Err(unreadable()),
            _ => Ok(()),
        }
    }

    fn strike(&mut self, trouble: DiskFault) -> io::Result<()> {
        Err(match trouble {
            DiskFault::PowerLoss => io::Error::other("the power fails"),
            DiskFault::Write(reason, _) => reason.into(),
            DiskFault::Read(_) => unreadable(),
            DiskFault::Sync => {
                let mut dice = self.dice.clone();
                self.synced = self.survivors(&mut dice);
                self.unsynced.clear();
                io::Error::other("the disk cannot write its cache")
            }
        })
    }
}

impl DiskFault {
    fn concerns(self, operation: Operation) -> bool {
        match self {
            Self::PowerLoss => operation != Operation::Read,
            Self::Write(..) => operation == Operation::Write,
            Self::Sync => operation == Operation::Sync,
            Self::Read(_) => operation == Operation::Read,
        }
    }
}

fn unreadable() -> io::Error {
    io::Error::other("the disk cannot read a sector")
}

/// Splits a write at the ends of sectors.
fn sectors(offset: u64, data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let offset = index(offset);
    let first = (SECTOR - offset % SECTOR).min(data.len());
    let (head, rest) = data.split_at(first);
    let rest = rest.chunks(SECTOR).enumerate().map(move |(number, sector)| (offset + first + number * SECTOR, sector));
    std::iter::once((offset, head)).chain(rest)
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("the disk is in memory")
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let mut platter = self.platter();
        match platter.struck {
            Some(DiskFault::PowerLoss) => platter.check(Operation::Read).map(|()| 0),
            _ => Ok(platter.bytes.len() as u64),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut platter = self.platter();
        platter.check(Operation::Read)?;
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= platter.bytes.len() as u64);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(&platter.bytes[index(offset)..index(end)]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.platter().change(Change::Length(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.platter();
        platter.check(Operation::Sync)?;
        let DiskState { synced, unsynced, .. } = &mut *platter;
        for change in unsynced.drain(..) {
            change.apply(synced);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.platter().change(Change::Write(offset, data.to_vec()))
    }
}
