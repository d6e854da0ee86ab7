//! The power fails while a store is opened, written to or closed. Then the store is opened on the bytes that
//! survived.

use std::sync::{Arc, Mutex};

use anyhow::{Result, anyhow};
use homeostat_store::Options;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_testing::Dice;
use tokio::runtime::{Builder, Runtime};

use crate::disk::{Disk, DiskFault};
use crate::findings::{CampaignResult, Findings, progress};
use crate::kill::COUNTERS_PER_CYCLE;
use crate::load::Workload;
use crate::machine::{self, Machine};

/// Crashes of one disk, one after the other.
const CRASHES_PER_DISK: u64 = 20;
/// Writes of each task in a cycle.
const WRITES: u64 = 12;
/// The history keeps so many changes, fewer than there are between [`CRASHES_PER_DISK`] crashes.
const HISTORY_MAX: u64 = 500;

/// Runs the campaign.
pub(crate) fn run(crashes: u64, seed: u64) -> Result<CampaignResult> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut acknowledged, mut opening) = (0, 0);
    let mut machine = Machine::default();
    let mut findings = Findings::default();
    for crash in 0..crashes {
        if crash % CRASHES_PER_DISK == 0 {
            machine = Machine::default();
        }
        let mut dice = Dice::stream(seed, crash);
        machine.ledger.start_cycle((crash + 1) * COUNTERS_PER_CYCLE);
        let disk = Disk::of(std::mem::take(&mut machine.bytes));
        opening += u64::from(!run_until_trouble(&mut machine, &runtime, &disk, crash, &mut dice)?);
        acknowledged += machine.ledger.revisions.len() as u64;
        let survivors = disk.survivors(&mut dice);
        findings = reopen_and_compare(&mut machine, &runtime, &survivors, crash, &mut dice);
        if !findings.is_empty() {
            let (_, path) = tempfile::NamedTempFile::new()?.keep()?;
            std::fs::write(&path, survivors)?;
            findings.report(seed, crash, path.display());
            return Ok(outcome(crash + 1, opening, acknowledged, &findings));
        }
        progress(crash + 1, crashes);
    }
    Ok(outcome(crashes, opening, acknowledged, &findings))
}

fn outcome(crashes: u64, opening: u64, acknowledged: u64, findings: &Findings) -> CampaignResult {
    let count =
        format!("{crashes} power losses ({opening} while opening), {acknowledged} acknowledged writes, {findings}");
    CampaignResult { count, is_good: findings.is_empty() }
}

fn options(crash: u64) -> Options {
    Options { history_max: HISTORY_MAX, ..machine::options(crash / CRASHES_PER_DISK) }
}

/// Opens the store and writes until the power fails, or all writes are made. Returns whether the store was
/// opened.
fn run_until_trouble(
    machine: &mut Machine,
    runtime: &Runtime,
    disk: &Disk,
    crash: u64,
    dice: &mut Dice,
) -> Result<bool> {
    let after = if dice.percent(20) { dice.below(20) } else { dice.below(300) };
    disk.plan(DiskFault::PowerLoss, after, dice);
    let store = match EmbeddedStore::over(disk.clone(), options(crash)) {
        Ok(store) => Arc::new(store),
        Err(_) if disk.has_failed() => return Ok(false),
        Err(error) => return Err(anyhow!(error).context("with the power on")),
    };
    machine.was_open = true;
    let written = Arc::new(Mutex::new(Vec::new()));
    let told = {
        let written = Arc::clone(&written);
        move |acknowledged| written.lock().expect("no code panics while holding the list").push(acknowledged)
    };
    let load = Workload { seed: dice.number(), base: (crash + 1) * COUNTERS_PER_CYCLE, writes: WRITES };
    let errors = runtime.block_on(load.run(&store, told))?;
    if let Some(error) = errors.first().filter(|_| !disk.has_failed()) {
        return Err(anyhow!(error.clone()).context("with the power on"));
    }
    // The power fails while some stores close, and after others have closed.
    drop(store);
    for acknowledged in written.lock().expect("no code panics while holding the list").drain(..) {
        machine.ledger.record(acknowledged);
    }
    Ok(true)
}

/// Opens the store on the surviving bytes, and compares.
fn reopen_and_compare(
    machine: &mut Machine,
    runtime: &Runtime,
    survivors: &[u8],
    crash: u64,
    dice: &mut Dice,
) -> Findings {
    let disk = Disk::of(survivors.to_vec());
    let Some(findings) = machine.open_and_compare(runtime, &disk, options(crash)) else {
        return Findings::default();
    };
    // The next crash starts with the disk after a clean close, or with the same bytes again.
    machine.bytes = if dice.percent(50) { survivors.to_vec() } else { disk.bytes() };
    findings
}
