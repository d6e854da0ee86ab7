//! Operations of a disk fail: no space, a failed sync or read, or a disk that disappears for a while. The
//! store must report the failure and keep its data.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, anyhow};
use homeostat_store::embedded::{EmbeddedStore, OpenError};
use homeostat_store::{Error, Store, Write};
use homeostat_testing::Dice;
use tokio::runtime::{Builder, Runtime};

use crate::disk::{Disk, DiskFault, FaultLifetime};
use crate::document;
use crate::findings::{CampaignResult, Findings, progress};
use crate::kill::COUNTERS_PER_CYCLE;
use crate::load::Workload;
use crate::machine::{self, Machine};
use crate::store_check::StoreCheck;

/// Faults of one disk, one after the other.
const CYCLES_PER_DISK: u64 = 20;
/// Writes of each task in a cycle.
const WRITES: u64 = 10;

/// The counts of faults and writes.
#[derive(Debug, Default)]
struct FaultCounts {
    /// Faults that occurred.
    struck: u64,
    /// Faults during opening, which was refused.
    opening: u64,
    /// Faults that ended the writes of an open store.
    refusing: u64,
    acknowledged: u64,
}

/// Runs the campaign.
pub(crate) fn run(cycles: u64, seed: u64) -> Result<CampaignResult> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut tally = FaultCounts::default();
    let mut machine = Machine::default();
    let mut findings = Findings::default();
    for cycle in 0..cycles {
        if cycle % CYCLES_PER_DISK == 0 {
            machine = Machine::default();
        }
        let mut dice = Dice::stream(seed, cycle);
        let disk = Disk::of(std::mem::take(&mut machine.bytes));
        findings = runtime.block_on(run_until_trouble(&mut machine, &disk, cycle, &mut dice, &mut tally))?;
        if findings.is_empty() {
            findings = reopen_and_compare(&mut machine, &runtime, &disk, cycle, &mut dice);
        }
        if !findings.is_empty() {
            let (_, path) = tempfile::NamedTempFile::new()?.keep()?;
            std::fs::write(&path, disk.bytes())?;
            findings.report(seed, cycle, path.display());
            return Ok(outcome(cycle + 1, &tally, &findings));
        }
        progress(cycle + 1, cycles);
    }
    Ok(outcome(cycles, &tally, &findings))
}

fn outcome(cycles: u64, tally: &FaultCounts, findings: &Findings) -> CampaignResult {
    let FaultCounts { struck, opening, refusing, acknowledged } = tally;
    let count = format!(
        "{struck} faults in {cycles} cycles ({opening} while opening, {refusing} ended writes), {acknowledged} acknowledged writes, {findings}"
    );
    CampaignResult { count, is_good: findings.is_empty() }
}

fn trouble(dice: &mut Dice) -> (DiskFault, u64) {
    let lasts = if dice.percent(50) { FaultLifetime::Once } else { FaultLifetime::UntilHealed };
    match dice.below(4) {
        0 => (DiskFault::Write(ErrorKind::StorageFull, lasts), dice.below(250)),
        1 => (DiskFault::Sync, dice.below(40)),
        2 => (DiskFault::PowerLoss, dice.below(250)),
        _ => (DiskFault::Read(lasts), dice.below(60)),
    }
}

/// Opens the store and writes until a fault occurs. Then the store must report it and still serve reads.
async fn run_until_trouble(
    machine: &mut Machine,
    disk: &Disk,
    cycle: u64,
    dice: &mut Dice,
    tally: &mut FaultCounts,
) -> Result<Findings> {
    let base = (cycle + 1) * COUNTERS_PER_CYCLE;
    let (trouble, after) = trouble(dice);
    disk.plan(trouble, after, dice);
    machine.ledger.start_cycle(base);
    let mut findings = Findings::default();
    let store = match disk.open(machine::options(cycle / CYCLES_PER_DISK)) {
        Ok(store) => Arc::new(store),
        Err(error) if disk.has_failed() => {
            (tally.struck, tally.opening) = (tally.struck + 1, tally.opening + 1);
            if !matches!(error, OpenError::Io { .. }) {
                findings.lost(format!("a disk that fails is taken for something else: {error}"));
            }
            return Ok(findings);
        }
        Err(error) => return Err(anyhow!(error).context(format!("on a disk in order, in cycle {cycle}"))),
    };
    machine.was_open = true;
    // Opening succeeds if the fault hits an operation that it does not depend on, such as closing the new
    // file.
    let was_struck = disk.has_failed();
    let written = Arc::new(Mutex::new(Vec::new()));
    let told = {
        let written = Arc::clone(&written);
        move |acknowledged| written.lock().expect("no code panics while holding the list").push(acknowledged)
    };
    let errors = Workload { seed: dice.number(), base, writes: WRITES }.run(&store, told).await?;
    let written: Vec<_> = written.lock().expect("no code panics while holding the list").drain(..).collect();
    tally.acknowledged += written.len() as u64;
    written.into_iter().for_each(|acknowledged| machine.ledger.record(acknowledged));
    tally.struck += u64::from(disk.has_failed());
    if let Some(error) = errors.iter().find(|error| !matches!(error, Error::Unavailable { .. })) {
        findings.half(format!("a write answered {error}"));
    }
    if !errors.is_empty() && !disk.has_failed() {
        findings.lost(format!("the disk is in order, and the store says {errors:?}"));
    }
    // Acknowledged writes reach the pages in the background, and a read waits for them.
    drop(store.kinds().await);
    let is_reading = matches!(trouble, DiskFault::Read(_));
    // A page that failed to be written once is not lost if the write-ahead log has the change. The store
    // stops writing to the open file, reads the whole file again as when it is opened, and may be healthy
    // after that. A failed write or sync of the log is reported for good.
    let can_heal = is_reading || matches!(trouble, DiskFault::Write(_, FaultLifetime::Once));
    if disk.has_failed() && !was_struck && !can_heal && stays_healthy(&store).await {
        findings.lost("a write of the disk failed, and the store says that it is healthy");
    }
    if store.health().is_err() {
        tally.refusing += 1;
        // A store that was opened without space for its write-ahead log resumes writes as soon as there is
        // space.
        if !(was_struck && matches!(trouble, DiskFault::Write(_, FaultLifetime::Once))) {
            check_writes_refused(&store, &mut findings).await;
        }
        // Unreadable data can be read again when the disk is back.
        if is_reading || trouble == DiskFault::PowerLoss {
            disk.heal();
        }
        let look = StoreCheck::run(&*store, &machine.ledger, None).await;
        findings = if findings.is_empty() { look.findings } else { findings };
    }
    Ok(findings)
}

/// Waits up to ten seconds until the store reports a problem, and returns whether it never did. Background
/// work, such as compacting history, fails without a caller that would see the error.
async fn stays_healthy(store: &EmbeddedStore) -> bool {
    let says = async {
        while store.health().is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), says).await.is_err()
}

/// Opens the store on the healed disk, and compares.
fn reopen_and_compare(machine: &mut Machine, runtime: &Runtime, disk: &Disk, cycle: u64, dice: &mut Dice) -> Findings {
    disk.heal();
    // Bytes from before the first store are not a store.
    let before = machine.was_open.then(|| disk.arrived());
    let Some(findings) = machine.open_and_compare(runtime, disk, machine::options(cycle / CYCLES_PER_DISK)) else {
        return Findings::default();
    };
    machine.bytes = before.filter(|_| dice.percent(50)).unwrap_or_else(|| disk.arrived());
    findings
}

/// After a failed write the store refuses writes, with the reason.
async fn check_writes_refused(store: &EmbeddedStore, findings: &mut Findings) {
    let health = store.health();
    let refused = store.write(Write::Create { document: document::document("task0-refused", 1) }).await.map(drop);
    if refused != health || !matches!(refused, Err(Error::Unavailable { .. })) {
        findings.half(format!("the store says {health:?}, and answers a write with {refused:?}"));
    }
}

#[cfg(test)]
mod tests {
    use homeostat_store::Options;

    use super::*;

    #[tokio::test]
    async fn a_store_that_cannot_be_written_is_read_and_says_why() {
        let disk = Disk::of(Vec::new());
        let write = |number| Write::Create { document: document::document(&document::name(0, number), 1) };
        let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("the disk is in order");
        let first = store.write(write(0)).await.expect("the disk is in order").resource;
        store.close().await;
        let before = disk.bytes();
        disk.plan(DiskFault::Write(ErrorKind::ReadOnlyFilesystem, FaultLifetime::UntilHealed), 0, &mut Dice::new(1));
        let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("it can be read");
        assert_eq!(store.get(first.key()).await, Ok(first));
        let refused = store.write(write(1)).await.map(drop);
        let said = std::io::Error::from(ErrorKind::ReadOnlyFilesystem).to_string();
        assert!(matches!(&refused, Err(Error::Unavailable { reason }) if reason.contains(&said)), "{refused:?}");
        assert!(store.health().is_err());
        drop(store);
        assert_eq!(disk.bytes(), before);
    }

    #[tokio::test]
    async fn reads_come_back_when_the_disk_does_and_writes_do_not() {
        let disk = Disk::of(Vec::new());
        let write = |number| Write::Create { document: document::document(&document::name(0, number), 1) };
        let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("the disk is in order");
        let first = store.write(write(0)).await.expect("the disk is in order").resource;
        drop(store);
        let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("the disk is in order");
        // Like a pulled cable.
        disk.plan(DiskFault::PowerLoss, 0, &mut Dice::new(1));
        assert!(matches!(store.write(write(1)).await, Err(Error::Unavailable { .. })));
        assert!(matches!(store.get(first.key()).await, Err(Error::Unavailable { .. })));
        disk.heal();
        assert_eq!(store.get(first.key()).await, Ok(Arc::clone(&first)));
        assert!(matches!(store.write(write(1)).await, Err(Error::Unavailable { .. })));
        store.close().await;
        assert_eq!(store.get(first.key()).await, Err(Error::Closed));
    }

    #[test]
    fn a_disk_that_cannot_be_read_is_not_called_damaged() {
        let disk = Disk::of(Vec::new());
        drop(EmbeddedStore::over(disk.clone(), Options::default()).expect("the disk is in order"));
        let runtime = Builder::new_current_thread().enable_all().build().expect("there are threads");
        let mut refused = 0;
        for after in (0..).step_by(3) {
            disk.plan(DiskFault::Read(FaultLifetime::Once), after, &mut Dice::new(1));
            let opened = EmbeddedStore::over(disk.clone(), Options::default());
            let is_struck = disk.has_failed();
            disk.heal();
            match opened {
                Err(OpenError::Io { .. }) => refused += 1,
                Err(error) => panic!("after {after}: {error}"),
                // A read that opening does not need.
                Ok(store) => {
                    let write = Write::Create { document: document::document(&format!("task0-{after}"), 1) };
                    runtime.block_on(store.write(write)).expect("the disk is in order again");
                }
            }
            if !is_struck {
                break;
            }
        }
        assert!(refused > 3, "{refused}");
    }

    #[test]
    #[cfg(unix)]
    fn a_file_or_folder_without_permission_is_refused_with_the_reason() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        drop(EmbeddedStore::open(&path, Options::default()).expect("a new store"));
        fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("it is ours");
        let is_root = fs::OpenOptions::new().write(true).open(&path).is_ok();
        let refused = |path| match EmbeddedStore::open(path, Options::default()) {
            Err(OpenError::Io { source, .. }) => source.kind() == ErrorKind::PermissionDenied,
            _ => false,
        };
        // Root may do everything.
        assert!(is_root || refused(path.clone()));
        fs::set_permissions(folder.path(), Permissions::from_mode(0o500)).expect("it is ours");
        assert!(is_root || refused(folder.path().join("other")));
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("it is ours");
    }
}
