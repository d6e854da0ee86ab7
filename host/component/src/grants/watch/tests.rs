use homeostat_store::LabelRequirement;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::spec::{Changes, DuringDelay, Role, Watch};

fn grants(resources: Value) -> Grants {
    serde_json::from_value(json!({ "resources": resources })).unwrap()
}

fn declared(name: &str, namespaced: bool, keys_only: bool) -> KindDeclaration {
    let kind = Kind::new("demo.dev", "v1", name);
    KindDeclaration { kind, plural: format!("{}s", name.to_lowercase()), namespaced, keys_only, schema: None }
}

fn watch(mapping: Mapping) -> Watch {
    let of = declared("Part", true, false);
    Watch { name: "parts".into(), of, mapping, changes: Changes::All, role: Role::Tertiary }
}

/// A controller of apps, which are namespaced, with these watches.
fn spec(watches: Vec<Watch>) -> ControllerSpec {
    ControllerSpec {
        manages: declared("App", true, false),
        changes: Changes::All,
        watches,
        poll_every: None,
        resync_every: None,
        backoff: None,
        concurrency: None,
        during_delay: DuringDelay::RunNow,
    }
}

fn refusals(grants: &Grants, spec: &ControllerSpec) -> Vec<String> {
    let refused = grants.check_watches(spec).err();
    refused.into_iter().flat_map(|refused| refused.reasons).map(|reason| reason.to_string()).collect()
}

#[test]
fn watches_without_a_grant_are_refused_together_with_the_lines_that_grant_them() {
    let told = refusals(&Grants::default(), &spec(vec![watch(Mapping::SameName), watch(Mapping::Guest)]));
    let line =
        |kind: &str, verbs: &str| format!("    - {{kinds: [demo.dev/{kind}], verbs: [{verbs}], namespaces: [\"*\"]}}");
    let lines: Vec<&str> = told.iter().map(|reason| reason.lines().last().unwrap()).collect();
    assert_eq!(lines, [line("App", "watch"), line("Part", "watch"), line("Part", "watch, get")]);
    assert!(
        told[0].starts_with("it manages \"demo.dev/App\", whose changes its manifest does not let it watch"),
        "{}",
        told[0]
    );
    assert!(told[1].starts_with("its watch \"parts\" is of \"demo.dev/Part\""), "{}", told[1]);
    assert!(told[2].contains("its mapping reads documents"), "{}", told[2]);
}

#[test]
fn the_lines_that_a_refusal_proposes_are_sufficient() {
    let by_name = [Mapping::Owner, Mapping::SameName, Mapping::Label("a".into())];
    let by_content = [Mapping::Annotation("a".into()), Mapping::Field("/spec/a".into()), Mapping::Guest];
    let spec = spec(by_name.into_iter().chain(by_content).map(watch).collect());
    let mut granted = Grants::default();
    for reason in granted.check_watches(&spec).unwrap_err().reasons {
        let Reason::WatchWithoutGrant { kind, verbs, .. } = reason else { panic!("{reason}") };
        granted.resources.extend(grants(json!([{ "kinds": [kind], "verbs": verbs }])).resources);
    }
    assert_eq!(refusals(&granted, &spec), Vec::<String>::new());
}

#[test]
fn a_watch_that_is_granted_in_part_is_not_refused() {
    let granted = grants(json!([
        { "kinds": ["demo.dev/*"], "verbs": ["watch"], "namespaces": ["blue"], "names": ["web-*"] },
    ]));
    assert_eq!(refusals(&granted, &spec(vec![watch(Mapping::Owner)])), Vec::<String>::new());
}

#[test]
fn a_mapping_by_content_of_a_kind_that_may_be_watched_and_not_read_is_refused() {
    let watched = json!({ "kinds": ["demo.dev/*"], "verbs": ["watch"], "namespaces": ["team-*"] });
    let (label, annotation) = (Mapping::Label("a".into()), Mapping::Annotation("a".into()));
    for mapping in [label, annotation, Mapping::Field("/spec/password".into()), Mapping::Guest] {
        let spec = spec(vec![watch(mapping)]);
        let told = refusals(&grants(json!([watched])), &spec);
        assert!(told.len() == 1 && told[0].contains("needs `get` or `list` beside `watch`"), "{told:?}");
        let elsewhere = json!({ "kinds": ["demo.dev/Part"], "verbs": ["get"], "namespaces": ["blue"] });
        assert_eq!(
            refusals(&grants(json!([watched, elsewhere])), &spec).len(),
            1,
            "where it may be read it is not watched"
        );
        for verb in ["get", "list"] {
            let read = json!({ "kinds": ["demo.dev/Part"], "verbs": [verb], "namespaces": ["*-blue"] });
            assert_eq!(refusals(&grants(json!([watched, read])), &spec), Vec::<String>::new());
        }
    }
}

#[test]
fn a_grant_for_namespaces_covers_no_watch_of_a_kind_outside_of_them() {
    let mut spec = spec(Vec::new());
    spec.manages.namespaced = false;
    let within = |namespaces: &[&str]| {
        grants(json!([{ "kinds": ["demo.dev/App"], "verbs": ["watch"], "namespaces": namespaces }]))
    };
    assert_eq!(refusals(&within(&["blue"]), &spec).len(), 1);
    for namespaces in [&["*"], &[""]] {
        assert_eq!(refusals(&within(namespaces), &spec), Vec::<String>::new());
    }
    spec.manages.namespaced = true;
    assert_eq!(refusals(&within(&[""]), &spec).len(), 1);
}

#[test]
fn a_keys_only_kind_needs_no_grant_to_watch() {
    let mut spec = spec(Vec::new());
    spec.manages.keys_only = true;
    assert_eq!(refusals(&Grants::default(), &spec), Vec::<String>::new());
    assert_eq!(Grants::default().watch_needs(&spec), []);
}

#[test]
fn a_change_needs_watch_and_its_content_needs_get_or_list_too() {
    let part = |namespace: &str| Key::new(Kind::new("demo.dev", "v2", "Part"), namespace, "p");
    let granted = grants(json!([
        { "kinds": ["demo.dev/Part"], "verbs": ["watch"], "namespaces": ["blue", "green"] },
        { "kinds": ["demo.dev/Part"], "verbs": ["list"], "namespaces": ["green", "red"] },
    ]));
    let shown = |reveals| ["blue", "green", "red"].map(|namespace| granted.discloses(&part(namespace), reveals));
    assert_eq!(shown(Disclosure::Key), [true, true, false]);
    assert_eq!(shown(Disclosure::Content), [false, true, false]);
}

#[test]
fn a_selector_on_labels_fields_or_owner_needs_the_grant_to_read() {
    let select = |selector: Selector| Disclosure::of(&selector);
    assert_eq!(select(Selector { namespace: Some("blue".into()), ..Selector::default() }), Disclosure::Key);
    let labels = vec![LabelRequirement::Exists("a".into())];
    assert_eq!(select(Selector { labels, ..Selector::default() }), Disclosure::Content);
    let fields = vec![("/spec/password".into(), "a".into())];
    assert_eq!(select(Selector { fields, ..Selector::default() }), Disclosure::Content);
    assert_eq!(select(Selector { owner: Some("uid".into()), ..Selector::default() }), Disclosure::Content);
}

#[test]
fn learned_grants_contain_watches_that_saw_no_change() {
    let granted = grants(json!([
        { "kinds": ["demo.dev/App"], "verbs": ["watch", "get", "delete"], "namespaces": ["blue"] },
        { "kinds": ["*"], "verbs": ["watch", "list"] },
    ]));
    let spec = spec(vec![watch(Mapping::Guest)]);
    let seen = crate::grants::NeedsSnapshot { resources: granted.watch_needs(&spec), ..Default::default() };
    let learned = granted.learn(&seen);
    assert_eq!(refusals(&learned.grants, &spec), Vec::<String>::new(), "{:?}", learned.grants);
    assert!(learned.unused.iter().all(|unused| !unused.contains("watch")), "{:?}", learned.unused);
    assert!(learned.grants.resources.iter().all(|line| !line.verbs.contains(&Verb::Delete)), "{:?}", learned.grants);
}

fn pattern() -> impl Strategy<Value = String> {
    "[ab*]{0,4}"
}

fn line() -> impl Strategy<Value = ResourceGrant> {
    let verbs = prop::collection::vec(prop::sample::select(vec![Verb::Watch, Verb::Get, Verb::List, Verb::Any]), 1..3);
    let kinds = prop::sample::select(vec!["demo.dev/Part", "demo.dev/App", "*", "demo.dev/P*", "Pod"]);
    (kinds, verbs, prop::collection::vec(pattern(), 1..3), prop::collection::vec(pattern(), 1..3)).prop_map(
        |(kind, verbs, namespaces, names)| ResourceGrant { kinds: vec![kind.to_owned()], verbs, namespaces, names },
    )
}

proptest! {
    #[test]
    fn two_patterns_overlap_when_some_text_is_described_by_both(one in pattern(), other in pattern()) {
        fn texts(length: usize) -> Vec<String> {
            (0..length).fold(vec![String::new()], |texts, _| {
                let longer = texts.iter().flat_map(|text| ["", "a", "b"].map(|letter| format!("{text}{letter}")));
                longer.collect()
            })
        }
        // A pattern of four letters matches one text of four letters; with a star it has at most three other
        // letters. So texts of six letters suffice for both.
        let common = texts(6).iter().any(|text| pattern::matches_glob(&one, text) && pattern::matches_glob(&other, text));
        prop_assert_eq!(pattern::overlap(&one, &other), common);
    }

    /// `check_watches` accepts a watch exactly if it discloses some resource.
    #[test]
    fn a_component_is_refused_exactly_when_a_watch_of_it_could_bring_nothing(lines in prop::collection::vec(line(), 0..4), by_content in any::<bool>()) {
        let granted = Grants { resources: lines, ..Grants::default() };
        let mapping = if by_content { Mapping::Guest } else { Mapping::Owner };
        let mut spec = spec(vec![watch(mapping.clone())]);
        spec.manages.keys_only = true;
        let texts = ["", "a", "b", "aa", "ab", "ba", "bb", "aaa", "aba", "bab", "bbb", "abab", "baba", "aabb", "abba", "bbaa"];
        let part = |namespace: &str, name: &str| Key::new(spec.watches[0].of.kind.clone(), namespace, name);
        let shown = texts[1..].iter().any(|namespace| {
            texts.iter().any(|name| granted.discloses(&part(namespace, name), mapping.disclosure()))
        });
        // The sample of texts is small: the overlap may lie outside of it.
        prop_assert!(!shown || refusals(&granted, &spec).is_empty());
    }

    #[test]
    fn grants_for_kinds_decide_as_the_whole_grants_do(lines in prop::collection::vec(line(), 0..4), namespace in "[ab]{0,2}", name in "[ab]{1,2}") {
        let granted = Grants { resources: lines, ..Grants::default() };
        let kinds = ["Part", "App"].map(|name| Kind::new("demo.dev", "v1", name));
        let about = granted.for_kinds(&[&kinds[0], &kinds[1]]);
        for kind in &kinds {
            let key = Key::new(kind.clone(), &namespace, &name);
            for reveals in [Disclosure::Key, Disclosure::Content] {
                prop_assert_eq!(about.discloses(&key, reveals), granted.discloses(&key, reveals));
            }
        }
    }
}
