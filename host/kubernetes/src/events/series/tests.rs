use std::time::Duration;

use homeostat_store::{Key, Kind};

use super::{Action, BURST, Identity, REFILL, RESOURCES_MAX, SERIES_MAX, Series};

/// The interval of the cluster's default settings.
const INTERVAL: Duration = Duration::from_secs(30);

fn event(resource: &str, note: &str) -> Identity {
    Identity {
        controller: "c".to_owned(),
        regarding: Key::new(Kind::new("", "v1", "Pod"), "n", resource),
        uid: "u".to_owned(),
        reason: "Started".to_owned(),
        note: note.to_owned(),
        is_warning: false,
    }
}

#[test]
fn an_event_is_written_once_and_its_repetitions_are_counted() {
    let (mut series, one) = (Series::new(INTERVAL), event("a", "x"));
    let at = |seconds| Duration::from_secs(seconds);
    assert_eq!(series.occurred(at(0), &one, 1), Some(Action::Create(1)));
    series.written(&one, Some("a.1".to_owned()), 1);
    for count in 2..100 {
        assert_eq!(series.occurred(at(1), &one, count), None);
    }
    assert_eq!(series.due(at(29)), None);
    assert_eq!(series.due(at(30)), Some((one.clone(), Action::Count("a.1".to_owned(), 99))));
    assert_eq!(series.due(at(30)), None, "the request is on its way");
    series.written(&one, Some("a.1".to_owned()), 99);
    assert_eq!(series.due(at(90)), None, "nothing is new");
    assert_eq!(series.occurred(at(90), &one, 100), Some(Action::Count("a.1".to_owned(), 100)));
}

#[test]
fn an_event_that_is_gone_is_created_again() {
    let (mut series, one) = (Series::new(INTERVAL), event("a", "x"));
    series.occurred(Duration::ZERO, &one, 1);
    series.written(&one, None, 1);
    assert_eq!(series.due(INTERVAL), Some((one, Action::Create(1))));
}

#[test]
fn a_resource_with_a_flood_of_events_loses_some_and_others_do_not() {
    let mut series = Series::new(INTERVAL);
    let now = Duration::from_secs(7);
    let written = (0..1000).filter(|n| series.occurred(now, &event("a", &n.to_string()), 1).is_some()).count();
    assert_eq!(written, BURST as usize);
    assert!(series.occurred(now, &event("b", "x"), 1).is_some());
    assert!(series.occurred(now + REFILL, &event("a", "later"), 1).is_some());
    assert!(series.occurred(now + REFILL, &event("a", "too many"), 1).is_none());
}

#[test]
fn any_number_of_events_and_resources_is_bounded() {
    let mut series = Series::new(INTERVAL);
    for number in 0..3 * SERIES_MAX {
        let name = number.to_string();
        series.occurred(Duration::from_millis(number as u64), &event(&name, &name), 1);
    }
    assert_eq!((series.events.len(), series.by_time.len()), (SERIES_MAX, SERIES_MAX));
    assert_eq!((series.full_at.len(), series.resources.len()), (RESOURCES_MAX, RESOURCES_MAX));
}
