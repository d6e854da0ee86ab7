use homeostat_store::{Key, Kind};

use super::*;
use crate::grants::{Attempt, Grants, Needs};

const INJECTED: &str = r#""*"], verbs: ["*"], namespaces: ["*"]} #"#;

/// Parses the lines of a message into grants; none if it has no lines.
fn proposed(advice: &str) -> Grants {
    let Some(at) = advice.find("grants:\n") else { return Grants::default() };
    let manifest: serde_json::Value =
        serde_saphyr::from_str(&advice[at..]).unwrap_or_else(|error| panic!("{advice}: {error}"));
    serde_json::from_value(manifest["grants"].clone()).unwrap()
}

fn missing(group: &str, name: &str, namespace: Option<&str>) -> String {
    AccessRequest { verb: Verb::Get, kind: &Kind::new(group, "v1", name), namespace, name: None }.missing()
}

/// Texts that a guest may use in place of a name.
const HOSTILE: [&str; 12] = [
    INJECTED,
    "*",
    "Po*",
    "a]",
    "a, \"*\"",
    "a\n    - {kinds: [\"*\"], verbs: [\"*\"]}",
    "\u{202e}doP",
    "Pod\u{200b}",
    "a\u{2028}b\u{9b}2J",
    "a/b",
    " ",
    "'",
];

#[test]
fn a_proposed_grant_covers_the_refused_access_and_no_other() {
    for text in HOSTILE {
        for advice in [
            missing("", text, Some("default")),
            missing(text, "Pod", Some("default")),
            missing("apps", "Pod", Some(text)),
        ] {
            assert_eq!(proposed(&advice), Grants::default(), "{advice}");
            assert_eq!(homeostat_text::lines(&advice), advice, "something is hidden in it");
            assert_eq!(advice.lines().count(), 1, "{advice}");
        }
    }
    let good = proposed(&missing("apps", "Deployment", Some("default")));
    let kind = |name| Kind::new("apps", "v1", name);
    let allows = |name, namespace, verb| {
        good.allows(&AccessRequest { verb, kind: &kind(name), namespace: Some(namespace), name: Some("a") })
    };
    assert!(allows("Deployment", "default", Verb::Get));
    assert!(!allows("Deployment", "default", Verb::Delete));
    assert!(!allows("Deployment", "other", Verb::Get));
    assert!(!allows("Pod", "default", Verb::Get));
}

#[test]
fn a_proposed_grant_for_http_is_for_one_method_and_one_host() {
    for (method, url) in [
        ("*", "https://a.example/x"),
        ("GET, \"*\"", "https://a.example/x"),
        ("GET", "https://*/x"),
        ("GET", "https://*.example/x"),
        ("GET", "https://a.example:*/x"),
        ("GET", "https://a.example/*/x"),
        ("GET", INJECTED),
    ] {
        let advice = missing_http(method, url);
        assert_eq!(proposed(&advice), Grants::default(), "{advice}");
        assert_eq!(advice.lines().count(), 1, "{advice}");
    }
    let odd = "https://a.example/\"], methods: [POST]} -/x";
    let good = proposed(&missing_http("GET", odd));
    assert!(good.http_grant("GET", odd).is_some());
    assert!(good.http_grant("POST", odd).is_none());
    assert!(good.http_grant("GET", "https://a.example/other").is_none());
}

#[test]
fn grants_learned_from_denials_contain_no_pattern_of_the_guest() {
    let needs = Needs::default();
    let one = |kind: &Kind, namespace: &str| Attempt::Resource {
        verb: Verb::Get,
        key: Key::new(kind.clone(), namespace, "a"),
    };
    for text in HOSTILE {
        needs.record(&one(&Kind::new("", "v1", text), "default"), true);
        needs.record(&one(&Kind::new(text, "v1", "Pod"), "default"), true);
        needs.record(&one(&Kind::new("", "v1", "Pod"), text), true);
        needs.record(&Attempt::Http { method: text.to_owned(), url: "https://a.example/".to_owned() }, true);
    }
    let seen = needs.snapshot();
    assert!(seen.is_empty(), "{seen:?}");
    assert!(seen.more);
    needs.record(&one(&Kind::new("", "v1", "Pod"), "default"), true);
    assert_eq!(Grants::default().learn(&needs.snapshot()).denied.resources.len(), 1);
}

#[test]
fn a_kind_whose_name_is_a_pattern_gets_no_line() {
    for name in ["*", "Dep*", "a/b"] {
        assert!(resources(&Kind::new("apps", "v1", name), &[Verb::Watch]).starts_with("(none: "), "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn a_proposed_line_grants_its_kind_whatever_the_kinds_name(group in "\\PC{0,8}", name in proptest::prelude::any::<String>()) {
        let lines = resources(&Kind::new(&group, "v1", &name), &[Verb::Watch, Verb::Get]);
        let granted = proposed(&lines);
        for grant in &granted.resources {
            proptest::prop_assert_eq!(&grant.verbs, &[Verb::Watch, Verb::Get]);
            let kind = if group.is_empty() { name.clone() } else { format!("{group}/{name}") };
            proptest::prop_assert_eq!(&grant.kinds, &[kind]);
        }
    }
}
