use std::time::Duration;

use proptest::prelude::*;

use super::{Attempts, BACKOFF, CONFLICTS_MAX, LastValue, PublishAction, PublishReply, PublishedMessage, RESENDS_MAX};

const END: Duration = Duration::from_secs(10);
const NOW: Duration = Duration::from_secs(1);
const SENT: PublishedMessage<'static> = PublishedMessage { id: "mine", expected: 7 };

fn last(sequence: u64, id: &'static str, expected: Option<u64>) -> Option<LastValue<'static>> {
    Some(LastValue { sequence, id: Some(id), expected })
}

#[test]
fn a_stored_message_is_done() {
    assert_eq!(Attempts::until(END).answered(NOW, PublishReply::Stored(9), 0.0), PublishAction::Done(9));
}

#[test]
fn a_conflict_plans_again_until_the_bound_with_bounded_waits() {
    let mut attempts = Attempts::until(END);
    for _ in 1..CONFLICTS_MAX {
        let PublishAction::PlanAgain(wait) = attempts.answered(NOW, PublishReply::WrongSequence, 1.0) else {
            panic!("gave up")
        };
        assert!(wait <= BACKOFF.longest, "{wait:?}");
    }
    assert_eq!(attempts.answered(NOW, PublishReply::WrongSequence, 0.0), PublishAction::Contended);
}

#[test]
fn a_conflict_after_the_deadline_gives_up() {
    assert_eq!(Attempts::until(END).answered(END, PublishReply::WrongSequence, 0.0), PublishAction::Contended);
}

#[test]
fn an_unanswered_message_is_found_by_its_id() {
    let mut attempts = Attempts::until(END);
    assert_eq!(attempts.answered(NOW, PublishReply::Silence, 0.0), PublishAction::Inspect);
    assert_eq!(attempts.inspected(NOW, SENT, last(8, "mine", Some(7)), 0.0), PublishAction::Done(8));
}

#[test]
fn an_unanswered_message_that_is_not_there_is_sent_again_within_the_bound() {
    let mut attempts = Attempts::until(END);
    for _ in 0..RESENDS_MAX {
        attempts.answered(NOW, PublishReply::Silence, 0.0);
        assert_eq!(attempts.inspected(NOW, SENT, last(7, "before", Some(3)), 0.0), PublishAction::Resend);
    }
    attempts.answered(NOW, PublishReply::Silence, 0.0);
    assert_eq!(attempts.inspected(NOW, SENT, last(7, "before", Some(3)), 0.0), PublishAction::Unknown);
    let mut late = Attempts::until(END);
    late.answered(NOW, PublishReply::Silence, 0.0);
    assert_eq!(late.inspected(END, SENT, last(7, "before", Some(3)), 0.0), PublishAction::Unknown);
}

#[test]
fn a_conflict_of_a_message_that_was_sent_twice_may_be_its_own_first_copy() {
    let mut attempts = Attempts::until(END);
    attempts.answered(NOW, PublishReply::Silence, 0.0);
    assert_eq!(attempts.inspected(NOW, SENT, last(7, "before", None), 0.0), PublishAction::Resend);
    assert_eq!(attempts.answered(NOW, PublishReply::WrongSequence, 0.0), PublishAction::Inspect);
    assert_eq!(attempts.inspected(NOW, SENT, last(8, "mine", Some(7)), 0.0), PublishAction::Done(8));
}

#[test]
fn a_message_whose_place_another_one_took_is_planned_again() {
    let mut attempts = Attempts::until(END);
    attempts.answered(NOW, PublishReply::Silence, 0.0);
    assert_eq!(attempts.inspected(NOW, SENT, last(8, "other", Some(7)), 0.0), PublishAction::PlanAgain(Duration::ZERO));
    assert_eq!(
        attempts.answered(NOW, PublishReply::WrongSequence, 0.0),
        PublishAction::PlanAgain(Duration::ZERO),
        "a new message"
    );
}

#[test]
fn an_unanswered_message_that_may_have_been_overwritten_is_unknown() {
    for last in [last(9, "other", Some(8)), last(9, "other", None), None] {
        let mut attempts = Attempts::until(END);
        attempts.answered(NOW, PublishReply::Silence, 0.0);
        assert_eq!(attempts.inspected(NOW, SENT, last, 0.0), PublishAction::Unknown, "{last:?}");
    }
}

#[test]
fn an_unanswered_creation_is_sent_again_while_there_is_no_value() {
    let mut attempts = Attempts::until(END);
    attempts.answered(NOW, PublishReply::Silence, 0.0);
    assert_eq!(attempts.inspected(NOW, PublishedMessage { id: "mine", expected: 0 }, None, 0.0), PublishAction::Resend);
}

/// One value of a subject with its history, as a server that may keep a message for later, store it and lose
/// the answer, or refuse it.
#[derive(Debug, Default)]
struct Server {
    /// Sequence, id and expected sequence of each value.
    values: Vec<(u64, String, u64)>,
    late: Vec<(String, u64)>,
}

impl Server {
    fn last(&self) -> u64 {
        self.values.last().map_or(0, |value| value.0)
    }

    fn publish(&mut self, id: &str, expected: u64) -> PublishReply {
        if self.last() != expected {
            return PublishReply::WrongSequence;
        }
        let sequence = self.last() + 1;
        self.values.push((sequence, id.to_owned(), expected));
        PublishReply::Stored(sequence)
    }

    fn deliver_late(&mut self) {
        for (id, expected) in std::mem::take(&mut self.late) {
            self.publish(&id, expected);
        }
    }
}

proptest! {
    /// With any network, a write is stored once when it says so, and not at all when it says so.
    #[test]
    fn a_write_is_stored_as_often_as_it_says(faults in prop::collection::vec((0..5_u8, any::<bool>(), any::<bool>()), 1..40)) {
        let mut server = Server::default();
        let mut attempts = Attempts::until(END);
        let mut faults = faults.into_iter().cycle();
        let (mut plan, mut rounds, mut expected) = (0, 0, server.last());
        let outcome = loop {
            let (fault, others, arrive) = faults.next().expect("endless");
            rounds += 1;
            prop_assert!(rounds < 100, "the attempts do not end");
            if others {
                let last = server.last();
                server.publish("other", last);
            }
            let id = format!("mine{plan}");
            let answer = match fault {
                0 => { server.late.push((id.clone(), expected)); PublishReply::Silence }
                1 => { server.publish(&id, expected); PublishReply::Silence }
                2 => PublishReply::Silence,
                _ => server.publish(&id, expected),
            };
            if arrive {
                server.deliver_late();
            }
            let mut next = attempts.answered(NOW, answer, 0.0);
            if next == PublishAction::Inspect {
                let sent = PublishedMessage { id: &id, expected };
                let last = server.values.last();
                let last = last.map(|(sequence, id, expected)| LastValue { sequence: *sequence, id: Some(id), expected: Some(*expected) });
                next = attempts.inspected(NOW, sent, last, 0.0);
            }
            match next {
                PublishAction::Resend => {}
                PublishAction::PlanAgain(_) => { plan += 1; expected = server.last(); }
                end => break end,
            }
        };
        server.deliver_late();
        let stored: Vec<u64> = server.values.iter().filter(|value| value.1.starts_with("mine")).map(|value| value.0).collect();
        match outcome {
            PublishAction::Done(sequence) => prop_assert_eq!(stored, [sequence]),
            PublishAction::Contended => prop_assert_eq!(stored, [0; 0]),
            _ => prop_assert!(stored.len() <= 1, "{:?}", stored),
        }
    }
}
