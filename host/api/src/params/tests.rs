use serde_json::json;

use super::*;

#[test]
fn a_selector_comes_from_labels_fields_and_the_path() {
    let params = Params {
        label_selector: Some("app=web".into()),
        field_selector: Some("metadata.name=a,status.phase==Running".into()),
        ..Params::default()
    };
    let selector = params.selector(Some("default")).unwrap();
    assert_eq!(selector.namespace.as_deref(), Some("default"));
    assert_eq!(selector.labels.len(), 1);
    let expected = [("/metadata/name", "a"), ("/status/phase", "Running")]
        .map(|(path, value)| (path.to_owned(), value.to_owned()));
    assert_eq!(selector.fields, expected);
}

#[test]
fn an_unsupported_selector_is_refused() {
    for (labels, fields) in [(Some("a in"), None), (None, Some("metadata.name"))] {
        let params = Params {
            label_selector: labels.map(str::to_owned),
            field_selector: fields.map(str::to_owned),
            ..Params::default()
        };
        let failure = params.selector(None).unwrap_err();
        assert_eq!(failure.code(), 400, "{labels:?} {fields:?}");
    }
}

#[test]
fn a_limit_of_zero_is_no_limit() {
    let params = Params { limit: Some("0".to_owned()), next: Some(String::new()), ..Params::default() };
    let query = params.query(Kind::new("", "v1", "Pod"), None).unwrap();
    assert_eq!((query.limit, query.from), (None, None));
}

#[test]
fn watch_without_a_revision_starts_with_current_resources() {
    for text in [None, Some(""), Some("0")] {
        let params = Params { resource_version: text.map(str::to_owned), ..Params::default() };
        assert_eq!(params.requested_revision().unwrap(), None);
    }
    let params = Params { resource_version: Some("17".into()), ..Params::default() };
    assert_eq!(params.requested_revision().unwrap(), Some(Revision(17)));
}

#[test]
fn a_deletion_is_read_from_its_body_or_else_from_its_query() {
    let params = Params { propagation_policy: Some("Orphan".into()), ..Params::default() };
    let propagation = |body| DeleteOptions::read(body, &params).unwrap().propagation(Propagation::Background).unwrap();
    assert_eq!(propagation(Some(json!({ "propagationPolicy": "Foreground" }))), Propagation::Foreground);
    for nothing in [None, Some(Value::Null)] {
        assert_eq!(propagation(nothing), Propagation::Orphan);
    }
}

#[test]
fn orphan_dependents_excludes_propagation_policy() {
    let read = |body: Value| DeleteOptions::read(Some(body), &Params::default()).unwrap();
    assert_eq!(
        read(json!({ "orphanDependents": true })).propagation(Propagation::Background).unwrap(),
        Propagation::Orphan
    );
    assert_eq!(
        read(json!({ "orphanDependents": false })).propagation(Propagation::Background).unwrap(),
        Propagation::Background
    );
    let both = json!({ "orphanDependents": true, "propagationPolicy": "Orphan" });
    assert_eq!(read(both).propagation(Propagation::Background).unwrap_err().code(), 422);
    assert_eq!(
        read(json!({ "propagationPolicy": "Sideways" })).propagation(Propagation::Background).unwrap_err().code(),
        422
    );
    let params = Params { orphan_dependents: Some("True".into()), ..Params::default() };
    assert_eq!(
        DeleteOptions::read(None, &params).unwrap().propagation(Propagation::Background).unwrap(),
        Propagation::Orphan
    );
}

#[test]
fn a_body_of_another_kind_is_no_deletion() {
    let read = |body: Value| DeleteOptions::read(Some(body), &Params::default());
    assert!(
        read(json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": null }))
            .is_ok()
    );
    assert_eq!(read(json!({ "kind": "Pod" })).unwrap_err().code(), 400);
    assert_eq!(read(json!([1])).unwrap_err().code(), 400);
}

#[test]
fn every_flag_but_0_and_false_is_on() {
    for yes in ["", "1", "t", "true", "TRUE", "yes", "f", "null", " false"] {
        assert!(BoolParam::from(yes).is_on(), "{yes:?}");
    }
    for no in ["0", "false", "False", "FALSE"] {
        assert!(!BoolParam::from(no).is_on(), "{no:?}");
    }
}

/// Returns the status codes of a list and a watch with these parameters; 0 if they are accepted.
fn refusals(revision: &str, asked: &str, initial: Option<bool>, next: &str) -> (u16, u16) {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let params = Params {
        resource_version: some(revision),
        resource_version_match: some(asked),
        send_initial_events: initial.map(BoolParam),
        next: some(next),
        ..Params::default()
    };
    let code = |checked: Result<(), Failure>| checked.map_or_else(|failure| failure.code(), |()| 0);
    (code(params.check_list()), code(params.check_watch()))
}

#[test]
fn an_invalid_resource_version_match_is_refused() {
    assert_eq!(refusals("7", "", None, ""), (0, 0));
    for known in ["Exact", "NotOlderThan"] {
        assert_eq!(refusals("7", known, None, ""), (0, 422), "{known}");
        assert_eq!(refusals("", known, None, ""), (422, 422), "{known}");
        assert_eq!(refusals("7", known, None, "token"), (422, 422), "{known}");
    }
    assert_eq!(refusals("0", "Exact", None, "").0, 422);
    for nonsense in ["exact", "Newest", "1"] {
        assert_eq!(refusals("7", nonsense, None, ""), (422, 422), "{nonsense}");
        assert_eq!(refusals("7", nonsense, Some(true), ""), (422, 422), "{nonsense}");
    }
    for initial in [true, false] {
        assert_eq!(refusals("7", "NotOlderThan", Some(initial), ""), (422, 0));
        assert_eq!(refusals("7", "Exact", Some(initial), ""), (422, 422));
        assert_eq!(refusals("7", "", Some(initial), ""), (422, 422));
    }
}

#[test]
fn a_dry_run_is_all_or_an_error() {
    let asked = |query: &str| Params::of(&format!("/?{query}").parse().unwrap()).unwrap().is_dry_run();
    assert!(asked("dryRun=All").unwrap() && asked("dryRun=All&limit=1&dryRun=All").unwrap());
    assert!(!asked("").unwrap() && !asked("dryRunning=All").unwrap());
    for (query, values) in
        [("dryRun=", r#"[""]"#), ("dryRun=Some", r#"["Some"]"#), ("dryRun=All&dryRun=%22", r#"["All","\""]"#)]
    {
        let failure = asked(query).unwrap_err();
        let cause = failure.document()["details"]["causes"][0]["message"].to_string();
        assert!(failure.code() == 422 && cause.contains(&values.escape_default().to_string()), "{query}: {cause}");
    }
    let deletion = |body: Value| DeleteOptions::read(Some(body), &Params::default()).unwrap();
    assert!(deletion(json!({ "dryRun": ["All"] })).is_dry_run().unwrap());
    assert!(!deletion(json!({})).is_dry_run().unwrap());
    assert_eq!(deletion(json!({ "dryRun": ["Server"] })).is_dry_run().unwrap_err().code(), 422);
}
