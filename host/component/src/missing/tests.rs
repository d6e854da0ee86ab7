use super::*;

fn grants(text: &str) -> Grants {
    serde_json::from_str(text).unwrap()
}

#[test]
fn all_ungranted_verbs_are_reported_at_once_with_the_missing_lines() {
    let kind = Kind::new("demo.dev", "v1", "Web");
    let verbs = [Verb::Get, Verb::Create, Verb::Delete];
    let of = |text: &str| missing(&verbs, &grants(text), &kind);
    let text = of(r#"{"resources": [{"kinds": ["Pod"], "verbs": ["get"]}]}"#).unwrap();
    assert!(text.starts_with("no grant for create, delete, which"), "{text}");
    let lines = text.split_once('\n').unwrap().1;
    let lines = lines.replace("grants:\n  resources:\n    - ", "");
    assert_eq!(lines, "{kinds: [demo.dev/Web], verbs: [create, delete], namespaces: [\"*\"]}");
    assert_eq!(of(r#"{"resources": [{"kinds": ["Pod"], "verbs": ["*"]}]}"#), None);
    assert_eq!(missing(&[], &Grants::default(), &kind), None);
}

#[test]
fn importing_the_whole_interface_asks_for_no_grant() {
    let functions = |left_out: &str| -> Vec<(String, String)> {
        let known = FIRST_VERBS.iter().filter(|known| known.1 != left_out);
        known.map(|known| (known.0.to_owned(), known.1.to_owned())).collect()
    };
    assert_eq!(used(&functions("")), []);
    assert_eq!(used(&functions("follow")), [], "whichever functions of other interfaces there are");
    let without_delete = used(&functions("delete"));
    assert!(without_delete.contains(&Verb::Create) && !without_delete.contains(&Verb::Delete), "{without_delete:?}");
    assert_eq!(used(&[("store".into(), "get".into()), ("store".into(), "list".into())]), [Verb::Get, Verb::List]);
    let later = LATER_VERBS.map(|known| (known.0.to_owned(), known.1.to_owned()));
    let verbs = [Verb::Get, Verb::List, Verb::Delete];
    assert_eq!(used(&later), verbs, "a live read, or a deletion with a time, needs the verb of the plain one");
    assert_eq!(used(&[functions(""), later.to_vec()].concat()), []);
}

#[test]
fn every_verb_of_grants_is_needed_by_some_import() {
    for capability in crate::grants::Capability::ALL {
        let crate::grants::Capability::Resources(verb) = capability else { continue };
        assert!(FIRST_VERBS.iter().any(|known| known.2 == verb), "{verb}");
    }
}
