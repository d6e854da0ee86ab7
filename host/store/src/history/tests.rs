use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{Bounds, History, SCAN_MAX, check_start};
use crate::{Error, Event, EventType, Kind, Resource, Revision, Scope};

fn event(revision: u64) -> Event {
    let kind = if revision.is_multiple_of(2) { "Even" } else { "Odd" };
    let metadata = json!({"name": "a", "resourceVersion": revision.to_string()});
    let resource = Resource::from_document(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
    let resource = Arc::new(resource.expect("well formed"));
    Event { kind: EventType::Added, resource, previous: None, revision: Revision(revision) }
}

fn bounds(events_max: u64, bytes_max: u64) -> Bounds {
    Bounds { events_max, bytes_max, age_max: Duration::from_secs(60) }
}

/// The time of day, in seconds after the first event.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn filled(count: u64, events_max: u64) -> History {
    let mut history = History::new(Revision::ZERO, bounds(events_max, u64::MAX));
    (1..=count).for_each(|revision| history.push(event(revision), 10, at(revision)));
    history
}

#[test]
fn events_that_are_too_old_are_removed_and_the_revision_stays() {
    let mut history = filled(10, 100);
    for (seconds, oldest) in [(60, 0), (61, 1), (64, 4), (70, 10), (1000, 10)] {
        history.expire(at(seconds));
        assert_eq!((history.oldest(), history.newest()), (Revision(oldest), Revision(10)), "{seconds}");
    }
    // After the clock goes back, no event is old.
    history.push(event(11), 10, at(5000));
    history.expire(at(10));
    assert_eq!(history.oldest(), Revision(10));
    history.forget(Revision(11));
    history.forget(Revision(12));
    assert_eq!((history.oldest(), history.newest()), (Revision(11), Revision(11)));
}

#[test]
fn a_full_history_drops_its_oldest_events() {
    let history = filled(10, 4);
    assert_eq!((history.oldest(), history.newest()), (Revision(6), Revision(10)));
    let after = |revision| {
        history.after(Revision(revision)).map(|events| events.map(|event| event.revision.0).collect::<Vec<_>>())
    };
    assert_eq!(after(6), Ok(vec![7, 8, 9, 10]));
    assert_eq!(after(9), Ok(vec![10]));
    assert_eq!(after(10), Ok(vec![]));
    assert_eq!(after(u64::MAX), Ok(vec![]));
    assert_eq!(after(5), Err(Error::Expired { oldest: Revision(6) }));
}

#[test]
fn history_is_bounded_in_bytes_and_keeps_its_last_event() {
    let mut history = History::new(Revision(5), bounds(100, 25));
    for revision in 6..=8 {
        history.push(event(revision), 10, at(0));
    }
    assert_eq!(history.oldest(), Revision(6));
    history.push(event(9), 1000, at(0));
    assert_eq!((history.oldest(), history.newest()), (Revision(8), Revision(9)));
    history.push(event(10), 10, at(0));
    assert_eq!(history.oldest(), Revision(9));
}

#[test]
fn a_read_goes_as_far_as_its_bound_and_says_how_far() {
    let scan_max = SCAN_MAX as u64;
    let history = filled(scan_max + 10, u64::MAX);
    let scope = Scope::Kind(Kind::new("", "v9", "Even"));
    let mut found = Vec::new();
    let through = history.read(&scope, Revision::ZERO, &mut found).expect("all is there");
    assert_eq!((through, found.len() as u64), (Revision(scan_max), scan_max / 2));
    let through = history.read(&scope, through, &mut found).expect("all is there");
    assert_eq!((through, found.len() as u64), (Revision(scan_max + 10), scan_max / 2 + 5));
    assert_eq!(history.read(&Scope::Everything, through, &mut found), Ok(through));
    assert_eq!(found.len() as u64, scan_max / 2 + 5);
}

#[test]
fn a_history_with_gaps_is_read_from_any_revision() {
    let revisions = [3, 4, 9, 20, 21, 40];
    let mut history = History::new(Revision(1), bounds(100, u64::MAX));
    for revision in revisions {
        history.push(event(revision), 10, at(0));
    }
    history.advance(Revision(50));
    history.advance(Revision(45));
    assert_eq!((history.oldest(), history.newest()), (Revision(1), Revision(50)));
    for after in 1..=60 {
        let wanted: Vec<u64> = revisions.into_iter().filter(|revision| *revision > after).collect();
        let found = history.after(Revision(after)).expect("all is there");
        assert_eq!(found.map(|event| event.revision.0).collect::<Vec<_>>(), wanted, "{after}");
        let mut read = Vec::new();
        let through = history.read(&Scope::Everything, Revision(after), &mut read);
        assert_eq!((through, read.len()), (Ok(Revision(after.max(50))), wanted.len()), "{after}");
    }
    history.forget(Revision(10));
    assert_eq!(history.oldest(), Revision(9));
    history.forget(Revision(60));
    assert_eq!((history.oldest(), history.newest()), (Revision(40), Revision(50)));
    assert_eq!(history.after(Revision(39)).err(), Some(Error::Expired { oldest: Revision(40) }));
}

#[test]
fn a_watch_begins_between_the_oldest_and_the_newest() {
    assert_eq!(check_start(Revision(3), Revision(3), Revision(5)), Ok(()));
    assert_eq!(check_start(Revision(5), Revision(3), Revision(5)), Ok(()));
    assert_eq!(check_start(Revision(2), Revision(3), Revision(5)), Err(Error::Expired { oldest: Revision(3) }));
    let future = Error::FutureRevision { asked: Revision(6), current: Revision(5) };
    assert_eq!(check_start(Revision(6), Revision(3), Revision(5)), Err(future));
}
