use homeostat_store::{Key, Kind, LabelRequirement, Revision};

use super::{from_key, from_precondition, from_selector, to_error, to_key};
use crate::bindings::types as wit;
use crate::effect::StoreError;

fn wit_key(namespace: &str, name: &str) -> wit::Key {
    let kind = wit::Kind { group: "apps".into(), version: "v1".into(), name: "Deployment".into() };
    wit::Key { kind, namespace: namespace.into(), name: name.into() }
}

fn path_of<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result.unwrap_err() {
        StoreError::Invalid(text) => text.split(':').next().unwrap_or_default().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_survive_conversion_to_the_contract_and_back() {
    let own = Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web");
    assert_eq!(from_key(to_key(&own)).unwrap(), own);
}

#[test]
fn a_key_out_of_bounds_is_invalid_and_names_the_field() {
    assert_eq!(path_of(from_key(wit_key("default", ""))), "name");
    assert_eq!(path_of(from_key(wit_key("default", &"n".repeat(254)))), "name");
    assert_eq!(path_of(from_key(wit_key(&"n".repeat(64), "web"))), "namespace");
    let mut long = wit_key("default", "web");
    long.kind.group = "g".repeat(254);
    assert_eq!(path_of(from_key(long)), "kind.group");
    let mut nameless = wit_key("default", "web");
    nameless.kind.name = String::new();
    assert_eq!(path_of(from_key(nameless)), "kind.name");
    assert!(from_key(wit_key("", &"n".repeat(253))).is_ok());
}

#[test]
fn every_label_requirement_has_its_counterpart() {
    let pair = || ("a".to_owned(), "b".to_owned());
    let many = || ("a".to_owned(), vec!["b".to_owned()]);
    let labels = vec![
        wit::LabelRequirement::Equals(pair()),
        wit::LabelRequirement::NotEquals(pair()),
        wit::LabelRequirement::OneOf(many()),
        wit::LabelRequirement::NoneOf(many()),
        wit::LabelRequirement::Exists("a".into()),
        wit::LabelRequirement::Absent("a".into()),
    ];
    let own = from_selector(wit::Selector { namespace: None, labels, fields: Vec::new(), owner: None }).unwrap();
    let texts: Vec<String> = own.labels.iter().map(LabelRequirement::to_string).collect();
    assert_eq!(texts, ["a=b", "a!=b", "a in (b)", "a notin (b)", "a", "!a"]);
}

#[test]
fn a_selector_beyond_the_bounds_is_invalid() {
    let labels = vec![wit::LabelRequirement::Exists("a".into()); 65];
    assert_eq!(
        path_of(from_selector(wit::Selector { namespace: None, labels, fields: Vec::new(), owner: None })),
        "labels"
    );
}

#[test]
fn a_malformed_revision_is_invalid() {
    let with = |text: &str| from_precondition(wit::Precondition { uid: None, revision: Some(text.to_owned()) });
    assert_eq!(with("17").unwrap().revision, Some(Revision(17)));
    assert_eq!(path_of(with("")), "precondition.revision");
    assert_eq!(path_of(with("-1")), "precondition.revision");
}

#[test]
fn errors_keep_their_text_in_the_contract() {
    let wit::StoreError::Forbidden(text) = to_error(StoreError::Forbidden("this grant".into())) else {
        panic!("another error came out");
    };
    assert_eq!(text, "this grant");
}
