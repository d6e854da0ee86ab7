use super::*;

fn log_with(messages: impl IntoIterator<Item = String>) -> EventLog {
    let log = EventLog::default();
    for message in messages {
        log.note("2026-01-01T00:00:00Z".into(), &"web".into(), None, Severity::Warning, "Failed", &message);
    }
    log
}

#[test]
fn equal_events_are_counted_and_move_to_the_end() {
    let log = log_with(["a", "b", "a"].map(String::from));
    let events = log.list(&EventFilter::default());
    let seen: Vec<_> = events.iter().map(|event| (event.message.as_str(), event.count, event.sequence)).collect();
    assert_eq!(seen, [("b", 1, 2), ("a", 2, 3)]);
    assert_eq!(events[1].first_sequence, 1, "by this one it is known");
}

#[test]
fn the_event_seen_longest_ago_goes_when_the_log_is_full() {
    let log = log_with((0..=EVENTS_MAX).map(|n| n.to_string()));
    let events = log.list(&EventFilter::default());
    assert_eq!(events.len(), EVENTS_MAX);
    assert_eq!((events[0].message.as_str(), log.forgotten()), ("1", 1));
}

#[test]
fn a_filter_wants_only_what_it_names() {
    let log = log_with(["a", "b"].map(String::from));
    assert_eq!(log.list(&EventFilter { after: 1, ..EventFilter::default() }).len(), 1);
    assert_eq!(log.list(&EventFilter { controller: Some("other".into()), ..EventFilter::default() }).len(), 0);
}
