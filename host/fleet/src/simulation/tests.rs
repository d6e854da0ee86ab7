use std::time::Duration;

use super::world::{Mutation, Outcome, World};
use crate::times::Times;

/// The seeds of the short form.
const SEEDS: u64 = 60;

/// A wrong machine does this in one of the seeds.
fn shows(mutation: Mutation, text: &str) {
    let is_shown = |seed| World::run(seed, Some(mutation)).wrong.iter().any(|wrong| wrong.contains(text));
    assert!((0..SEEDS).any(is_shown), "no seed shows that {mutation:?} is wrong");
}

#[test]
fn at_most_one_host_works_under_faults_and_every_lease_is_held_soon_after_them() {
    let mut all = Outcome::default();
    for seed in 0..SEEDS {
        let outcome = World::run(seed, None);
        assert!(outcome.wrong.is_empty(), "seed {seed}: {:#?}\n{}", outcome.wrong, outcome.trace.join("\n"));
        all.add(&outcome);
    }
    let Outcome { terms, accepted, refused, losses, moves, gap_max, .. } = all;
    assert!(gap_max < Duration::from_secs(1), "{all:?}");
    // The faults were there, and so was the work.
    assert!(terms > 500 && accepted > 10_000 && refused > 10 && losses > 50 && moves > 20, "{all:?}");
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

#[test]
fn leases_that_are_placed_without_their_loads_leave_a_host_with_too_much() {
    shows(Mutation::IgnoresLoads, "the loads are not even");
}
