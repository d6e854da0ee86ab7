//! Watches checked against a model: random traffic, and a log of changes that says what every watch and every list has to show.
//!
//! The model ([`log`]) is a list of changes and knows nothing of files, history and threads. A run ([`run`]) puts one sequence of steps
//! ([`traffic`]) to a store and to the model. Checked after every step, for every watch:
//!
//! * ordered, unique, reliable, atomic: the next event is the next change of the log in the scope, with the same `previous`;
//! * resumable: a watch from the revision of the last event goes on behind it, also after the store was opened again, with a file that is sound;
//! * expired or whole: a watch that history was cut away from says so; one from exactly the oldest revision misses nothing;
//! * a revision that the store has not reached is refused, and revisions never go back, whatever the store went through;
//! * pages together are the state at the revision of the first one, and a watch from there goes on.
//!
//! What other stores got wrong, as known from the record of etcd's robustness tests, and what would find it here:
//!
//! | What went wrong there | Found by |
//! |---|---|
//! | a crash under load left data and revision apart | `embedded::tests::crash::a_crash_between_any_two_writes_of_the_disk_leaves_a_sound_store`, restarts of the property |
//! | one node lost an acknowledged write in a crash | the same, and `files::a_crash_at_any_moment_loses_no_acknowledged_write` |
//! | members that judged permissions differently grew apart | no members here; two stores given the same writes agree: `alike::every_store_answers_alike` |
//! | a crash while the file was written anew left data and revision apart | `backups::a_backup_of_a_running_store_is_one_moment`, which publishes a copy only when it is whole |
//! | a watch told a revision before the events up to it | `cases::what_a_store_tells_as_its_revision_can_be_watched_to_the_end` |
//! | a watch went back in time after reconnecting | resuming in the property |
//! | an event came twice, from a transaction of several changes | bursts in the property: many changes of one key in one transaction |
//! | a starved slow watch lost events | `cases::a_watch_that_is_thousands_of_events_behind_loses_none` |
//! | revisions decreased after a crash while history was cut | restarts in the property, whose history is always being cut |
//! | cutting at a deletion dropped its event | `cases::history_cut_anywhere_among_deletions_loses_none` |
//! | reading at a revision that had been cut away answered differently in a transaction | pages of the property: whole, or expired |
//! | a watch opened at the cut missed the deletion behind it | `cases::history_cut_anywhere_among_deletions_loses_none` |
//! | a watch from a future revision got old events | watches from future revisions in the property |

mod cases;
mod log;
mod run;
mod traffic;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::{Fixture, Make};

/// The seed of every run, unless one is asked for in the way of the library.
const SEED: u64 = 20_240_807;

fn config(cases: u32) -> ProptestConfig {
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_time: 60_000, ..ProptestConfig::default() };
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(SEED),
        asked => asked,
    };
    ProptestConfig { rng_seed, ..config }
}

fn check(make: Make, history_max: u64, steps: Vec<traffic::Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run::run(make, history_max, steps));
}

proptest! {
    #![proptest_config(config(200))]

    /// S1 S7 S8 S9
    #[test]
    fn a_store_in_memory_is_watched_as_the_model_says(history_max in prop_oneof![1..6_u64, 6..40_u64], steps in traffic::steps()) {
        check(Fixture::memory, history_max, steps);
    }
}

proptest! {
    #![proptest_config(config(48))]

    /// S1 S7 S8 S9 S10
    #[test]
    fn a_store_in_a_file_is_watched_as_the_model_says(history_max in prop_oneof![1..6_u64, 6..40_u64], steps in traffic::steps()) {
        check(Fixture::embedded, history_max, steps);
    }
}
