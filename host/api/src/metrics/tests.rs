use std::time::Duration;

use homeostat_component::{Cost, EffectCounts, Fault, LimitName, Outcome};
use homeostat_runtime::ReconcileRecord;
use homeostat_runtime::settle::Label;
use homeostat_store::{Key, Kind};

use super::*;

fn record(recorder: &dyn Recorder, label: Label, result: &Result<Outcome, Fault>) {
    let key = Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web");
    let effects = EffectCounts::new([3, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0]);
    let (cpu, wall) = (Duration::from_millis(2), Duration::from_millis(30));
    let cost = Cost { cpu, wall, memory_bytes_max: 7, pages_grown: 3, effects, bytes_out: 0, bytes_in: 0 };
    let (queued_for, worked_for) = (Duration::from_micros(5), Duration::from_millis(40));
    recorder.record(&ReconcileRecord { key: &key, queued_for, worked_for, result, label, cost });
}

#[test]
fn a_reconcile_is_counted_once_in_each_of_its_metrics() {
    let recorder = ReconcileRecorder::default();
    let limit = Fault::Limit { limit: LimitName::EffectBytes, message: String::new() };
    record(&recorder, Label::Success, &Ok(Outcome::Settled));
    record(&recorder, Label::Error, &Err(limit));
    record(&recorder, Label::Dropped, &Err(Fault::Trap { message: String::new() }));
    let tally = recorder.tally();
    assert_eq!(tally.results, [1, 0, 0, 1, 0, 1]);
    assert_eq!(tally.results(Label::is_failure), 2);
    assert_eq!((tally.traps, tally.hits(LimitName::EffectBytes), tally.limits.iter().sum::<u64>()), (1, 1, 1));
    assert_eq!(tally.queued.sum(), Duration::from_micros(15));
    assert_eq!(tally.worked.sum(), Duration::from_millis(120));
    assert_eq!(tally.reconciled.sum(), Duration::from_millis(90));
}

#[test]
fn metrics_of_removed_controllers_end_and_reused_names_start_at_zero() {
    let metrics = Metrics::default();
    let count = |name: &str| {
        let recorders = metrics.0.recorders.lock();
        recorders.get(name).and_then(Weak::upgrade).map(|recorder| recorder.tally().results(|_| true))
    };
    let old = metrics.controller(&"a".into());
    record(&*old, Label::Success, &Ok(Outcome::Settled));
    assert_eq!(count("a"), Some(1));
    let new = metrics.controller(&"a".into());
    record(&*old, Label::Success, &Ok(Outcome::Settled));
    assert_eq!(count("a"), Some(0), "what the old one still runs is not the new one's");
    drop((old, new));
    let _other = metrics.controller(&"b".into());
    assert_eq!(metrics.0.recorders.lock().len(), 1);
}

#[test]
fn no_two_metrics_have_one_name_and_every_line_can_be_read() {
    let mut names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    for family in &FAMILIES {
        assert!(!family.name.ends_with("_total"), "{} is given its suffix when it is written", family.name);
        assert!(!family.help.contains(['\n', '\\', '"']) && family.help.ends_with('.'), "{}", family.name);
    }
}
