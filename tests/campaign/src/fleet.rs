//! A fleet in virtual time: crashes, pauses, partitions, slow and lost messages, and clocks that differ.

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use homeostat_fleet::simulation::{self, Outcome};

use crate::findings::{CampaignResult, progress};

/// The virtual minutes of a run.
const MINUTES: u64 = 11;

/// Runs seeds from `seed` on for so many virtual hours, on all processors. A run that breaks a promise ends the campaign.
pub(crate) fn run(hours: u64, seed: u64) -> CampaignResult {
    let runs = (hours * 60).div_ceil(MINUTES).max(1);
    let (next, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let (mut sum, mut broken) = (Outcome::default(), 0);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= runs || has_failed.load(Ordering::Relaxed) {
                return (sum, broken);
            }
            let outcome = simulation::run(seed + number, None);
            if !outcome.wrong.is_empty() {
                has_failed.store(true, Ordering::Relaxed);
                broken += 1;
                report(seed + number, &outcome);
            }
            sum.add(&outcome);
            progress(number + 1, runs);
        }
    };
    let (mut all, mut broken) = (Outcome::default(), 0);
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for done in threads {
            match done.join() {
                Ok((sum, wrong)) => {
                    all.add(&sum);
                    broken += wrong;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let Outcome { simulated, terms, losses, accepted, refused, gap_max, .. } = all;
    let count = format!(
        "{} simulated hours, {terms} terms ({losses} lost), {accepted} writes, {refused} writes of an old term refused, \
         planned hand-over in at most {} ms, {broken} runs with a broken promise",
        simulated.as_secs() / 3600,
        gap_max.as_millis(),
    );
    CampaignResult { count, is_good: broken == 0 }
}

/// Prints what broke a promise, and how to see it again.
fn report(seed: u64, outcome: &Outcome) {
    let Outcome { wrong, trace, .. } = outcome;
    let again = format!("`fleet --hours 0 --seed {seed}` runs it again");
    drop(writeln!(stderr(), "seed {seed} ({again}): {wrong:#?}\nits last steps:\n{}", trace.join("\n")));
}
