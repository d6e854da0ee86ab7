use homeostat_component::Severity;
use homeostat_store::Kind;

use super::*;

const DENIAL: &str = "no grant for get of Secret; the manifest would grant it with\ngrants:\n  resources: []";

fn event(name: &str, reason: &str, message: &str, count: u64) -> Event {
    Event {
        sequence: 1,
        first_sequence: 1,
        first_seen: String::new(),
        last_seen: String::new(),
        count,
        controller: "web".into(),
        source: EventSource::Host,
        key: Some(Key::new(Kind::new("", "v1", "Pod"), "default", name)),
        severity: Severity::Warning,
        reason: reason.to_owned(),
        message: message.replace("NAME", name),
    }
}

#[test]
fn a_failure_of_many_keys_is_reported_once_with_their_number() {
    let mut warnings = Warnings::default();
    let denied: Vec<Event> = ["a", "b", "c"].map(|name| event(name, DENIED, DENIAL, 1)).into();
    let told = format!("warning: web default/a and 2 more: Forbidden: {DENIAL}");
    assert_eq!(warnings.lines(&denied), [told]);
    assert_eq!(warnings.lines(&[event("d", DENIED, DENIAL, 1)]), [""; 0], "at the next look as well");
    let named: Vec<Event> = ["a", "b"].map(|name| event(name, "Trapped", "no \"NAME\"", 1)).into();
    assert_eq!(warnings.lines(&named), ["warning: web default/a and 1 more: Trapped: no \"a\""]);
}

#[test]
fn the_failure_caused_by_a_denial_is_not_reported_beside_it() {
    let mut warnings = Warnings::default();
    let failure = DENIAL.replace("Secret", "Secret \"NAME\"");
    let both = [event("a", DENIED, DENIAL, 1), event("a", "ReconcileFailed", &failure, 1)];
    assert_eq!(warnings.lines(&both).len(), 1);
    assert_eq!(warnings.lines(&[event("b", "ReconcileFailed", &failure, 1)]), [""; 0]);
    let other = warnings.lines(&[event("a", "ReconcileFailed", "the disk is full", 1)]);
    assert_eq!(other, ["warning: web default/a: ReconcileFailed: the disk is full"]);
}

#[test]
fn a_guest_that_fakes_a_denial_hides_no_other_warning() {
    let mut warnings = Warnings::default();
    let said = Event { source: EventSource::Guest, ..event("a", DENIED, "no\n", 1) };
    let denied = event("a", DENIED, "no\n", 1);
    let told = ["warning: web default/a says: Forbidden: no\n", "warning: web default/a: Forbidden: no\n"];
    assert_eq!(warnings.lines(&[said.clone(), denied]), told);
    let mut warnings = Warnings::default();
    let failed = event("a", "ReconcileFailed", "one\ntwo", 1);
    assert_eq!(warnings.lines(&[said, failed]).len(), 2);
}

#[test]
fn a_repeated_warning_is_reported_again_at_ten_times_its_count() {
    let mut warnings = Warnings::default();
    let mut told = |count| warnings.lines(&[event("a", "Trapped", "one\ntwo", count)]);
    assert_eq!(told(1), ["warning: web default/a: Trapped: one\ntwo"]);
    assert_eq!(told(9), [""; 0]);
    assert_eq!(told(11), ["warning: web default/a: Trapped (11 times): one"]);
    assert_eq!(told(109), [""; 0]);
    assert_eq!(told(110), ["warning: web default/a: Trapped (110 times): one"]);
}

#[test]
fn other_texts_reasons_and_controllers_are_reported() {
    let mut warnings = Warnings::default();
    let other = Event { controller: "api".into(), ..event("a", "Trapped", "one", 1) };
    let all = [event("a", "Trapped", "one", 1), event("a", "Trapped", "two", 1), event("a", "Slow", "one", 1), other];
    assert_eq!(warnings.lines(&all).len(), all.len());
}

#[test]
fn a_changed_controllers_warnings_are_reported_again() {
    let mut warnings = Warnings::default();
    let warning = [event("a", "Trapped", "one", 1)];
    assert_eq!(warnings.lines(&warning).len(), 1);
    warnings.forget("another");
    assert_eq!(warnings.lines(&warning).len(), 0);
    warnings.forget("web");
    assert_eq!(warnings.lines(&warning).len(), 1);
}

#[test]
fn a_key_name_is_removed_where_it_is_a_word() {
    let key = Key::new(Kind::new("", "v1", "Pod"), "default", "a");
    assert_eq!(without_key_name("a grant of \"a\" and a-1, not bag", Some(&key)), "… grant of \"…\" and …-1, not bag");
    assert_eq!(without_key_name("a grant", None), "a grant");
    let empty = Key::new(Kind::new("", "v1", "Pod"), "", "");
    assert_eq!(without_key_name("a grant", Some(&empty)), "a grant");
}
