//! The next step of a write after each answer of the server, and its end.
//!
//! A write is decided on a state of the resource, and published on the condition that this state is still the
//! last one. So a message that arrives twice, or late, is stored once at most: after the first time the
//! condition does not hold. The write still has to learn whether an unanswered message was stored. The id of
//! each message is stored with it, and so is its condition.
//!
//! Source: nats-server 2.15.1 compares the condition before it looks for a duplicate id, so a message that
//! was stored and is sent again is answered with "wrong last sequence", not as a duplicate.
//!
//! Pure: the time and the jitter are arguments.

#[cfg(test)]
mod tests;

use std::time::Duration;

use homeostat_store::cached::ExponentialBackoff;

/// Writers that may come between, until a write gives up.
const CONFLICTS_MAX: u32 = 16;
/// Times that an unanswered message is sent again.
const RESENDS_MAX: u32 = 2;
/// Wait after a conflict. Even the first conflict may need none: the other writer has finished.
const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(2), longest: Duration::from_millis(50), spread: (0.0, 1.0) };

/// The attempts of one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempts {
    conflicts: u32,
    resends: u32,
    /// Whether a message of the present plan is unanswered.
    unanswered: bool,
    ends: Duration,
}

/// A reply to a published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishReply {
    /// The server stored it, now or before, at this sequence.
    Stored(u64),
    /// The state that it was decided on is not the last one.
    WrongSequence,
    /// There was none that says whether it is stored.
    Silence,
}

/// The last value of the subject, as the leader has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastValue<'a> {
    pub(crate) sequence: u64,
    /// The id of its message.
    pub(crate) id: Option<&'a str>,
    /// The sequence that its message expected.
    pub(crate) expected: Option<u64>,
}

/// A published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishedMessage<'a> {
    pub(crate) id: &'a str,
    /// The sequence of the state that it was decided on; 0 for none.
    pub(crate) expected: u64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishAction {
    /// The change is stored, at this sequence.
    Done(u64),
    /// Read the last value from the leader and ask [`Attempts::inspected`].
    Inspect,
    /// Publish the same message again.
    Resend,
    /// After this wait, read the last value from the leader and decide the write again.
    PlanAgain(Duration),
    /// Give up: others wrote the resource all the time. The change is not stored.
    Contended,
    /// Give up: the host cannot say whether the change is stored, or will be.
    Unknown,
}

impl Attempts {
    /// Starts a write that gives up at `ends`.
    pub(crate) fn until(ends: Duration) -> Self {
        Self { conflicts: 0, resends: 0, unanswered: false, ends }
    }

    /// Returns what to do after the answer to a message.
    pub(crate) fn answered(&mut self, now: Duration, reply: PublishReply, jitter: f64) -> PublishAction {
        match reply {
            PublishReply::Stored(sequence) => PublishAction::Done(sequence),
            PublishReply::WrongSequence if self.unanswered => PublishAction::Inspect,
            PublishReply::WrongSequence => self.plan_again(now, jitter),
            PublishReply::Silence => {
                self.unanswered = true;
                PublishAction::Inspect
            }
        }
    }

    /// Returns what to do after the last value was read, when a message was not answered. `last` is `None`
    /// when there is no value.
    pub(crate) fn inspected(
        &mut self,
        now: Duration,
        sent: PublishedMessage<'_>,
        last: Option<LastValue<'_>>,
        jitter: f64,
    ) -> PublishAction {
        match last {
            Some(last) if last.id == Some(sent.id) => PublishAction::Done(last.sequence),
            last if last.map_or(0, |last| last.sequence) == sent.expected => self.resend(now),
            // It replaced the state that the message expected, so the message came too late and never will be
            // stored.
            Some(LastValue { expected: Some(expected), .. }) if expected == sent.expected => {
                self.plan_again(now, jitter)
            }
            _ => PublishAction::Unknown,
        }
    }

    fn resend(&mut self, now: Duration) -> PublishAction {
        if self.resends == RESENDS_MAX || now >= self.ends {
            return PublishAction::Unknown;
        }
        self.resends += 1;
        PublishAction::Resend
    }

    fn plan_again(&mut self, now: Duration, jitter: f64) -> PublishAction {
        self.conflicts += 1;
        self.unanswered = false;
        if self.conflicts == CONFLICTS_MAX || now >= self.ends {
            return PublishAction::Contended;
        }
        PublishAction::PlanAgain(BACKOFF.delay(self.conflicts, jitter))
    }
}
