//! Runs one target on many inputs, and counts the verdicts.

use std::fmt;
use std::fs;
use std::io::{Write, stderr};
use std::panic;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::corpus::Corpus;
use crate::coverage::Coverage;
use crate::judge::{Judge, Verdict};
use crate::mutate;
use crate::target::{Acceptance, Target};

/// The time limit of one input.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of reported findings.
const FINDINGS_MAX: u64 = 5;

/// When a run ends.
#[derive(Debug)]
pub(crate) enum RunLength {
    /// After so many inputs.
    Inputs(u64),
    /// After so much time.
    Time(Duration),
}

/// The number of inputs by verdict.
#[derive(Debug, Default)]
pub(crate) struct Count {
    target: &'static str,
    /// Inputs that the target accepted.
    taken: u64,
    /// Inputs that the target refused, as it may.
    refused: u64,
    broken: u64,
    panicked: u64,
    slow: u64,
    hung: u64,
}

/// Runs a target.
///
/// Each input is written to a file before it is judged, so that an input that aborts the process is not lost.
pub(crate) fn run(target: Target, length: &RunLength, seed: u64, is_blind: bool) -> Result<Count> {
    let (mut corpus, mut coverage) = (Corpus::of(target)?, Coverage::new());
    // redb panics on some damage, and the store turns the panics into errors.
    panic::set_hook(Box::new(|_| {}));
    let judge = Judge::start(move |input| target.judge(input), TIME_MAX)?;
    let folder = tempfile::tempdir()?;
    let current = folder.path().join(target.name());
    writeln!(stderr(), "the input that is judged lies in {}", current.display())?;
    let mut count = Count { target: target.name(), ..Count::default() };
    let from = Instant::now();
    for number in 0.. {
        let is_over = match length {
            RunLength::Inputs(inputs) => number >= *inputs,
            RunLength::Time(time) => from.elapsed() >= *time,
        };
        if is_over || count.findings() >= FINDINGS_MAX || count.hung > 0 {
            break;
        }
        let input = mutate::input(&corpus, seed, number);
        fs::write(&current, &input)?;
        let verdict = judge.judge(&input);
        count.add(&verdict);
        if !matches!(verdict, Verdict::Passed(_)) {
            let kept = keep(&input)?;
            writeln!(stderr(), "{verdict}: seed {seed}, input {number}; kept: {}", kept.display())?;
        }
        // Almost everything that derives from a refused input is refused at once.
        let is_source = verdict == Verdict::Passed(Acceptance::Accepted) && !is_blind;
        if coverage.grows() && is_source {
            corpus.add(input);
        }
    }
    writeln!(
        stderr(),
        "{coverage}; {} inputs that reached new ones became sources of others",
        corpus.inputs.len() - corpus.given
    )?;
    Ok(count)
}

fn keep(input: &[u8]) -> Result<PathBuf> {
    let (mut file, path) = tempfile::NamedTempFile::new()?.keep()?;
    file.write_all(input)?;
    Ok(path)
}

impl Count {
    fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Passed(Acceptance::Accepted) => &mut self.taken,
            Verdict::Passed(Acceptance::Rejected) => &mut self.refused,
            Verdict::Broken(_) => &mut self.broken,
            Verdict::Panicked(_) => &mut self.panicked,
            Verdict::Slow(_) => &mut self.slow,
            Verdict::Hung => &mut self.hung,
        } += 1;
    }

    fn findings(&self) -> u64 {
        self.broken + self.panicked + self.slow + self.hung
    }

    /// Returns whether every property held.
    pub(crate) fn is_good(&self) -> bool {
        self.findings() == 0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, taken, refused, broken, panicked, slow, hung } = self;
        let inputs = taken + refused + self.findings();
        write!(
            f,
            "{inputs} inputs of {target}: {taken} accepted, {refused} refused, {broken} broke a property, {panicked} panicked, {slow} slow, {hung} hung"
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(_) => f.write_str("the property held"),
            Self::Broken(why) => write!(f, "the property did not hold: {why}"),
            Self::Panicked(words) => write!(f, "panicked: {words}"),
            Self::Slow(time) => write!(f, "took {time:?}"),
            Self::Hung => f.write_str("did not end"),
        }
    }
}
