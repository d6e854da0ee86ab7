use homeostat_fixtures::demo_key;

use super::*;

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
    while follows.gather(&demo_key("App", &format!("app-{followers}")), secret("one")) {
        assert!(follows.keep(&demo_key("App", &format!("app-{followers}"))));
        followers += 1;
    }
    assert!(follows.sets.lock().bytes <= BYTES_MAX);
    let each = BYTES_MAX / followers;
    assert!((1024..1536).contains(&each), "{each} bytes for one follower of one resource");
    let selector = Selector { namespace: Some("n".repeat(200)), ..Selector::default() };
    assert!(!follows.gather(&demo_key("App", "late"), Target::All(secrets(), selector)), "selectors count as well");
    assert_eq!(follows.followers_of_kind(&secrets()).len() as u64, followers, "what is followed stays");
    // A reconcile that follows nothing, and one that fails.
    follows.keep(&demo_key("App", "app-0"));
    assert!(follows.gather(&demo_key("App", "late"), secret("one")));
    follows.roll_back(&demo_key("App", "late"));
    assert!(follows.gather(&demo_key("App", "late"), secret("one")));
    for n in 0..followers {
        follows.keep(&demo_key("App", &format!("app-{n}")));
    }
    follows.roll_back(&demo_key("App", "late"));
    assert_eq!(follows.sets.lock().bytes, 0);
}

#[test]
fn the_set_of_a_reconcile_that_succeeds_replaces_the_last_one() {
    let follows = Follows::default();
    follows.gather(&demo_key("App", "a"), secret("old"));
    assert!(follows.keep(&demo_key("App", "a")));
    follows.gather(&demo_key("App", "a"), secret("old"));
    assert!(!follows.keep(&demo_key("App", "a")), "the same set is no change");
    follows.gather(&demo_key("App", "a"), secret("new"));
    assert!(follows.keep(&demo_key("App", "a")));
    assert_eq!(follows.sets.lock().current[&demo_key("App", "a")], [secret("new")]);
}

#[test]
fn the_same_set_in_another_order_is_no_change() {
    let follows = Follows::default();
    for names in [["one", "two"], ["two", "one"]] {
        assert!(names.iter().all(|name| follows.gather(&demo_key("App", "a"), secret(name))));
        assert_eq!(follows.keep(&demo_key("App", "a")), names[0] == "one");
    }
}

#[test]
fn the_set_of_a_reconcile_that_fails_is_dropped() {
    let follows = Follows::default();
    follows.gather(&demo_key("App", "a"), secret("old"));
    follows.keep(&demo_key("App", "a"));
    follows.gather(&demo_key("App", "a"), secret("new"));
    follows.roll_back(&demo_key("App", "a"));
    assert_eq!(follows.sets.lock().current[&demo_key("App", "a")], [secret("old")]);
}

#[test]
fn a_reconcile_that_follows_nothing_ends_what_it_followed() {
    let follows = Follows::default();
    follows.gather(&demo_key("App", "a"), secret("old"));
    follows.keep(&demo_key("App", "a"));
    follows.keep(&demo_key("App", "a"));
    assert!(follows.take_unwatched().is_empty());
}

/// W5: one feeder of a kind exists while any key follows it.
#[test]
fn a_followed_kind_is_watched_until_its_last_follower_ends() {
    let follows = Follows::default();
    for follower in ["a", "b"] {
        follows.gather(&demo_key("App", follower), secret("one"));
        follows.keep(&demo_key("App", follower));
    }
    assert_eq!(follows.take_unwatched(), [secrets()]);
    assert!(follows.take_unwatched().is_empty(), "it is watched by now");
    follows.keep(&demo_key("App", "a"));
    assert!(!follows.let_go(&secrets()), "one key still follows it");
    follows.keep(&demo_key("App", "b"));
    assert!(follows.let_go(&secrets()));
    follows.gather(&demo_key("App", "a"), secret("two"));
    follows.keep(&demo_key("App", "a"));
    assert_eq!(follows.take_unwatched(), [secrets()], "it is followed anew");
}
