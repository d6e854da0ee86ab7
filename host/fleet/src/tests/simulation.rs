//! Simulations of a fleet in virtual time. The leases, the shards and the placement are the real ones; the
//! store, the network, the clocks and the workers are models.
//!
//! Clocks differ by up to one percent in their rate, and by any amount in their time. Hosts are paused beyond
//! their leases, cut off, crashed, drained and replaced. Messages are slow, lost and delivered twice; the
//! store is restarted, and people delete records.
//!
//! A seed determines everything. A run that breaks a promise prints its seed and its last trace lines.
//! `HOMEOSTAT_FLEET_SEED=N` runs one seed, and `HOMEOSTAT_FLEET_SEEDS=N` the first N instead of the default
//! number: `HOMEOSTAT_FLEET_SEEDS=60000 cargo test --release -p homeostat-fleet simulation` simulates ten thousand
//! hours.

mod host;
mod store;
mod world;

use std::time::Duration;

use self::world::{Mutation, Outcome, World};
use crate::times::Times;

/// The default number of seeds.
const SEEDS: u64 = 60;

#[expect(clippy::disallowed_methods, reason = "a person selects the seeds")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

fn simulate(seed: u64) -> Outcome {
    let outcome = World::run(seed, None);
    assert!(
        outcome.wrong.is_empty(),
        "seed {seed}: {:#?}\nits last trace lines:\n{}\n(HOMEOSTAT_FLEET_SEED={seed} runs it again)",
        outcome.wrong,
        outcome.trace.join("\n")
    );
    outcome
}

/// A wrong machine does this in one of the seeds of the short form.
fn shows(mutation: Mutation, text: &str) {
    let is_shown = |seed| World::run(seed, Some(mutation)).wrong.iter().any(|wrong| wrong.contains(text));
    assert!((0..SEEDS).any(is_shown), "no seed shows that {mutation:?} is wrong");
}

#[test]
fn at_most_one_host_works_under_faults_and_every_lease_is_held_soon_after_them() {
    if let Some(seed) = number("HOMEOSTAT_FLEET_SEED") {
        simulate(seed);
        return;
    }
    let (mut all, seeds) = (Outcome::default(), number("HOMEOSTAT_FLEET_SEEDS").unwrap_or(SEEDS));
    for seed in 0..seeds {
        all.add(&simulate(seed));
    }
    let Outcome { terms, accepted, refused, losses, moves, gap_max, .. } = all;
    assert!(gap_max < Duration::from_secs(1), "{all:?}");
    // The faults were there, and so was the work.
    assert!(seeds < SEEDS || terms > 500 && accepted > 10_000 && refused > 10 && losses > 50 && moves > 20, "{all:?}");
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    assert_eq!(World::run(7, None).trace, World::run(7, None).trace);
}

#[test]
fn the_times_of_the_simulation_are_allowed_ones() {
    for seed in 0..SEEDS {
        assert_eq!(World::times(seed).check(), Ok(()));
    }
    let kinds = (0..SEEDS).filter(|seed| World::times(*seed) == Times::default()).count();
    assert!(kinds > 5, "the default times are among them");
}

#[test]
fn a_lease_without_a_margin_lets_two_hosts_work() {
    shows(Mutation::NoMargin, "believe");
}

#[test]
fn a_renewal_that_counts_from_its_answer_lets_two_hosts_work() {
    shows(Mutation::CountsFromAnswer, "believe");
}

#[test]
fn a_renewal_that_counts_without_an_answer_lets_two_hosts_work() {
    shows(Mutation::TrustsSilence, "believe");
}

#[test]
fn a_write_without_its_epoch_is_accepted_after_the_term_of_another_host_began() {
    shows(Mutation::NoEpoch, "old epoch");
}

#[test]
fn a_release_before_the_workers_have_ended_lets_two_hosts_work() {
    shows(Mutation::ReleasesEarly, "works beside");
}

#[test]
fn a_host_that_leaves_without_a_release_is_missed_for_the_length_of_its_lease() {
    shows(Mutation::NoRelease, "planned hand-over");
}
