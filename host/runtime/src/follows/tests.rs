use super::*;

fn key(name: &str) -> Key {
    Key::new(Kind::new("demo.dev", "v1", "App"), "default", name)
}

fn secrets() -> Kind {
    Kind::new("", "v1", "Secret")
}

fn secret(name: &str) -> Target {
    Target::One(Key::new(secrets(), "default", name))
}

#[test]
fn followed_resources_are_bounded_and_dropped_ones_make_room() {
    let follows = Follows::default();
    let mut followers = 0;
    while follows.gather(&key(&format!("app-{followers}")), secret("one")) {
        assert!(follows.keep(&key(&format!("app-{followers}"))));
        followers += 1;
    }
    assert!(follows.sets.lock().bytes <= BYTES_MAX);
    let each = BYTES_MAX / followers;
    assert!((1024..1536).contains(&each), "{each} bytes for one follower of one resource");
    let selector = Selector { namespace: Some("n".repeat(200)), ..Selector::default() };
    assert!(!follows.gather(&key("late"), Target::All(secrets(), selector)), "selectors count as well");
    assert_eq!(follows.followers_of_kind(&secrets()).len() as u64, followers, "what is followed stays");
    // A reconcile that follows nothing, and one that fails.
    follows.keep(&key("app-0"));
    assert!(follows.gather(&key("late"), secret("one")));
    follows.roll_back(&key("late"));
    assert!(follows.gather(&key("late"), secret("one")));
    for n in 0..followers {
        follows.keep(&key(&format!("app-{n}")));
    }
    follows.roll_back(&key("late"));
    assert_eq!(follows.sets.lock().bytes, 0);
}

#[test]
fn the_set_of_a_reconcile_that_succeeds_replaces_the_last_one() {
    let follows = Follows::default();
    follows.gather(&key("a"), secret("old"));
    assert!(follows.keep(&key("a")));
    follows.gather(&key("a"), secret("old"));
    assert!(!follows.keep(&key("a")), "the same set is no change");
    follows.gather(&key("a"), secret("new"));
    assert!(follows.keep(&key("a")));
    assert_eq!(follows.sets.lock().current[&key("a")], [secret("new")]);
}

#[test]
fn the_same_set_in_another_order_is_no_change() {
    let follows = Follows::default();
    for names in [["one", "two"], ["two", "one"]] {
        assert!(names.iter().all(|name| follows.gather(&key("a"), secret(name))));
        assert_eq!(follows.keep(&key("a")), names[0] == "one");
    }
}

#[test]
fn the_set_of_a_reconcile_that_fails_is_dropped() {
    let follows = Follows::default();
    follows.gather(&key("a"), secret("old"));
    follows.keep(&key("a"));
    follows.gather(&key("a"), secret("new"));
    follows.roll_back(&key("a"));
    assert_eq!(follows.sets.lock().current[&key("a")], [secret("old")]);
}

#[test]
fn a_reconcile_that_follows_nothing_ends_what_it_followed() {
    let follows = Follows::default();
    follows.gather(&key("a"), secret("old"));
    follows.keep(&key("a"));
    follows.keep(&key("a"));
    assert!(follows.take_unwatched().is_empty());
}

/// W5: one feeder of a kind exists while any key follows it.
#[test]
fn a_kind_is_watched_once_and_let_go_when_the_last_key_does() {
    let follows = Follows::default();
    for follower in ["a", "b"] {
        follows.gather(&key(follower), secret("one"));
        follows.keep(&key(follower));
    }
    assert_eq!(follows.take_unwatched(), [secrets()]);
    assert!(follows.take_unwatched().is_empty(), "it is watched by now");
    follows.keep(&key("a"));
    assert!(!follows.let_go(&secrets()), "one key still follows it");
    follows.keep(&key("b"));
    assert!(follows.let_go(&secrets()));
    follows.gather(&key("a"), secret("two"));
    follows.keep(&key("a"));
    assert_eq!(follows.take_unwatched(), [secrets()], "it is followed anew");
}
