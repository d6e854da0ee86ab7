use homeostat_store::{Key, Kind};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::*;
use crate::grants::{AccessRequest, Attempt, Needs};

fn grants(value: &serde_json::Value) -> Grants {
    serde_json::from_value(value.clone()).unwrap()
}

fn get(kind: &str, namespace: &str, name: &str) -> Attempt {
    one(Verb::Get, kind, namespace, name)
}

fn one(verb: Verb, kind: &str, namespace: &str, name: &str) -> Attempt {
    Attempt::Resource { verb, key: Key::new(Kind::new("apps", "v1", kind), namespace, name) }
}

/// Records attempted accesses, as the grants decide them.
fn seen(grants: &Grants, asks: impl IntoIterator<Item = Attempt>) -> NeedsSnapshot {
    let needs = Needs::default();
    for ask in asks {
        let denied = match &ask {
            Attempt::Http { method, url } => grants.http_grant(method, url).is_none(),
            other => other.request().is_some_and(|request| {
                let is_of_many = matches!(ask, Attempt::Resources { verb: Verb::List | Verb::Watch, .. });
                let part = is_of_many && grants.allows_some(&request);
                !part && !grants.allows(&request)
            }),
        };
        needs.record(&ask, denied);
    }
    needs.snapshot()
}

#[test]
fn learned_grants_are_the_used_part_of_the_given_ones() {
    let granted = grants(&json!({"resources": [
        {"kinds": ["apps/*"], "verbs": ["*"], "namespaces": ["*"]},
        {"kinds": ["Secret"], "verbs": ["get"]}
    ]}));
    let asks = [
        get("Deployment", "blue", "a"),
        one(Verb::UpdateStatus, "Deployment", "blue", "a"),
        get("ReplicaSet", "green", "b"),
        one(Verb::UpdateStatus, "ReplicaSet", "green", "b"),
    ];
    let learned = granted.learn(&seen(&granted, asks));
    let line = |kind, namespace, name| {
        let verbs = ["get", "update-status"];
        json!({"kinds": [kind], "verbs": verbs, "namespaces": [namespace], "names": [name]})
    };
    let wanted = json!({"resources": [line("apps/Deployment", "blue", "a"), line("apps/ReplicaSet", "green", "b")]});
    assert_eq!(learned.grants, grants(&wanted));
    assert_eq!(learned.denied, Grants::default());
    assert_eq!(
        learned.unused,
        ["resources[0]: apps/*, every verb but get, update-status", "resources[1]: Secret, every verb"]
    );
}

#[test]
fn kinds_that_are_used_alike_share_a_line() {
    let granted = grants(&json!({"resources": [{"kinds": ["apps/*"], "verbs": ["get"]}]}));
    let learned = granted.learn(&seen(&granted, [get("A", "x", "n"), get("B", "x", "n")]));
    assert_eq!(learned.grants.resources.len(), 1);
    assert_eq!(learned.grants.resources[0].kinds, ["apps/A", "apps/B"]);
}

#[test]
fn for_many_names_learned_grants_keep_the_patterns_of_the_manifest() {
    let granted = grants(
        &json!({"resources": [{"kinds": ["apps/A"], "verbs": ["get"], "namespaces": ["team-*"], "names": ["web-*"]}]}),
    );
    let asks = |count: usize| (0..count).map(|n| get("A", &format!("team-{n}"), &format!("web-{n}")));
    let few = granted.learn(&seen(&granted, asks(2)));
    assert_eq!(few.grants.resources[0].namespaces, ["team-0", "team-1"]);
    for count in [9, 70, 200] {
        let many = granted.learn(&seen(&granted, asks(count)));
        assert_eq!(many.grants, granted, "{count}");
    }
}

#[test]
fn denied_accesses_are_proposed_apart_from_allowed_ones() {
    let granted = grants(&json!({"resources": [{"kinds": ["apps/A"], "verbs": ["get"], "namespaces": ["blue"]}]}));
    let asks = (0..20).map(|n| get("A", &format!("n{n}"), "a")).chain([get("A", "blue", "a"), get("B", "blue", "b")]);
    let learned = granted.learn(&seen(&granted, asks));
    let wanted =
        json!({"resources": [{"kinds": ["apps/A"], "verbs": ["get"], "namespaces": ["blue"], "names": ["a"]}]});
    assert_eq!(learned.grants, grants(&wanted));
    let denied = json!({"resources": [
        {"kinds": ["apps/A"], "verbs": ["get"], "namespaces": ["*"], "names": ["a"]},
        {"kinds": ["apps/B"], "verbs": ["get"], "namespaces": ["blue"], "names": ["b"]}
    ]});
    assert_eq!(learned.denied, grants(&denied));
}

#[test]
fn a_list_with_a_partial_answer_needs_grants_for_that_part_only() {
    let granted = grants(&json!({"resources": [
        {"kinds": ["apps/A"], "verbs": ["list"], "namespaces": ["blue"]},
        {"kinds": ["apps/A"], "verbs": ["list", "get"], "namespaces": ["green"]}
    ]}));
    let list = Attempt::Resources { verb: Verb::List, kind: Kind::new("apps", "v1", "A"), namespace: None, name: None };
    let learned = granted.learn(&seen(&granted, [list]));
    let namespaces: Vec<_> = learned.grants.resources.iter().flat_map(|grant| grant.namespaces.clone()).collect();
    assert_eq!((namespaces, learned.denied), (vec!["blue".to_owned(), "green".to_owned()], Grants::default()));
}

#[test]
fn learned_addresses_are_narrowed_to_their_folder_within_the_manifest() {
    let granted = grants(&json!({"http": [
        {"urls": ["https://api.example.com/v1/*"], "methods": ["*"], "headers": {"x-key": {"secret": "key"}}},
        {"urls": ["https://one.example.com/exact"], "methods": ["GET"], "addresses": ["private"]},
        {"urls": ["https://never.example.com/*"]}
    ]}));
    let http = |method: &str, url: &str| Attempt::Http { method: method.to_owned(), url: url.to_owned() };
    let asks = [
        http("POST", "https://api.example.com/v1/items/7?all=1"),
        http("GET", "https://one.example.com/exact"),
        http("GET", "http://127.0.0.1:8080/metrics"),
    ];
    let learned = granted.learn(&seen(&granted, asks));
    let wanted = json!({"http": [
        {"urls": ["https://api.example.com/v1/items/*"], "methods": ["POST"], "headers": {"x-key": {"secret": "key"}}},
        {"urls": ["https://one.example.com/exact"], "methods": ["GET"], "addresses": ["private"]}
    ]});
    assert_eq!(learned.grants, grants(&wanted));
    let denied =
        json!({"http": [{"urls": ["http://127.0.0.1:8080/*"], "methods": ["GET"], "addresses": ["loopback"]}]});
    assert_eq!(learned.denied, grants(&denied));
    assert_eq!(learned.unused, ["http[2]: https://never.example.com/*"]);
}

fn texts(all: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    subsequence(all, 1..=2).prop_map(|texts| texts.into_iter().map(str::to_owned).collect())
}

fn verb() -> impl Strategy<Value = Verb> {
    select(&[Verb::Get, Verb::List, Verb::Delete][..])
}

prop_compose! {
    fn line()(
        kinds in texts(&["apps/A", "apps/B", "apps/*", "*"]),
        verbs in prop::collection::vec(prop_oneof![verb(), Just(Verb::Any)], 1..3),
        namespaces in texts(&["a", "ab", "a*", "*b", "*", ""]),
        names in texts(&["x", "xy", "x*", "*"]),
    ) -> ResourceGrant {
        ResourceGrant { kinds, verbs, namespaces, names }
    }
}

prop_compose! {
    fn ask()(
        verb in verb(),
        kind in select(&["A", "B", "C"][..]),
        namespace in prop_oneof![select(&["a", "ab", "b", "abb", ""][..]).prop_map(str::to_owned), "a[0-9]{1,2}b"],
        name in prop_oneof![select(&["x", "xy", "y"][..]).prop_map(str::to_owned), "x[0-9]{1,2}"],
        of_all in any::<bool>(),
    ) -> Attempt {
        let kind = Kind::new("apps", "v1", kind);
        match (verb, of_all) {
            (Verb::List, true) => Attempt::Resources { verb, kind, namespace: None, name: None },
            (Verb::List, false) => Attempt::Resources { verb, kind, namespace: Some(namespace), name: None },
            _ => Attempt::Resource { verb, key: Key::new(kind, &namespace, &name) },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn learned_grants_allow_all_allowed_accesses_and_nothing_ungranted(
        resources in prop::collection::vec(line(), 0..4),
        asks in prop::collection::vec(ask(), 0..120),
        others in prop::collection::vec(ask(), 40),
    ) {
        let granted = Grants { resources, ..Grants::default() };
        let learned = granted.learn(&seen(&granted, asks.clone()));
        for request in asks.iter().filter_map(Attempt::request) {
            if granted.allows(&request) {
                prop_assert!(learned.grants.allows(&request), "{request:?} of {:?}", learned.grants);
            } else if !granted.allows_some(&request) {
                let both = Grants { resources: learned.denied.resources.clone(), ..Grants::default() };
                prop_assert!(both.allows(&request), "{request:?} of {both:?}");
            }
        }
        for request in asks.iter().chain(&others).filter_map(Attempt::request) {
            prop_assert!(!learned.grants.allows(&request) || granted.allows(&request), "{request:?} of {learned:?}");
        }
        let again = learned.grants.learn(&seen(&learned.grants, asks.iter().filter(|ask| {
            ask.request().is_some_and(|request: AccessRequest<'_>| granted.allows(&request))
        }).cloned()));
        prop_assert_eq!(again.denied, Grants::default(), "with what was learned, nothing is denied");
    }
}
