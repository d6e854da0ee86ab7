use proptest::prelude::*;

use super::*;

fn rule(pattern: &str, store: &str) -> Rule {
    Rule { pattern: pattern.parse().unwrap(), store: store.into(), view: View::Whole }
}

fn routes(rules: &[(&str, &str)]) -> Result<Routes, RouteError> {
    Routes::new(rules.iter().map(|(pattern, store)| rule(pattern, store)).collect())
}

fn kind(text: &str) -> Kind {
    let (api_version, name) = text.rsplit_once('/').unwrap();
    Kind::parse(api_version, name).unwrap()
}

fn store_of(routes: &Routes, text: &str) -> String {
    routes.of(&kind(text)).store.to_string()
}

#[test]
fn the_first_rule_that_matches_counts() {
    let routes = routes(&[("apps/Deployment", "a"), ("apps/*", "b"), ("v1/Pod", "a"), ("*/*", "c")]).unwrap();
    for (kind, store) in [
        ("apps/v1/Deployment", "a"),
        ("apps/v1beta1/Deployment", "a"),
        ("apps/v1/ReplicaSet", "b"),
        ("v1/Pod", "a"),
        ("v1/Secret", "c"),
        ("demo.dev/v1/Pod", "c"),
    ] {
        assert_eq!(store_of(&routes, kind), store, "{kind}");
    }
}

#[test]
fn a_kind_without_a_rule_lives_at_home() {
    let some = routes(&[("apps/Deployment", "a"), ("v1/*", "b")]).unwrap();
    assert_eq!(store_of(&some, "apps/v1/ReplicaSet"), HOME);
    assert_eq!(store_of(&some, "demo.dev/v1/Widget"), HOME);
    assert_eq!(store_of(&some, "v1/Secret"), "b");
    assert_eq!(store_of(&Routes::default(), "v1/Pod"), HOME);
}

#[test]
fn a_star_leaves_the_reserved_kinds_at_home() {
    let everything = routes(&[("*/*", "a")]).unwrap();
    let core = routes(&[("v1/*", "a"), ("apiextensions.k8s.io/*", "a")]).unwrap();
    for reserved in [
        "homeostat.dev/v1alpha1/Controller",
        "homeostat.dev/v2/AnyThing",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        "v1/Event",
    ] {
        assert!(is_reserved(&kind(reserved)));
        assert_eq!(store_of(&everything, reserved), HOME, "{reserved}");
        assert_eq!(store_of(&core, reserved), HOME, "{reserved}");
    }
    assert_eq!(store_of(&everything, "events.k8s.io/v1/Event"), "a");
    assert_eq!(store_of(&everything, "demo.homeostat.dev/v1/Widget"), "a");
}

#[test]
fn namespaces_move_only_by_name() {
    let named = [("v1/*", "a"), ("*/*", "b"), ("v1/Namespace", "c")];
    assert_eq!(store_of(&routes(&named[..2]).unwrap(), "v1/Namespace"), HOME);
    let named = routes(&named).unwrap();
    assert_eq!(store_of(&named, "v1/Namespace"), "c");
    assert_eq!(store_of(&named, "demo.dev/v1/Namespace"), "b");
    assert!(matches!(routes(&[("v1/Namespace", "a"), ("v1/Namespace", "b")]), Err(RouteError::Unreachable { .. })));
}

#[test]
fn a_rule_for_reserved_kinds_alone_is_refused() {
    for pattern in ["homeostat.dev/*", "homeostat.dev/Controller", "v1/Event"] {
        let error = routes(&[("apps/*", "b"), (pattern, "a")]).unwrap_err();
        assert_eq!(error, RouteError::Reserved { rule: 1, pattern: pattern.parse().unwrap() });
        assert!(routes(&[(pattern, HOME)]).is_ok(), "{pattern}");
    }
}

#[test]
fn a_rule_that_can_never_match_is_refused_and_names_the_earlier_one() {
    for (earlier, later) in [
        ("apps/Deployment", "apps/Deployment"),
        ("apps/*", "apps/Deployment"),
        ("apps/*", "apps/*"),
        ("*/*", "apps/*"),
        ("*/*", "v1/Pod"),
        ("*/*", "*/*"),
        ("v1/*", "v1/Pod"),
    ] {
        let error = routes(&[("demo.dev/*", "a"), (earlier, "a"), (later, "b")]).unwrap_err();
        assert!(
            matches!(&error, RouteError::Unreachable { rule: 2, earlier: 1, store, .. } if **store == *"a"),
            "{earlier} {later} {error}"
        );
        assert_eq!(error.to_string(), format!("{later} can never match: an earlier rule sends {earlier} to store a"));
    }
    assert!(routes(&[("apps/Deployment", "a"), ("apps/*", "b"), ("*/*", "c")]).is_ok());
}

#[test]
fn more_rules_than_the_bound_are_refused() {
    let many = |count: usize| (0..count).map(|at| rule(&format!("demo.dev/Kind{at}"), "a")).collect::<Vec<_>>();
    assert!(Routes::new(many(RULES_MAX)).is_ok());
    assert_eq!(Routes::new(many(RULES_MAX + 1)), Err(RouteError::TooMany));
}

#[test]
fn a_pattern_that_is_none_says_what_is_expected() {
    for (text, reason) in [
        ("Pod", "has no group"),
        ("", "has no group"),
        ("apps/v1/Deployment", "has a version"),
        ("*/Pod", "without its group"),
        ("apps/", "kind"),
        ("/Pod", "apiVersion"),
        ("apps/dep loyment", "kind"),
        ("APPS!/Pod", "apiVersion"),
        ("a/b/c/d", "has no group"),
    ] {
        let error = text.parse::<KindPattern>().unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("expected GROUP/KIND"), "{text:?}: {error}");
    }
}

#[test]
fn a_pattern_is_printed_as_it_is_written() {
    for text in ["*/*", "v1/*", "v1/Pod", "apps/*", "apps/Deployment"] {
        assert_eq!(text.parse::<KindPattern>().unwrap().to_string(), text);
    }
}

fn patterns() -> impl Strategy<Value = KindPattern> {
    let texts = ["*/*", "v1/*", "v1/Pod", "v1/Event", "apps/*", "apps/Pod", "apps/Job", "homeostat.dev/*"];
    proptest::sample::select(texts.to_vec()).prop_map(|text| text.parse().unwrap())
}

proptest! {
    #[test]
    fn every_accepted_rule_is_the_first_match_of_some_kind(
        chosen in proptest::collection::vec((patterns(), proptest::sample::select(vec!["a", "b", HOME])), 0..6)
    ) {
        let rules: Vec<Rule> =
            chosen.into_iter().map(|(pattern, store)| Rule { pattern, store: store.into(), view: View::Whole }).collect();
        if let Ok(routes) = Routes::new(rules.clone()) {
            for (at, rule) in rules.iter().enumerate() {
                let group = rule.pattern.group.clone().unwrap_or_else(|| "other.dev".to_owned());
                let kind = Kind::new(group, "v1", rule.pattern.kind.clone().unwrap_or_else(|| "Other".to_owned()));
                let first = routes.position(&kind);
                prop_assert!(first == Some(at) || is_reserved(&kind) && *rule.store == *HOME, "{rule:?} {first:?}");
            }
        }
    }
}
