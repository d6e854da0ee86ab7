//! Damages a file that was closed in order, opens it, and compares every answer with the written data.

use std::collections::BTreeMap;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Error, Event, Options, Query, Resource, Revision, Scope, Store, Write};
use homeostat_testing::Dice;
use tokio::runtime::Builder;

use crate::disk::Disk;
use crate::document;
use crate::findings::{CampaignResult, progress};
use crate::load::Workload;
use crate::machine;

/// Number of files; each is damaged in many ways.
const FILES: u64 = 4;
/// Maximum time for opening a file and reading all of it.
const SECONDS_MAX: u64 = 60;
const PAGE: usize = 4096;

/// An intact file, and its contents.
#[derive(Debug)]
struct IntactFile {
    bytes: Vec<u8>,
    truth: StoreAnswers,
}

/// The answers of a store, errors included.
#[derive(Debug, Clone, PartialEq)]
struct StoreAnswers {
    revision: Revision,
    list: Result<Vec<Arc<Resource>>, Error>,
    documents: BTreeMap<String, Result<Arc<Resource>, Error>>,
    dependents: BTreeMap<u64, Result<Vec<Arc<Resource>>, Error>>,
    changes: Result<Vec<Event>, Error>,
}

/// The result of one damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Not opened, and left unchanged.
    Refused,
    /// Not opened, but changed.
    Touched,
    /// Every answer is right.
    Right,
    /// Every answer is right or an error.
    Errors,
    /// Some answer differs from the written data.
    Wrong,
    Panicked,
    Hung,
}

/// Runs the campaign.
pub(crate) fn run(cycles: u64, seed: u64) -> Result<CampaignResult> {
    // redb panics on some damage, and the store turns the panics into errors. The hook silences them, and the
    // campaign counts those that escape.
    panic::set_hook(Box::new(|_| {}));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let files = (0..FILES).map(|number| good(seed, number)).collect::<Result<Vec<_>>>()?;
    let files: Vec<_> = files.into_iter().map(Arc::new).collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for cycle in 0..cycles {
        let mut dice = Dice::stream(seed, cycle);
        let good = &files[dice.index(files.len())];
        let mut bytes = good.bytes.clone();
        damage(&mut bytes, &mut dice);
        fs::write(&path, &bytes)?;
        let verdict = judge(&path, good, &bytes);
        *counts.entry(verdict.name()).or_default() += 1;
        if !verdict.is_good() {
            fs::write(&path, &bytes)?;
            let kept = tempfile::NamedTempFile::new()?.keep()?.1;
            fs::copy(&path, &kept)?;
            eprint(seed, cycle, verdict, &kept);
        }
        progress(cycle + 1, cycles);
    }
    let count = |verdict: Verdict| counts.get(verdict.name()).copied().unwrap_or(0);
    let bad = [Verdict::Wrong, Verdict::Touched, Verdict::Panicked, Verdict::Hung];
    let told = [[Verdict::Refused, Verdict::Right, Verdict::Errors].as_slice(), &bad].concat();
    let told: Vec<_> = told.into_iter().map(|verdict| format!("{} {}", count(verdict), verdict.name())).collect();
    Ok(CampaignResult {
        count: format!("{cycles} damaged files: {}", told.join(", ")),
        is_good: bad.into_iter().all(|verdict| count(verdict) == 0),
    })
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Touched => "refused but changed",
            Self::Right => "opened and right",
            Self::Errors => "opened with errors",
            Self::Wrong => "with wrong answers",
            Self::Panicked => "panicked",
            Self::Hung => "hung",
        }
    }

    fn is_good(self) -> bool {
        matches!(self, Self::Refused | Self::Right | Self::Errors)
    }
}

fn eprint(seed: u64, cycle: u64, verdict: Verdict, kept: &Path) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "{}: seed {seed}, cycle {cycle}; kept: {}", verdict.name(), kept.display()));
}

fn options(number: u64) -> Options {
    // Short enough that the history of the larger files is compacted.
    Options { history_max: 300, ..machine::options(number) }
}

/// Makes an intact file; larger numbers make larger files. In memory, for speed.
fn good(seed: u64, number: u64) -> Result<IntactFile> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let disk = Disk::of(Vec::new());
    for round in 0..=number {
        let store = Arc::new(EmbeddedStore::over(disk.clone(), options(number))?);
        let load = Workload { seed: seed + number, base: (round + 1) * 1000, writes: 1 + number * number * 10 };
        let errors = runtime.block_on(load.run(&store, drop))?;
        anyhow::ensure!(errors.is_empty(), "{errors:?}");
    }
    let store = EmbeddedStore::over(disk.clone(), options(number))?;
    let truth = runtime.block_on(answers(&store));
    drop(store);
    Ok(IntactFile { bytes: disk.bytes(), truth })
}

/// Reads everything in a store, in every way.
async fn answers(store: &EmbeddedStore) -> StoreAnswers {
    let mut documents = BTreeMap::new();
    for task in 0..crate::load::TASKS {
        // More names than the documents that exist.
        for number in 0..8 {
            let name = document::name(task, number);
            documents.insert(name.clone(), store.get(&document::key(&name)).await);
        }
    }
    let mut dependents = BTreeMap::new();
    for number in 0..document::OWNERS {
        dependents.insert(number, store.dependents(&document::owner_uid(number)).await);
    }
    let list = store.list(&Query::all(document::kind())).await.map(|page| page.items);
    StoreAnswers {
        revision: store.revision(&Scope::Everything).await.expect("the store is open"),
        list,
        documents,
        dependents,
        changes: changes(store).await,
    }
}

/// Reads the history as far back as it goes.
async fn changes(store: &EmbeddedStore) -> Result<Vec<Event>, Error> {
    let mut watch = match store.watch(Scope::Everything, Revision::ZERO).await {
        Err(Error::Expired { oldest }) => store.watch(Scope::Everything, oldest).await?,
        watch => watch?,
    };
    let mut events: Vec<Event> = Vec::new();
    while events.last().map_or(Revision::ZERO, |event| event.revision)
        < store.revision(&Scope::Everything).await.expect("the store is open")
    {
        match tokio::time::timeout(Duration::from_secs(SECONDS_MAX / 2), watch.next()).await {
            Ok(event) => events.push(event?),
            Err(_) => return Ok(events),
        }
    }
    Ok(events)
}

/// Damages some bytes.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(7) {
        0 => (0..=dice.below(4)).for_each(|_| flip(bytes, dice)),
        1 => (0..=dice.below(200)).for_each(|_| flip(bytes, dice)),
        2 => {
            for _ in 0..=dice.below(3) {
                let page = dice.index(bytes.len() / PAGE) * PAGE;
                bytes[page..page + PAGE].fill(0);
            }
        }
        // Copies one page over another, like a misdirected write.
        3 => {
            let pages = bytes.len() / PAGE;
            let (from, to) = (dice.index(pages) * PAGE, dice.index(pages) * PAGE);
            bytes.copy_within(from..from + PAGE, to);
        }
        4 => bytes.truncate(dice.index(bytes.len())),
        5 => (0..=dice.below(20_000)).for_each(|_| bytes.push(dice.number().to_le_bytes()[0])),
        _ => {
            for _ in 0..=dice.below(3) {
                let at = dice.index(320);
                bytes[at] =
                    if dice.percent(50) { dice.number().to_le_bytes()[0] } else { bytes[at] ^ 1 << dice.below(8) };
            }
        }
    }
}

fn flip(bytes: &mut [u8], dice: &mut Dice) {
    let at = dice.index(bytes.len());
    bytes[at] ^= 1 << dice.below(8);
}

/// Opens a file and returns the verdict. Runs in a thread of its own, so that panics and hangs are noticed.
fn judge(path: &Path, good: &Arc<IntactFile>, bytes: &[u8]) -> Verdict {
    let (sender, answer) = sync_channel(1);
    let (path, good, bytes): (PathBuf, _, _) = (path.to_owned(), Arc::clone(good), bytes.to_vec());
    let opener = thread::spawn(move || {
        let verdict = compare(&path, &good, &bytes);
        // After a timeout the verdict has no receiver.
        sender.send(verdict).ok();
    });
    match answer.recv_timeout(Duration::from_secs(SECONDS_MAX)) {
        Ok(verdict) if opener.join().is_ok() => verdict,
        Ok(_) | Err(RecvTimeoutError::Disconnected) => Verdict::Panicked,
        Err(RecvTimeoutError::Timeout) => Verdict::Hung,
    }
}

fn compare(path: &Path, good: &IntactFile, bytes: &[u8]) -> Verdict {
    let Ok(store) = EmbeddedStore::open(path, options(0)) else {
        return if fs::read(path).is_ok_and(|now| now == bytes) { Verdict::Refused } else { Verdict::Touched };
    };
    let runtime = Builder::new_current_thread().enable_all().build().expect("as for the other files");
    let found = runtime.block_on(answers(&store));
    let verdict = found.against(&good.truth);
    // The store accepts or refuses a write, and closes.
    let write = Write::Create { document: document::document("later", 1) };
    let written = runtime.block_on(store.write(write));
    runtime.block_on(store.close());
    if verdict == Verdict::Right && written.is_err() { Verdict::Errors } else { verdict }
}

impl StoreAnswers {
    fn against(&self, truth: &Self) -> Verdict {
        let Self { revision, list, documents, dependents, changes } = self;
        let mut answers = vec![
            against(&Ok(*revision), &Ok(truth.revision)),
            against(list, &truth.list),
            against(changes, &truth.changes),
        ];
        answers.extend(documents.iter().map(|(name, document)| against(document, &truth.documents[name])));
        answers.extend(dependents.iter().map(|(owner, found)| against(found, &truth.dependents[owner])));
        [Verdict::Wrong, Verdict::Errors].into_iter().find(|bad| answers.contains(bad)).unwrap_or(Verdict::Right)
    }
}

fn against<T: PartialEq>(found: &Result<T, Error>, truth: &Result<T, Error>) -> Verdict {
    match found {
        found if found == truth => Verdict::Right,
        Err(Error::Unavailable { .. }) => Verdict::Errors,
        _ => Verdict::Wrong,
    }
}
