use homeostat_fixtures::demo_key;
use proptest::prelude::*;

use super::*;
use crate::rollout::Share;

fn difference(name: &str, field: &str) -> ReconcileDifference {
    let key = demo_key("App", name);
    ReconcileDifference { key, verb: "apply".into(), field: field.into(), old: Some("1".into()), new: Some("2".into()) }
}

fn differing(differences: Vec<ReconcileDifference>) -> CompareResult {
    CompareResult::Differing { differences, failed_alone: false }
}

fn plan(allowed: DifferenceLimit) -> ShadowPlan {
    ShadowPlan { lasts: Duration::from_secs(60), reconciles: 10, allowed }
}

const MINUTE: Duration = Duration::from_secs(60);

fn report(equal: u64, different: u64) -> ShadowReport {
    let mut report = ShadowReport::default();
    (0..equal).for_each(|_| report.note(CompareResult::Equal));
    (0..different).for_each(|_| report.note(differing(vec![difference("a", "spec.replicas")])));
    report
}

#[test]
fn equal_differences_are_reported_once_and_counted() {
    let mut report = report(1, 3);
    report.note(differing(vec![difference("b", "spec.replicas"), difference("a", "spec.image")]));
    let told: Vec<_> = report
        .differences
        .iter()
        .map(|counted| (counted.first.key.name(), &*counted.first.field, counted.times))
        .collect();
    assert_eq!(told, [("a", "spec.replicas", 3), ("b", "spec.replicas", 1), ("a", "spec.image", 1)]);
    assert_eq!((report.compared, report.equal, report.differing), (5, 1, 4));
}

#[test]
fn a_gate_on_a_number_fails_at_once_and_one_on_a_share_at_the_end() {
    let soon = Duration::from_secs(1);
    assert!(matches!(report(0, 1).verdict(&plan(DifferenceLimit::Count(0)), soon), ShadowVerdict::Failed(_)));
    assert_eq!(report(9, 1).verdict(&plan(DifferenceLimit::Count(1)), MINUTE), ShadowVerdict::Passed);
    assert_eq!(
        report(1, 9).verdict(&plan(DifferenceLimit::Share(Share::percent(1))), soon),
        ShadowVerdict::Inconclusive
    );
    assert!(matches!(
        report(98, 2).verdict(&plan(DifferenceLimit::Share(Share::percent(1))), MINUTE),
        ShadowVerdict::Failed(_)
    ));
    assert_eq!(report(99, 1).verdict(&plan(DifferenceLimit::Share(Share::percent(1))), MINUTE), ShadowVerdict::Passed);
    assert_eq!(report(0, 10).verdict(&plan(DifferenceLimit::Any), MINUTE), ShadowVerdict::Passed);
}

#[test]
fn a_verdict_needs_time_and_reconciles_but_not_forever() {
    let none = plan(DifferenceLimit::Count(0));
    assert_eq!(report(9, 0).verdict(&none, MINUTE), ShadowVerdict::Inconclusive);
    assert_eq!(report(10, 0).verdict(&none, MINUTE - Duration::from_millis(1)), ShadowVerdict::Inconclusive);
    assert_eq!(report(10, 0).verdict(&none, MINUTE), ShadowVerdict::Passed);
    assert_eq!(report(0, 0).verdict(&none, 4 * MINUTE), ShadowVerdict::Passed, "there is nothing to reconcile");
    let mut unfit = report(9, 0);
    unfit.note(CompareResult::Unfit(UnfitReason::TooLong));
    assert_eq!(unfit.verdict(&none, MINUTE), ShadowVerdict::Inconclusive, "what could not be compared says nothing");
    let mut nothing = report(0, 0);
    nothing.note(CompareResult::Unfit(UnfitReason::TooLong));
    assert!(
        matches!(nothing.verdict(&none, 4 * MINUTE), ShadowVerdict::Failed(_)),
        "it says nothing at the end either"
    );
}

#[test]
fn a_status_has_the_first_differences_and_the_number_of_others() {
    let mut report = ShadowReport::default();
    for name in 0..20 {
        report.note(differing(vec![difference(&name.to_string(), "spec.replicas")]));
    }
    let brief = report.brief();
    assert_eq!((brief.differences.len(), brief.left_out, brief.differing), (8, 12, 20));
    assert_eq!(brief.differences[..], report.differences[..8]);
}

#[test]
fn the_reason_has_the_first_differences() {
    let ShadowVerdict::Failed(reason) = report(1, 1).verdict(&plan(DifferenceLimit::Count(0)), MINUTE) else {
        panic!()
    };
    assert_eq!(
        reason,
        "1 of 2 reconciles differ from those of the stable version: demo.homeostat.dev/v1/App default/a: apply spec.replicas: 2 instead of 1"
    );
}

proptest! {
    #[test]
    fn counts_of_differences_add_up_and_kept_ones_are_bounded(ends in prop::collection::vec(0..4_u8, 0..200), names in prop::collection::vec("[a-z]{2}", 1..150)) {
        let mut report = ShadowReport::default();
        let mut told = 0;
        for (at, end) in ends.iter().enumerate() {
            report.note(match end {
                0 => CompareResult::Equal,
                1 => CompareResult::Unfit(UnfitReason::OldStopped),
                _ => {
                    told += 1;
                    let differences = vec![difference(&names[at % names.len()], "spec")];
                    CompareResult::Differing { differences, failed_alone: *end == 3 }
                }
            });
        }
        prop_assert_eq!(report.compared, report.equal + report.differing);
        prop_assert_eq!(report.compared + report.unfit, ends.len() as u64);
        prop_assert!(report.errors <= report.differing);
        prop_assert!(report.differences.len() <= DIFFERENCES_MAX);
        prop_assert_eq!(report.differences.iter().map(|counted| counted.times).sum::<u64>() + report.left_out, told);
        prop_assert_eq!(report.unfit_because.values().sum::<u64>(), report.unfit);
    }
}
