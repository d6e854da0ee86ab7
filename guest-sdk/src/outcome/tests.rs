use super::*;

fn wit(failure: Failure) -> wit::Failure {
    failure.into_wit()
}

#[test]
fn an_error_is_tried_again_with_backoff_and_tells_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("outside")]
    struct Outer(#[source] std::num::ParseIntError);

    let failure: Failure = Outer("x".parse::<u8>().unwrap_err()).into();
    assert_eq!(wit(failure.clone()).retry, wit::Retry::Backoff);
    assert_eq!(failure.message(), "outside: invalid digit found in string");
}

#[test]
fn a_document_that_does_not_fit_waits_for_its_change() {
    let failure: Failure = Error::Malformed { key: "v1/Pod a/b".to_owned(), reason: "spec: no".to_owned() }.into();
    assert_eq!(wit(failure).retry, wit::Retry::Never);
    let failure: Failure = Error::Forbidden("get on Secret".to_owned()).into();
    assert_eq!(failure.message(), "not granted: get on Secret");
    assert_eq!(wit(failure).retry, wit::Retry::Backoff);
}

#[test]
fn a_failure_can_ask_for_a_delay() {
    let failure = Failure::new("busy").after(Duration::from_micros(1500)).while_doing("asking");
    assert_eq!(wit(failure), wit::Failure { message: "asking: busy".to_owned(), retry: wit::Retry::After(2) });
}

#[test]
fn an_outcome_says_its_delay_in_milliseconds() {
    assert_eq!(Outcome::settled().into_wit(), wit::Outcome::Settled);
    assert_eq!(Outcome::again_after(Duration::ZERO).into_wit(), wit::Outcome::AgainAfter(0));
    assert_eq!(Outcome::again_after(Duration::from_millis(300)).into_wit(), wit::Outcome::AgainAfter(300));
}
