use homeostat_store::Error;

use super::{RequestError, ServerError};

fn refused(err_code: u64, description: &str) -> RequestError {
    RequestError::Refused(ServerError { err_code, description: description.into() })
}

#[test]
fn codes_of_the_server_become_errors_of_the_store() {
    let text = |failure: RequestError| failure.into_error("b", "write of v1/Pod a/b").to_string();
    for (failure, expected) in [
        (refused(10059, "stream not found"), "there is no bucket \"b\""),
        (refused(10039, "x"), "JetStream is off"),
        (refused(10076, "x"), "JetStream is off"),
        (refused(10077, "maximum bytes exceeded"), "the bucket is full: \"maximum bytes exceeded\""),
        (refused(10002, "resource limits exceeded for account"), "the account has no room: \"resource limits"),
        (refused(10023, "insufficient resources"), "the server has no room: \"insufficient resources\""),
        (refused(10047, "insufficient storage resources available"), "the server has no room"),
        (refused(10008, "\u{1b}[2J"), r#""write of v1/Pod a/b" with "\u{1b}[2J" (code 10008)"#),
        (RequestError::NoResponders, "no bucket \"b\""),
        (RequestError::Away("gone".into()), "the store is unavailable: gone"),
    ] {
        let told = text(failure.clone());
        assert!(told.contains(expected), "{failure:?}: {told}");
        assert!(matches!(failure.into_error("b", "x"), Error::Unavailable { .. }));
    }
    assert!(matches!(RequestError::Forbidden("no".into()).into_error("b", "x"), Error::Forbidden { .. }));
    assert!(
        refused(10054, "message size exceeds maximum allowed").is_too_large() && RequestError::TooLarge.is_too_large()
    );
}

#[test]
fn only_some_failures_leave_the_outcome_of_a_write_open() {
    for (failure, is_open) in [
        (RequestError::Silent("timed out".into()), true),
        (refused(10077, "store closed"), true),
        (refused(10158, "message id in flight"), true),
        (refused(10077, "maximum bytes exceeded"), false),
        (refused(10071, "wrong last sequence: 7"), false),
        (RequestError::Away("disconnected".into()), false),
        (RequestError::NoResponders, false),
        (RequestError::TooLarge, false),
    ] {
        assert_eq!(failure.leaves_outcome_open(), is_open, "{failure:?}");
    }
}

#[test]
fn both_codes_of_a_conflict_are_known() {
    assert!(refused(10071, "wrong last sequence: 7").is_wrong_sequence());
    assert!(refused(10164, "wrong last sequence").is_wrong_sequence());
    assert!(!refused(10060, "expected stream does not match").is_wrong_sequence());
}
