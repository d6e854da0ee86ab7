use std::time::Duration;

use super::{RECONNECT_BACKOFF, decode, reconnect_delay, sequence};
use crate::errors::RequestError;
use crate::protocol::AccountInfo;

#[test]
fn waits_before_a_new_connection_grow_and_have_bounds() {
    let (first, longest) = (RECONNECT_BACKOFF.first, RECONNECT_BACKOFF.longest);
    assert_eq!(reconnect_delay(1, 0.0), Duration::ZERO, "the first attempt may be at once");
    assert_eq!(reconnect_delay(1, 1.0), first);
    for attempts in 1..1000 {
        for jitter in [0.0, 0.3, 1.0] {
            let wait = reconnect_delay(attempts, jitter);
            assert!(wait <= longest, "{attempts}: {wait:?}");
            assert!(attempts == 1 || wait >= first / 2, "{attempts}: {wait:?}");
        }
    }
    assert!(reconnect_delay(20, 0.0) >= longest / 4);
}

#[test]
fn an_answer_that_cannot_be_read_leaves_the_outcome_open() {
    assert_eq!(sequence(br#"{"stream":"KV_b","seq":7}"#), Ok(7));
    assert_eq!(sequence(br#"{"stream":"KV_b","seq":7,"duplicate":true}"#), Ok(7));
    for wrong in ["", "{", "[]", "{}", r#"{"seq":0}"#, r#"{"seq":"7"}"#] {
        assert!(matches!(sequence(wrong.as_bytes()), Err(failure) if failure.leaves_outcome_open()), "{wrong}");
    }
    let refused =
        sequence(br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"seq":0}"#);
    assert!(matches!(refused, Err(failure) if failure.is_wrong_sequence()));
}

#[test]
fn an_answer_is_read_as_far_as_it_is_known() {
    let info: AccountInfo = decode(br#"{"memory":0,"api":{"level":5,"total":1},"new":{}}"#).expect("an answer");
    assert_eq!(info.api.level, 5);
    let refused = decode::<AccountInfo>(br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#);
    assert!(matches!(refused, Err(failure) if failure.is_no_bucket()));
    assert!(matches!(decode::<AccountInfo>(b"no json"), Err(RequestError::Silent(_))));
}
