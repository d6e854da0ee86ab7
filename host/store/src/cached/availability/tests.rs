use std::time::{Duration, SystemTime};

use super::{ServerState, reopen_delay};
use crate::cached::KnownContent;
use crate::cached::upstream::Incarnation;
use crate::{Availability, Error, Revision};

fn incarnation(id: &str) -> Incarnation {
    Incarnation { id: Some(id.to_owned()), at: None }
}

fn known(id: &str, reached: Option<u64>) -> KnownContent {
    KnownContent { id: id.to_owned(), reached: reached.map(Revision) }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_server_is_starting_until_its_first_answer_and_away_afterwards() {
    let mut state = ServerState::new(None);
    assert!(state.is_first_attempt() && !state.is_ready());
    state.failed("refused".into(), at(1));
    assert_eq!(*state.availability(), Availability::Starting { reason: Some("refused".into()) });
    state.contacted(incarnation("a"));
    assert!(state.is_ready());
    state.failed("reset".into(), at(2));
    state.failed("refused".into(), at(3));
    assert_eq!(*state.availability(), Availability::Away { since: at(2), reason: "refused".into() });
    state.contacted(incarnation("a"));
    assert!(state.is_ready());
    state.close();
    state.failed("refused".into(), at(4));
    state.contacted(incarnation("a"));
    assert_eq!(*state.availability(), Availability::Closed);
}

#[test]
fn other_content_is_used_only_once_it_was_accepted() {
    let replaced = Availability::Replaced { before: "a".into(), now: "b".into() };
    let mut state = ServerState::new(Some(known("a", None)));
    assert!(matches!(state.accept("b", "1"), Err(Error::Invalid { .. })));
    state.contacted(incarnation("b"));
    assert_eq!(*state.availability(), replaced);
    state.failed("refused".into(), at(1));
    state.contacted(Incarnation::default());
    assert_eq!(*state.availability(), replaced);
    assert!(matches!(state.accept("c", "1"), Err(Error::Invalid { .. })), "nobody has seen that content");
    assert_eq!(state.accept("b", "1"), Ok(()));
    assert_eq!((state.is_ready(), state.accepted()), (true, Some("b")));
    state.contacted(incarnation("a"));
    assert!(state.is_replaced());
    // The content came back.
    state.contacted(incarnation("b"));
    assert!(state.is_ready());
}

#[test]
fn content_restored_while_the_host_was_down_is_used_only_after_its_acceptance() {
    let at = |revision| Incarnation { at: Some(Revision(revision)), ..incarnation("a") };
    let restored = || {
        let mut state = ServerState::new(Some(known("a", Some(9))));
        state.contacted(at(3));
        let replaced = Availability::Replaced { before: "revision 9".into(), now: "revision 3".into() };
        assert_eq!(*state.availability(), replaced);
        state
    };
    let mut accepted = restored();
    assert_eq!(accepted.accept("revision 3", "1"), Ok(()));
    assert_eq!((accepted.is_ready(), accepted.known()), (true, Some(known("a/restored-1", None))));
    accepted.contacted(at(4));
    assert_eq!((accepted.is_ready(), accepted.known()), (true, Some(known("a/restored-1", Some(4)))));
    // The lost revisions are there again.
    let mut again = restored();
    again.contacted(at(9));
    assert!(again.is_ready());
    again.reached(Revision(12));
    assert_eq!(again.known(), Some(known("a", Some(12))));
    // A server that lags after a reconnect is a matter of its lists.
    again.contacted(at(11));
    assert!(again.is_ready());
    // A server that does not tell is taken as it is.
    let mut silent = ServerState::new(Some(known("a", Some(9))));
    silent.contacted(incarnation("a"));
    assert!(silent.is_ready());
}

#[test]
fn content_without_a_name_is_not_taken_for_the_accepted_one() {
    let mut state = ServerState::new(Some(known("a", None)));
    assert_eq!(state.content(), Some("a"));
    state.contacted(Incarnation::default());
    assert_eq!((state.is_ready(), state.accepted(), state.content()), (true, Some("a"), None));
    state.contacted(incarnation("a"));
    assert_eq!(state.content(), Some("a"));
}

#[test]
fn content_that_went_back_is_used_only_once_it_was_accepted() {
    for (incarnation, accepted) in [(Incarnation::default(), None), (incarnation("a"), Some("a/restored-1"))] {
        let mut state = ServerState::new(None);
        state.contacted(incarnation.clone());
        state.went_back("revision 9".into(), "revision 3".into());
        state.contacted(incarnation.clone());
        assert!(state.is_replaced());
        assert_eq!(state.accept("revision 3", "1"), Ok(()));
        state.contacted(incarnation);
        assert_eq!((state.is_ready(), state.accepted()), (true, accepted));
    }
}

#[test]
fn content_that_was_restored_again_has_yet_another_id() {
    let mut state = ServerState::new(Some(known("a/restored-1", None)));
    state.contacted(incarnation("a"));
    assert_eq!((state.is_ready(), state.content()), (true, Some("a/restored-1")));
    state.went_back("revision 9".into(), "revision 3".into());
    assert_eq!(state.accept("revision 3", "2"), Ok(()));
    assert_eq!(state.content(), Some("a/restored-2"));
    state.contacted(incarnation("b"));
    assert_eq!(*state.availability(), Availability::Replaced { before: "a/restored-2".into(), now: "b".into() });
    assert_eq!(state.accept("b", "3"), Ok(()));
    assert_eq!(state.content(), Some("b"));
}

#[test]
fn streams_are_opened_again_over_a_time_that_grows_with_their_number() {
    assert_eq!((reopen_delay(1, 1.0), reopen_delay(1000, 0.5)), (Duration::from_millis(20), Duration::from_secs(1)));
}
