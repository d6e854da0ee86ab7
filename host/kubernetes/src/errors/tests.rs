use homeostat_store::schema::{Reason, VIOLATIONS_MAX};
use homeostat_store::{Error, FieldConflict, Key, Kind};
use http::StatusCode;
use serde_json::{Value, json};

use super::{RequestError, Status, TEXT_BYTES_MAX};

fn key() -> Key {
    Key::new(Kind::new("example.dev", "v1", "Widget"), "a", "b")
}

fn error(code: u16, verb: &str, body: &Value) -> Error {
    let status = Status::parse(StatusCode::from_u16(code).unwrap(), body.to_string().as_bytes());
    RequestError::Refused(Box::new(status)).about_key(verb, &key())
}

#[test]
fn each_code_has_an_error() {
    let message = json!({"kind": "Status", "message": "no"});
    let error = |code| error(code, "update", &message);
    assert!(matches!(error(404), Error::NotFound { what } if what == "example.dev/v1/Widget a/b"));
    assert!(matches!(error(400), Error::Invalid { reason, .. } if reason == "the server answered 400: \"no\""));
    assert!(matches!(error(422), Error::Invalid { .. }));
    assert!(matches!(error(403), Error::Forbidden { what, .. } if what == "update of example.dev/v1/Widget a/b"));
    assert!(matches!(error(401), Error::Unavailable { .. }), "bad credentials hold up the whole store");
    assert!(matches!(error(405), Error::Unsupported { .. }));
    assert!(matches!(error(415), Error::Unsupported { .. }));
    assert!(matches!(error(410), Error::Expired { .. }));
    assert!(matches!(error(413), Error::TooLarge { .. }));
    assert!(matches!(error(409), Error::Conflict { current: None, .. }));
    for code in [429, 500, 502, 503, 504] {
        assert!(matches!(error(code), Error::Unavailable { .. }), "{code}");
    }
}

#[test]
fn an_apply_with_unknown_fields_names_them_and_any_other_misfit_is_invalid() {
    let unknown = ".x: field not declared in schema";
    let one = format!("failed to create typed patch object (n/a; v1, Kind=Pod): {unknown}");
    let two = format!(
        "failed to create typed patch object (n/a; v1, Kind=Pod): errors:\n  {unknown}\n  \
         .a[k=\"(b): c\"].d: field not declared in schema"
    );
    for (message, fields) in [(one, vec!["x"]), (two, vec!["a[k=\"(b): c\"].d", "x"])] {
        let fields = fields.into_iter().map(str::to_owned).collect();
        assert_eq!(error(500, "apply", &json!({ "message": message })), Error::UnknownFields { fields });
    }
    for message in [
        // The fields that another manager has applied cannot be converted.
        unknown.to_owned(),
        format!(
            "failed to create typed patch object (n/a; v1, Kind=Pod): errors:\n  {unknown}\n  .y: expected map, got 1"
        ),
        "failed to create typed patch object (n/a; v1, Kind=Pod)".to_owned(),
    ] {
        assert!(matches!(error(500, "apply", &json!({ "message": message })), Error::Invalid { .. }), "{message}");
    }
}

#[test]
fn a_strict_patch_names_the_unknown_fields_and_not_the_text_of_the_document() {
    let message = "Invalid value: \"{\\\"spec\\\":\\\"unknown field \\\\\"x\\\\\"\\\"}\": strict decoding error: \
                   unknown field \"metadata.colour\", unknown field \"spec.size\"";
    let causes = json!([{"reason": "FieldValueInvalid", "field": "patch", "message": message}]);
    let fields = vec!["metadata.colour".to_owned(), "spec.size".to_owned()];
    let body = json!({"reason": "Invalid", "message": "is invalid", "details": {"causes": causes}});
    assert_eq!(error(422, "patch", &body), Error::UnknownFields { fields });
}

#[test]
fn a_document_that_etcd_refuses_is_too_large() {
    for message in [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3144092 vs. 2097152)",
    ] {
        assert!(matches!(error(500, "create", &json!({ "message": message })), Error::TooLarge { .. }), "{message}");
    }
}

#[test]
fn only_a_create_can_find_that_the_resource_exists() {
    let body = json!({"reason": "AlreadyExists"});
    assert!(matches!(error(409, "create", &body), Error::AlreadyExists { .. }));
    assert!(matches!(error(409, "patch", &body), Error::Conflict { .. }));
}

#[test]
fn conflicts_of_an_apply_name_managers_and_fields() {
    let causes = json!([
        {"reason": "FieldManagerConflict", "field": ".spec.replicas",
         "message": "conflict with \"kubectl \\\"x\\\"\" using apps/v1 at 2026-01-02T03:04:05Z"},
        {"reason": "FieldManagerConflict", "field": ".status.phase",
         "message": "conflict with \"a\" with subresource \"status\" using v1"},
        {"reason": "FieldManagerConflict", "field": ".spec.x", "message": "conflict with \"b\""},
    ]);
    let body = json!({"reason": "Conflict", "details": {"causes": causes}});
    let Error::ApplyConflict { conflicts, .. } = error(409, "apply", &body) else { panic!() };
    let conflict = |field: &str, manager: &str, version: Option<&str>, subresource: Option<&str>| FieldConflict {
        field: field.to_owned(),
        manager: manager.to_owned(),
        version: version.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
    };
    assert_eq!(
        conflicts,
        [
            conflict(".status.phase", "a", Some("v1"), Some("status")),
            conflict(".spec.x", "b", None, None),
            conflict(".spec.replicas", "kubectl \"x\"", Some("apps/v1"), None),
        ]
    );
}

#[test]
fn invalid_fields_are_told_one_by_one_and_bounded() {
    let cause = json!({"reason": "FieldValueInvalid", "field": "spec.size",
        "message": "Invalid value: \"x\": must be a number"});
    let body = json!({"reason": "Invalid", "details": {"causes": vec![cause; 100]}});
    let Error::InvalidFields { violations, .. } = error(422, "create", &body) else { panic!() };
    assert_eq!(violations.len(), VIOLATIONS_MAX);
    assert_eq!((violations[0].path.as_str(), violations[0].reason), ("spec.size", Reason::Invalid));
    assert_eq!(violations[0].to_string(), "spec.size: Invalid value: \"x\": must be a number");
}

#[test]
fn unknown_fields_of_a_strict_request_are_named() {
    let text = "Widget in version \"v1\" cannot be handled: strict decoding error: \
        unknown field \"spec.color\", unknown field \"spec.size\"";
    let Error::UnknownFields { fields } = error(400, "create", &json!({"message": text})) else { panic!() };
    assert_eq!(fields, ["spec.color", "spec.size"]);
}

#[test]
fn a_wrong_uid_of_a_patch_is_a_conflict() {
    let status =
        |code: u16, body: Value| Status::parse(StatusCode::from_u16(code).unwrap(), body.to_string().as_bytes());
    let immutable = json!({"reason": "Invalid", "details": {"causes": [{"field": "metadata.uid"}]}});
    let test =
        json!({"reason": "Invalid", "message": "the server rejected our request due to an error in our request"});
    assert!(status(422, immutable.clone()).is_conflict(true));
    assert!(!status(422, immutable).is_conflict(false), "without a precondition it is the caller's field");
    assert!(status(422, test).is_conflict(true));
    assert!(!status(422, json!({"details": {"causes": [{"field": "spec.x"}]}})).is_conflict(true));
    assert!(status(409, json!({"reason": "Conflict"})).is_conflict(false));
    assert!(!status(409, json!({"reason": "AlreadyExists"})).is_conflict(true));
}

#[test]
fn an_answer_that_is_no_status_is_quoted_and_shortened() {
    let page = format!("<html>\u{1b}[31m{}", "é".repeat(TEXT_BYTES_MAX));
    let status = Status::parse(StatusCode::BAD_GATEWAY, page.as_bytes());
    let text = status.text();
    assert!(text.starts_with(r#"the server answered 502: "<html>\u{1b}[31m"#), "{text}");
    assert!(text.len() < TEXT_BYTES_MAX + 100, "{}", text.len());
}
