use homeostat_fixtures::demo_key;
use homeostat_store::LabelRequirement;
use homeostat_testing::Dice;

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
    assert!(follows.sets.lock().index.is_empty());
}

#[test]
fn each_value_of_a_selector_counts_for_the_bound_on_follows() {
    let bytes_of = |count: u64| {
        let values = (0..count).map(|number| number.to_string()).collect();
        let selector = Selector { labels: vec![LabelRequirement::OneOf("app".into(), values)], ..Selector::default() };
        let follows = Follows::default();
        assert!(follows.gather(&demo_key("App", "a"), Target::All(secrets(), selector)));
        follows.keep(&demo_key("App", "a"));
        follows.sets.lock().bytes
    };
    assert!(bytes_of(64) - bytes_of(1) >= 63 * PLACE_BYTES);
}

fn labelled(name: &str, app: u64, owner: u64) -> Resource {
    let owners = serde_json::json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": format!("u{owner}")}]);
    let labels = serde_json::json!({"app": format!("a{app}")});
    let metadata = serde_json::json!({
        "name": name, "namespace": "default", "labels": labels, "ownerReferences": owners,
    });
    let document = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "spec": {"size": app},
    });
    Resource::from_document(document).unwrap()
}

/// Returns what a follower of random secrets asks for.
fn random_target(dice: &mut Dice) -> Target {
    let value = |dice: &mut Dice| format!("a{}", dice.below(4));
    let selector = match dice.below(6) {
        0 => return secret(&format!("s{}", dice.below(4))),
        1 => Selector { owner: Some(format!("u{}", dice.below(3))), ..Selector::default() },
        2 => Selector { labels: vec![LabelRequirement::Equals("app".into(), value(dice))], ..Selector::default() },
        3 => {
            let values = vec![value(dice), value(dice)];
            Selector { labels: vec![LabelRequirement::OneOf("app".into(), values)], ..Selector::default() }
        }
        4 => Selector { fields: vec![("/spec/size".into(), dice.below(4).to_string())], ..Selector::default() },
        _ => Selector { labels: vec![LabelRequirement::NotEquals("app".into(), value(dice))], ..Selector::default() },
    };
    Target::All(secrets(), selector)
}

#[test]
fn the_index_finds_the_same_followers_as_a_look_at_every_set() {
    let (follows, mut dice) = (Follows::default(), Dice::new(23));
    for _ in 0..2_000 {
        let follower = demo_key("App", &format!("app-{}", dice.below(12)));
        for _ in 0..dice.below(4) {
            follows.gather(&follower, random_target(&mut dice));
        }
        if dice.percent(20) {
            follows.roll_back(&follower);
        } else {
            follows.keep(&follower);
        }
        let resource = labelled(&format!("s{}", dice.below(4)), dice.below(4), dice.below(3));
        let scanned: Vec<Key> = {
            let sets = follows.sets.lock();
            let means = |targets: &Vec<Target>| targets.iter().any(|target| target.means(&resource));
            sets.current.iter().filter(|(_, targets)| means(targets)).map(|(follower, _)| follower.clone()).collect()
        };
        assert_eq!(follows.followers_of(&resource, |_, _| true), scanned);
    }
    for number in 0..12 {
        follows.roll_back(&demo_key("App", &format!("app-{number}")));
        follows.keep(&demo_key("App", &format!("app-{number}")));
    }
    let sets = follows.sets.lock();
    assert!(sets.index.is_empty() && sets.bytes == 0, "nothing is left behind");
}

#[test]
fn a_change_looks_only_at_keys_that_can_follow_it() {
    let follows = Follows::default();
    for number in 0..5_000 {
        let follower = demo_key("App", &format!("app-{number}"));
        let by_label = LabelRequirement::Equals("app".into(), format!("a{number}"));
        let selector = Selector { labels: vec![by_label], ..Selector::default() };
        assert!(follows.gather(&follower, secret(&format!("s{number}"))));
        assert!(follows.gather(&follower, Target::All(secrets(), selector)));
        follows.keep(&follower);
    }
    let resource = labelled("s7", 9, 0);
    assert_eq!(follows.sets.lock().index.candidates(&resource).len(), 2);
    assert_eq!(follows.followers_of(&resource, |_, _| true).len(), 2);
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

#[test]
fn the_sets_of_keys_that_another_host_has_are_dropped() {
    let (follows, kept, gone) = (Follows::default(), demo_key("App", "kept"), demo_key("App", "gone"));
    follows.retain(|_| false);
    for follower in [&kept, &gone] {
        follows.gather(follower, secret("one"));
        follows.keep(follower);
    }
    follows.retain(|key| *key == kept);
    assert_eq!(follows.followers_of_kind(&secrets()), [kept]);
    follows.retain(|_| false);
    assert_eq!(follows.sets.lock().bytes, 0);
    assert!(follows.sets.lock().index.is_empty());
}
