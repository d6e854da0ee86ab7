//! Kills a writer process at a random moment, opens its file, and compares it with the acknowledged writes.

use std::fs;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use homeostat_store::Store;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_testing::Dice;
use tokio::runtime::{Builder, Runtime};

use crate::findings::{CampaignResult, Findings, progress};
use crate::ledger::Ledger;
use crate::load::{AcknowledgedWrite, Workload};
use crate::store_check::StoreCheck;

/// Processes that write to one file in turn, so that it stays small.
const CYCLES_PER_FILE: u64 = 50;
/// More writes per task than one cycle makes, so that the counters of cycles never overlap.
pub(crate) const COUNTERS_PER_CYCLE: u64 = 1_000_000;
/// The history keeps so many changes, fewer than [`CYCLES_PER_FILE`] processes make, so it is compacted all
/// the time.
const HISTORY_MAX: u64 = 1000;
/// Maximum writes of a task. One process makes fewer than [`HISTORY_MAX`] changes, so its first change is
/// still in the history when it ends.
const WRITES_MAX: u64 = 150;
/// A cycle without output for so long has failed.
const SILENCE_SECONDS_MAX: u64 = 60;

/// When a process is killed.
#[derive(Debug)]
enum KillTime {
    /// So long after its start.
    Elapsed(Duration),
    /// So long after this number of acknowledged writes.
    Acknowledged(u64, Duration),
}

impl KillTime {
    fn of(dice: &mut Dice) -> Self {
        if dice.percent(30) {
            Self::Elapsed(Duration::from_micros(dice.below(15_000)))
        } else {
            Self::Acknowledged(1 + dice.below(160), Duration::from_micros(dice.below(3_000)))
        }
    }
}

/// The output of a process.
#[derive(Debug, Default)]
struct WriterOutput {
    /// Whether it had opened the store.
    is_open: bool,
    acknowledged: Vec<AcknowledgedWrite>,
}

/// Runs the campaign.
pub(crate) fn run(cycles: u64, seed: u64) -> Result<CampaignResult> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut opening, mut acknowledged) = (0, 0);
    let mut folder = tempfile::tempdir()?;
    let mut ledger = Ledger::default();
    // Whether any process has reported that the file is open; from then on the file must exist.
    let mut was_open = false;
    let mut findings = Findings::default();
    for cycle in 0..cycles {
        if cycle > 0 && cycle % CYCLES_PER_FILE == 0 {
            (folder, ledger, was_open) = (tempfile::tempdir()?, Ledger::default(), false);
        }
        let path = folder.path().join("store");
        let mut dice = Dice::stream(seed, cycle);
        let base = (cycle + 1) * COUNTERS_PER_CYCLE;
        ledger.start_cycle(base);
        let said = kill_at(start(&path, dice.number(), base)?, &KillTime::of(&mut dice))?;
        opening += u64::from(!said.is_open);
        was_open |= said.is_open;
        acknowledged += said.acknowledged.len() as u64;
        said.acknowledged.into_iter().for_each(|written| ledger.record(written));
        findings = reopen_and_compare(&runtime, &path, &mut ledger, was_open, &mut dice)?;
        if !findings.is_empty() {
            findings.report(seed, cycle, folder.keep().display());
            return Ok(outcome(cycle + 1, opening, acknowledged, &findings));
        }
        progress(cycle + 1, cycles);
    }
    Ok(outcome(cycles, opening, acknowledged, &findings))
}

fn outcome(cycles: u64, opening: u64, acknowledged: u64, findings: &Findings) -> CampaignResult {
    let count = format!("{cycles} kills ({opening} while opening), {acknowledged} acknowledged writes, {findings}");
    CampaignResult { count, is_good: findings.is_empty() }
}

fn start(path: &Path, seed: u64, base: u64) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("writer").arg(path).arg(seed.to_string()).arg(base.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the writer process cannot be started")
}

/// Kills a process at the given time, and returns its whole output.
fn kill_at(mut child: Child, moment: &KillTime) -> Result<WriterOutput> {
    let started = Instant::now();
    let (sender, lines) = sync_channel(1024);
    let pipe = child.stdout.take().context("its output is a pipe")?;
    let reader = thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut said = WriterOutput::default();
    let heard = wait(&lines, moment, started, &mut said);
    child.kill()?;
    let status = child.wait()?;
    heard?;
    // Reads to the end of the pipe, because lines before the kill count. No other process holds the other
    // end.
    while let Ok(line) = lines.recv() {
        hear(&line, &mut said)?;
    }
    reader.join().map_err(|_| anyhow!("the reader of the pipe panicked"))?;
    if cfg!(unix) && status.code().is_some() {
        bail!("the writer process ended by itself: {status}");
    }
    Ok(said)
}

/// Reads lines until the time has come.
fn wait(lines: &Receiver<Vec<u8>>, moment: &KillTime, started: Instant, said: &mut WriterOutput) -> Result<()> {
    let silence = Duration::from_secs(SILENCE_SECONDS_MAX);
    let after = match moment {
        KillTime::Elapsed(after) => {
            return listen(lines, started + *after, said);
        }
        KillTime::Acknowledged(count, after) => {
            while (said.acknowledged.len() as u64) < *count {
                match lines.recv_timeout(silence) {
                    Ok(line) => hear(&line, said)?,
                    Err(RecvTimeoutError::Timeout) => bail!("nothing was acknowledged for {silence:?}"),
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            *after
        }
    };
    listen(lines, Instant::now() + after, said)
}

fn listen(lines: &Receiver<Vec<u8>>, until: Instant, said: &mut WriterOutput) -> Result<()> {
    while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        hear(&line, said)?;
    }
    Ok(())
}

fn hear(line: &[u8], said: &mut WriterOutput) -> Result<()> {
    match str::from_utf8(line)? {
        "open" => said.is_open = true,
        line => said.acknowledged.push(AcknowledgedWrite::read(line)?),
    }
    Ok(())
}

/// Opens the file as the next process would, and compares.
fn reopen_and_compare(
    runtime: &Runtime,
    path: &Path,
    ledger: &mut Ledger,
    was_open: bool,
    dice: &mut Dice,
) -> Result<Findings> {
    if !was_open && !fs::exists(path)? {
        return Ok(Findings::default());
    }
    let store = match EmbeddedStore::open(path, options()) {
        Ok(store) => store,
        Err(error) => {
            let mut findings = Findings::default();
            findings.lost(error);
            return Ok(findings);
        }
    };
    // A watch that resumes where a client of the killed process stopped.
    let said: Vec<_> = ledger.revisions.keys().copied().collect();
    let resumed = said.get(dice.index(said.len())).copied();
    runtime.block_on(async {
        let look = StoreCheck::run(&store, ledger, resumed).await;
        store.close().await;
        Ok(look.accept(ledger))
    })
}

fn options() -> homeostat_store::Options {
    // Short, so that the write-ahead log fills up now and then.
    let journal_bytes = 128 << 10;
    homeostat_store::Options {
        history_max: HISTORY_MAX,
        wal_bytes: journal_bytes,
        ..homeostat_store::Options::default()
    }
}

/// The work of the writer process.
pub(crate) fn write(path: &Path, seed: u64, base: u64) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = Arc::new(EmbeddedStore::open(path, options())?);
    print_line("open");
    let load = Workload { seed, base, writes: WRITES_MAX };
    let errors = runtime.block_on(load.run(&store, |written| print_line(&written.line())))?;
    if !errors.is_empty() {
        bail!("the store refused a write: {errors:?}");
    }
    // The kill is overdue, because the parent had no CPU time.
    runtime.block_on(tokio::time::sleep(Duration::from_secs(SILENCE_SECONDS_MAX)));
    bail!("this process was not killed in time")
}

/// Prints a line at once. A write error is ignored: without a reader this process is about to be killed.
fn print_line(line: &str) {
    let mut out = stdout().lock();
    drop(out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()));
}
