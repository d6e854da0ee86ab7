use homeostat_store::Error;

use super::*;

#[test]
fn every_refusal_of_the_store_has_the_code_and_reason_that_clients_expect() {
    let cases = [
        (Error::NotFound { what: "x".into() }, 404, "NotFound"),
        (Error::Invalid { path: "spec.a".into(), reason: "no".into() }, 422, "Invalid"),
        (Error::Closed, 503, "ServiceUnavailable"),
        (Error::Unavailable { reason: "gone".into() }, 503, "ServiceUnavailable"),
    ];
    for (error, code, reason) in cases {
        let document = Failure::from(error).document();
        assert_eq!((document["code"].as_u64(), document["reason"].as_str()), (Some(code), Some(reason)));
        assert_eq!(document["status"], "Failure");
    }
}

#[test]
fn an_invalid_document_names_its_field() {
    let failure = Failure::from(Error::Invalid { path: "spec.a".into(), reason: "must be a number".into() });
    assert_eq!(failure.document()["details"]["causes"][0]["field"], "spec.a");
}

#[test]
fn refusal_names_its_target() {
    let target = Target {
        group: "apps",
        version: "v1",
        namespace: None,
        plural: "deployments",
        name: Some("web"),
        subresource: None,
    };
    let details = Failure::not_found("no").about(&target).document()["details"].clone();
    assert_eq!(details, json!({ "group": "apps", "kind": "deployments", "name": "web" }));
}
