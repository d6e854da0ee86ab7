//! Tests of the rules of API services, requests for certificates and runtimes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{certificate_request_defaults, request_of, requests_group};
use crate::rules::tests::support::check;

fn service() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v1.nothing.dev" },
        "spec": {
            "group": "nothing.dev", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": { "name": "s", "namespace": "n", "port": 443 },
        },
    })
}

/// Returns a sequence of this many zero bytes as a request in PEM, in base64.
fn request(length: u8) -> String {
    let der = [&[0x30, length][..], &vec![0; length.into()]].concat();
    let body = STANDARD.encode(der);
    STANDARD.encode(format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"))
}

fn certificate_request() -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": "c" },
        "spec": { "request": request(7), "signerName": "example.com/a.b", "usages": ["client auth"] },
    })
}

#[test]
fn an_api_service_is_named_by_its_version_and_group() {
    check(
        service,
        &[
            ("/spec/version", json!("V1"), &["metadata.name FieldValueInvalid", "spec.version FieldValueInvalid"]),
            ("/spec/group", json!("other.dev"), &["metadata.name FieldValueInvalid"]),
            ("/spec/groupPriorityMinimum", json!(0), &["spec.groupPriorityMinimum FieldValueInvalid"]),
            ("/spec/versionPriority", json!(1001), &["spec.versionPriority FieldValueInvalid"]),
            ("/spec/service/name", json!(""), &["spec.service.name FieldValueRequired"]),
            ("/spec/service", json!(null), &["spec.insecureSkipTLSVerify FieldValueInvalid"]),
            ("/spec/caBundle", json!("eA=="), &["spec.insecureSkipTLSVerify FieldValueInvalid"]),
        ],
    );
}

#[test]
fn a_request_for_a_certificate_has_a_whole_request_known_usages_and_a_signer() {
    check(
        certificate_request,
        &[
            ("/spec/request", json!("eA=="), &["spec.request FieldValueInvalid"]),
            ("/spec/usages", json!([]), &["spec.usages FieldValueRequired"]),
            ("/spec/usages", json!(["client auth", "client auth"]), &["spec.usages[1] FieldValueDuplicate"]),
            ("/spec/signerName", json!("example.com"), &["spec.signerName FieldValueInvalid"]),
            ("/spec/signerName", json!("a/b/c"), &["spec.signerName FieldValueInvalid"]),
            ("/spec/signerName", json!("kubernetes.io/legacy-unknown"), &["spec.signerName FieldValueInvalid"]),
            ("/spec/expirationSeconds", json!(599), &["spec.expirationSeconds FieldValueInvalid"]),
        ],
    );
}

#[test]
fn a_request_for_a_certificate_never_changes() {
    let stored = certificate_request();
    let mut changed = certificate_request();
    changed["spec"]["usages"] = json!([]);
    certificate_request_defaults(&mut changed, Some(&stored));
    assert_eq!(changed, stored);
}

#[test]
fn a_request_in_pem_is_as_long_as_it_says() {
    for length in [0, 1, 0x7f] {
        assert!(request_of(&request(length)).is_ok(), "{length}");
    }
    let pem = |body: &[u8]| {
        let body = STANDARD.encode(body);
        STANDARD.encode(format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"))
    };
    assert!(request_of(&pem(&[&[0x30, 0x81, 200][..], &[0; 200]].concat())).is_ok());
    assert!(request_of(&pem(&[&[0x30, 0x82, 1, 0][..], &[0; 256]].concat())).is_ok());
    for broken in [&[][..], &[0x30], &[0x30, 2, 0], &[0x31, 1, 0], &[0x30, 0x82, 1, 0, 0], &[0x30, 0x84, 0, 0, 0, 0]] {
        assert!(request_of(&pem(broken)).is_err(), "{broken:?}");
    }
    assert!(request_of("").is_err() && request_of("not base64").is_err());
}

/// A request of `openssl req -new -subj /O=system:masters/CN=root`.
const OF_MASTERS: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIak1JR0tBZ0VBTUNneEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRw\
    dFlYTjBaWEp6TVEwd0N3WURWUVFEREFSeQpiMjkwTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFdWRobDhvNWFL\
    NkhvL0ZxOTVGUjRqbDBMCjFqUWlJdW52L2VpaDJJWjJ6WUlxLzhpY2ltMUYyRzdUSUNGNSsvckNlMC8zR3VBTGdlcHNvR3pFS2Mw\
    MW42QUEKTUFvR0NDcUdTTTQ5QkFNQ0EwZ0FNRVVDSVFDS09pYmdlSk1leW83OGVZQVJRMEtiQWVtMmo4N04vU1huQWxXZQpReDJM\
    SGdJZ1hiVGJhYnFMczQ0ekROQzFzZUFQbkZFTXJGSlF6cTdhNUxKbXRIbE5PNVE9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVF\
    U1QtLS0tLQo=";

#[test]
fn a_request_names_the_organizations_of_its_subject() {
    assert!(requests_group(OF_MASTERS, "system:masters"));
    for other in ["system:master", "masters", "root", ""] {
        assert!(!requests_group(OF_MASTERS, other), "{other}");
    }
    assert!(!requests_group(&request(7), "system:masters") && !requests_group("", "system:masters"));
}
