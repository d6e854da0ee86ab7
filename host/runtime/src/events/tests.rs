use super::*;

fn log_with(messages: impl IntoIterator<Item = String>) -> EventLog {
    let log = EventLog::default();
    for message in messages {
        note(&log, "web", &message);
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
fn a_full_event_log_drops_the_event_seen_longest_ago() {
    let log = log_with((0..=EVENTS_MAX).map(|n| n.to_string()));
    let events = log.list(&EventFilter::default());
    assert_eq!(events.len(), EVENTS_MAX);
    assert_eq!((events[0].message.as_str(), log.forgotten()), ("1", 1));
}

#[test]
fn an_event_filter_selects_only_what_it_names() {
    let log = log_with(["a", "b"].map(String::from));
    assert_eq!(log.list(&EventFilter { after: 1, ..EventFilter::default() }).len(), 1);
    assert_eq!(log.list(&EventFilter { controller: Some("other".into()), ..EventFilter::default() }).len(), 0);
}

fn note(log: &EventLog, controller: &str, message: &str) {
    note_from(EventSource::Host, log, controller, message);
}

fn note_from(source: EventSource, log: &EventLog, controller: &str, message: &str) {
    let (controller, severity) = (&controller.into(), Severity::Warning);
    let event = NewEvent { controller, source, key: None, severity, reason: "Failed", message };
    log.record("2026-01-01T00:00:00Z".into(), event);
}

#[test]
fn an_event_of_a_guest_is_distinguished_from_an_equal_one_of_the_host() {
    let log = EventLog::default();
    note(&log, "web", "same");
    note_from(EventSource::Guest, &log, "web", "same");
    let events = log.list(&EventFilter::default());
    let sources: Vec<_> = events.iter().map(|event| (event.source, event.count)).collect();
    assert_eq!(sources, [(EventSource::Host, 1), (EventSource::Guest, 1)]);
}

fn of(log: &EventLog, controller: &str) -> Vec<String> {
    let filter = EventFilter { controller: Some(controller.into()), ..EventFilter::default() };
    log.list(&filter).into_iter().map(|event| event.message).collect()
}

#[test]
fn a_controller_that_floods_the_event_log_loses_only_its_own_events() {
    let log = EventLog::default();
    for n in 0..100 {
        note(&log, "quiet", &n.to_string());
    }
    for n in 0..3 * EVENTS_MAX {
        note(&log, "loud", &n.to_string());
    }
    assert_eq!((of(&log, "quiet").len(), of(&log, "quiet")[0].as_str()), (100, "0"));
    let loud = of(&log, "loud");
    assert_eq!(loud.len(), EVENTS_MAX - 100, "there is one bound for all");
    let (last, first) = (3 * EVENTS_MAX - 1, 3 * EVENTS_MAX - loud.len());
    assert_eq!((loud[0].clone(), loud[loud.len() - 1].clone()), (first.to_string(), last.to_string()));
    assert_eq!(log.forgotten(), 100 + first as u64, "the sequence of the last one that went");
}

#[test]
fn controllers_that_flood_the_event_log_have_equal_shares() {
    let log = EventLog::default();
    for n in 0..2 * EVENTS_MAX {
        for name in ["a", "b", "c", "d"] {
            note(&log, name, &n.to_string());
        }
    }
    for name in ["a", "b", "c", "d"] {
        assert_eq!(of(&log, name).len(), EVENTS_MAX / 4, "{name}");
    }
    let Inner { events, shares, sizes, .. } = &*log.inner.lock();
    assert_eq!((events.len(), shares.len(), sizes.len()), (EVENTS_MAX, 4, 4), "nothing else is kept");
}

#[test]
fn more_controllers_than_events_lose_the_oldest_ones() {
    let log = EventLog::default();
    for n in 0..EVENTS_MAX + 10 {
        note(&log, &format!("c{n}"), "once");
    }
    assert_eq!((of(&log, "c9").len(), of(&log, "c10").len(), log.forgotten()), (0, 1, 10));
    assert_eq!(log.inner.lock().shares.len(), EVENTS_MAX, "a controller without events leaves nothing");
}

#[test]
fn an_event_message_is_truncated_at_its_bound() {
    let log = log_with(["ä".repeat(MESSAGE_BYTES_MAX)]);
    let events = log.list(&EventFilter::default());
    assert_eq!(events[0].message.len(), MESSAGE_BYTES_MAX);
}

#[test]
fn a_log_keeps_as_many_events_as_it_was_made_for() {
    let log = EventLog::new(3);
    for message in ["1", "2", "3", "4", "5"] {
        note(&log, "web", message);
    }
    let kept: Vec<String> = log.list(&EventFilter::default()).into_iter().map(|event| event.message).collect();
    assert_eq!(kept, ["3", "4", "5"]);
}
