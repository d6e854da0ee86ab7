use homeostat_fixtures::demo_key;
use homeostat_testing::{grows_by_at_most, measured, with_slack};

use super::*;

fn revision(number: u64) -> Revision {
    number.to_string().parse().unwrap()
}

#[tokio::test]
async fn waiting_for_a_revision_returns_its_result_and_no_earlier_one() {
    let verdicts = SyncResults::default();
    verdicts.record("a", revision(3), revision(3), SyncOutcome::Put(Put::Added));
    verdicts.record("a", revision(4), revision(4), SyncOutcome::Put(Put::Unchanged));
    verdicts.record("b", revision(3), revision(4), SyncOutcome::Put(Put::Added));
    assert!(matches!(verdicts.wait("b", revision(3)).await.outcome, SyncOutcome::Put(Put::Added)));
    assert!(
        matches!(verdicts.wait("b", revision(4)).await.outcome, SyncOutcome::Put(Put::Unchanged)),
        "the status came after it"
    );
    assert!(matches!(verdicts.wait("a", revision(3)).await.outcome, SyncOutcome::Put(Put::Added)));
    assert!(matches!(verdicts.wait("a", revision(4)).await.outcome, SyncOutcome::Put(Put::Unchanged)));
    verdicts.record("a", revision(2), revision(2), SyncOutcome::Paused);
    assert!(
        matches!(verdicts.wait("a", revision(3)).await.outcome, SyncOutcome::Put(Put::Added)),
        "an older word is late"
    );
    verdicts.record("a", revision(6), revision(6), SyncOutcome::Refused("no".to_owned()));
    assert!(verdicts.is_refused("a", "no") && !verdicts.is_refused("a", "other"));
    assert!(matches!(verdicts.wait("a", revision(5)).await.outcome, SyncOutcome::Refused(_)));
}

#[tokio::test]
async fn a_status_change_keeps_the_result_and_any_other_change_drops_it() {
    let verdicts = SyncResults::default();
    verdicts.record("a", revision(3), revision(3), SyncOutcome::Paused);
    verdicts.see("a", revision(4), revision(5));
    assert_eq!(verdicts.last("a").unwrap().seen, revision(3), "the revision between has not been looked at");
    verdicts.see("a", revision(3), revision(5));
    assert_eq!(verdicts.wait("a", revision(5)).await.seen, revision(5));
}

#[test]
fn results_of_removed_controllers_are_bounded() {
    let verdicts = SyncResults::default();
    for number in 1..GONE_MAX as u64 + 10 {
        let name = number.to_string();
        verdicts.record(&name, revision(number), revision(number), SyncOutcome::Paused);
        verdicts.record(&name, revision(number), revision(number), SyncOutcome::Removed(RemovedCounts::default()));
    }
    assert_eq!(verdicts.by_name.borrow().len(), GONE_MAX);
    assert!(verdicts.last("1").is_none(), "the oldest goes first");
}

#[test]
fn a_truncated_reason_is_recognised_again() {
    let verdicts = SyncResults::default();
    let reason = "x".repeat(3 * REASON_BYTES_MAX);
    verdicts.record("a", revision(1), revision(1), SyncOutcome::Refused(reason.clone()));
    assert!(verdicts.is_refused("a", &reason));
    let SyncOutcome::Refused(kept) = verdicts.last("a").unwrap().outcome else { panic!() };
    assert_eq!(kept.len(), REASON_BYTES_MAX);
}

measured! {
    /// Measures several hosts, because a single one takes no more than the process itself grows by. Each outcome
    /// has the longest name, a refusal with a reason above the bound, and a removal that left keys behind.
    fn results_of_removed_controllers_take_no_more_memory_than_their_bound measure_outcomes {
        const HOSTS: usize = 16;
        let key = demo_key("App", "a");
        let reason = "x".repeat(2 * REASON_BYTES_MAX);
        grows_by_at_most(with_slack((HOSTS * GONE_MAX) as u64 * GONE_BYTES), || {
            let all: Vec<SyncResults> = (0..HOSTS).map(|_| SyncResults::default()).collect();
            for verdicts in &all {
                for number in 1..GONE_MAX as u64 + 200 {
                    let name = format!("{number:0>253}");
                    verdicts.record(&name, revision(number), revision(number), SyncOutcome::Refused(reason.clone()));
                    let left = crate::RemovalReport { dropped: vec![key.clone(); 10_000], ..Default::default() };
                    verdicts.record(&name, revision(number), revision(number), SyncOutcome::Removed(left.counts()));
                }
                assert_eq!(verdicts.by_name.borrow().len(), GONE_MAX);
            }
            all
        });
    }
}
