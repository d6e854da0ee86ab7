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
fn a_selector_that_cannot_be_kept_is_refused() {
    for (labels, fields) in [(Some("a in"), None), (None, Some("metadata.name!=a")), (None, Some("metadata.name"))] {
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
    let params = Params { limit: Some(0), next: Some(String::new()), ..Params::default() };
    let query = params.query(Kind::new("", "v1", "Pod"), None).unwrap();
    assert_eq!((query.limit, query.from), (None, None));
}

#[test]
fn a_watch_without_a_revision_begins_with_what_is_there() {
    for text in [None, Some(""), Some("0")] {
        let params = Params { resource_version: text.map(str::to_owned), ..Params::default() };
        assert_eq!(params.after().unwrap(), None);
    }
    let params = Params { resource_version: Some("17".into()), ..Params::default() };
    assert_eq!(params.after().unwrap(), Some(Revision(17)));
}

#[test]
fn the_query_of_a_deletion_goes_before_its_body() {
    let params = Params { propagation_policy: Some("Orphan".into()), ..Params::default() };
    let deletion = Deletion::read(br#"{"propagationPolicy": "Foreground"}"#, &params).unwrap();
    assert!(matches!(deletion.propagation().unwrap(), Propagation::Orphan));
}

#[test]
fn a_dry_run_is_all_or_an_error() {
    let params = |what: &str| Params { dry_run: Some(what.into()), ..Params::default() };
    assert!(params("All").is_dry_run().unwrap());
    assert!(!params("").is_dry_run().unwrap());
    assert_eq!(params("Some").is_dry_run().unwrap_err().code(), 400);
    let deletion = |body: &str| Deletion::read(body.as_bytes(), &Params::default()).unwrap();
    assert!(deletion(r#"{"dryRun": ["All"]}"#).is_dry_run().unwrap());
    assert!(!deletion("{}").is_dry_run().unwrap());
    assert_eq!(deletion(r#"{"dryRun": ["Server"]}"#).is_dry_run().unwrap_err().code(), 400);
}
