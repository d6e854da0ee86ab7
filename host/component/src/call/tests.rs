use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{delay, failure, keys, new_call};
use crate::bindings::types as wit;
use crate::call_context::CallContext;
use crate::effect::{Answer, Call, Effect, Effects, EntryPoint};
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::outcome::{Fault, Outcome, Retry};

struct Silent;

#[async_trait]
impl Effects for Silent {
    async fn perform(&self, _: &Call, _: Effect) -> Answer {
        Answer::Unit
    }
}

fn port() -> CallContext {
    port_with(Limits::default())
}

fn port_with(limits: Limits) -> CallContext {
    CallContext::new(new_call(&Arc::from("test"), EntryPoint::Poll, None), &limits, Arc::new(Silent))
}

fn key(name: &str) -> wit::Key {
    let kind = wit::Kind { group: String::new(), version: "v1".into(), name: "Pod".into() };
    wit::Key { kind, namespace: "default".into(), name: name.into() }
}

#[test]
fn a_requested_delay_is_capped_at_a_year() {
    assert_eq!(delay(u64::MAX), Outcome::DELAY_MAX);
    assert_eq!(delay(31_536_000_000), Outcome::DELAY_MAX);
    assert_eq!(delay(7), Duration::from_millis(7));
}

#[test]
fn a_failure_message_is_truncated_at_its_bound() {
    let long = wit::Failure { message: "é".repeat(5000), retry: wit::Retry::Never };
    let Fault::Failure { message, retry } = failure(long) else { panic!("a failure stays a failure") };
    assert_eq!(message.len(), 4096);
    assert_eq!(retry, Retry::Never);
}

#[test]
fn too_many_keys_from_a_guest_hit_a_limit() {
    let port = port();
    assert_eq!(keys(&port, Ok(vec![key("a"), key("b")]), 2).unwrap().unwrap().len(), 2);
    keys(&port, Ok(vec![key("a"), key("b"), key("c")]), 2).unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Result);
}

#[test]
fn keys_from_a_guest_with_too_many_bytes_hit_the_same_limit() {
    // `v1`, `Pod`, `default`, and the name.
    let port = port_with(Limits { result_bytes_max: 2 * (12 + 100), ..Limits::default() });
    let long = || key(&"a".repeat(100));
    assert_eq!(keys(&port, Ok(vec![long(), long()]), 3).unwrap().unwrap().len(), 2);
    keys(&port, Ok(vec![long(), long(), key("")]), 3).unwrap_err();
    assert_eq!(port.first_hit().unwrap().limit, LimitName::Result);
}

#[test]
fn a_malformed_key_is_a_trap_that_names_it() {
    let error = keys(&port(), Ok(vec![key("a"), key("")]), 10).unwrap_err();
    assert!(error.to_string().contains("key 1 of the answer: invalid: name: must not be empty"), "{error}");
}
