use homeostat_component::LimitName;

use super::*;

fn failure(retry: Retry) -> Result<Outcome, Fault> {
    Err(Fault::Failure { message: "no luck".into(), retry })
}

#[test]
fn settled_leaves_the_queue() {
    assert!(matches!(settle(&Ok(Outcome::Settled)), (Next::Done, Label::Success)));
}

/// B6, B7: a requested delay clears the failures and is no failure; a delay of zero puts the key at the end
/// of the queue at once.
#[test]
fn again_after_is_not_an_error_and_zero_goes_to_the_tail() {
    let delay = Duration::from_secs(3);
    assert!(matches!(settle(&Ok(Outcome::AgainAfter(delay))), (Next::After(d), Label::RequeueAfter) if d == delay));
    assert!(matches!(settle(&Ok(Outcome::AgainAfter(Duration::ZERO))), (Next::Again, Label::Requeue)));
}

/// B5, B10: a failure is retried with backoff, and a success clears the failures; a failure that requests a
/// delay waits for the longer of delay and backoff.
#[test]
fn a_failure_is_retried_after_at_least_the_delay_that_it_requested() {
    assert!(matches!(settle(&failure(Retry::Backoff)), (Next::Retry { at_least: None, .. }, Label::Error)));
    let delay = Duration::from_secs(9);
    assert!(
        matches!(settle(&failure(Retry::After(delay))), (Next::Retry { at_least: Some(d), .. }, Label::Error) if d == delay)
    );
}

/// B8: a terminal failure parks the key until a change or a request.
#[test]
fn a_failure_that_says_never_parks_the_key() {
    assert!(matches!(settle(&failure(Retry::Never)), (Next::Park { .. }, Label::TerminalError)));
}

/// B11: a trap and every limit is a failure under its own name.
#[test]
fn a_trap_and_a_limit_are_failures_that_keep_their_name() {
    let trap = Err(Fault::Trap { message: "unreachable".into() });
    assert!(matches!(settle(&trap), (Next::Retry { error, .. }, Label::Error) if error.contains("unreachable")));
    let limit = Err(Fault::Limit { limit: LimitName::Memory, message: "asked for 1 GiB".into() });
    assert!(matches!(settle(&limit), (Next::Retry { error, .. }, Label::Error) if error.contains("memory")));
}
