use std::time::{Duration, SystemTime};

use homeostat_fixtures::memory_store;
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{RoutedStore, StorePart, View};

use super::*;

fn two() -> Stores {
    let rule =
        |pattern: &str, store: &str| Rule { pattern: pattern.parse().unwrap(), store: store.into(), view: View::Whole };
    let routes = Routes::new(vec![rule("apps/*", "bus"), rule("v1/Secret", HOME), rule("v1/*", "bus")]).unwrap();
    let others = vec![StorePart { name: "bus".into(), store: memory_store() }];
    Stores::Routed(Arc::new(RoutedStore::new(memory_store(), others, routes).unwrap()))
}

#[test]
fn each_store_has_its_state_and_the_patterns_of_its_rules() {
    let stores = two();
    let items: Vec<Value> = stores.whole().status().iter().map(|status| item(status, &stores)).collect();
    assert_eq!((&items[0]["name"], &items[0]["kinds"]), (&json!("home"), &json!(["v1/Secret"])));
    assert_eq!((&items[1]["name"], &items[1]["kinds"]), (&json!("bus"), &json!(["apps/*", "v1/*"])));
    assert_eq!((&items[1]["state"], &items[1]["storage"]), (&json!("Ready"), &json!("memory")));
    assert!(items[1].get("reason").is_none() && items[1].get("since").is_none());
}

#[test]
fn a_store_that_stands_alone_is_called_home() {
    let stores = Stores::One(memory_store());
    let status = stores.whole().status().remove(0);
    let shown = item(&status, &stores);
    assert_eq!((&shown["name"], &shown["kinds"]), (&json!("home"), &json!([])));
}

#[test]
fn a_store_that_is_away_says_since_when_and_why() {
    let stores = two();
    let mut status = stores.whole().status().remove(1);
    let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    status.availability = Availability::Away { since, reason: "connection refused".to_owned() };
    let shown = item(&status, &stores);
    assert_eq!((&shown["state"], &shown["since"]), (&json!("Away"), &json!("1970-01-01T00:16:40Z")));
    assert!(shown["reason"].as_str().unwrap().contains("store bus: connection refused"));
}

#[test]
fn a_store_with_other_content_says_which_one_and_what_a_person_should_know() {
    let stores = two();
    let mut status = stores.whole().status().remove(1);
    status.availability = Availability::Replaced { before: "one".to_owned(), now: "two\n".to_owned() };
    status.notes = vec!["replicas: one".to_owned()];
    let shown = item(&status, &stores);
    assert_eq!((&shown["state"], &shown["replacedBy"]), (&json!("Replaced"), &json!("two\n")));
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.contains(r#"its content "one" was replaced by "two\n": "#), "{reason}");
    assert_eq!(shown["notes"], json!(["replicas: one"]));
}
