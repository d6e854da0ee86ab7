//! The availability of a server, as a state machine. Pure: time and randomness are arguments.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use super::backoff::ExponentialBackoff;
use super::options::{KnownContent, restored_id, server_id};
use super::upstream::Incarnation;
use crate::status::not_replaced;
use crate::{Availability, Error, Result, Revision};

/// Wait between two attempts to contact a server that does not answer.
const CONTACT_BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(200), longest: Duration::from_secs(5), spread: (0.5, 1.5) };

/// Time over which streams are opened again once the server has come back: this much for each kind, and at
/// most that much.
const REOPEN_SPREAD: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// The known state of a server and of its content.
#[derive(Debug, Clone)]
pub(crate) struct ServerState {
    availability: Availability,
    /// The id of the content that is used; `None` until the server told one. After the acceptance of restored content
    /// it is one of its own.
    accepted: Option<String>,
    /// Failed attempts to contact it since its last answer.
    failures: u32,
    /// Whether the content has the accepted id, but went back in time.
    went_back: bool,
    /// A revision that the content has reached, if the server tells.
    reached: Option<Revision>,
    /// Whether the server was ready since the start.
    was_ready: bool,
    /// Whether the last answer did not name the content, so that it may be other content than the accepted one.
    is_unnamed: bool,
}

impl ServerState {
    /// Creates the state before the first contact. `accepted` is the content that was used before, if that is known.
    pub(crate) fn new(accepted: Option<KnownContent>) -> Self {
        let reached = accepted.as_ref().and_then(|content| content.reached);
        Self {
            availability: Availability::Starting { reason: None },
            accepted: accepted.map(|content| content.id),
            failures: 0,
            went_back: false,
            reached,
            was_ready: false,
            is_unnamed: false,
        }
    }

    /// Returns whether the server can be used.
    pub(crate) fn availability(&self) -> &Availability {
        &self.availability
    }

    /// Returns the id of the content that is used.
    pub(crate) fn accepted(&self) -> Option<&str> {
        self.accepted.as_deref()
    }

    /// As [`ServerState::accepted`]; `None` after an answer that did not name the content.
    pub(crate) fn content(&self) -> Option<&str> {
        self.accepted().filter(|_| !self.is_unnamed)
    }

    /// Returns whether content with this id, as the server tells it, may be the one that is used.
    pub(crate) fn may_have(&self, id: Option<&str>) -> bool {
        self.accepted().zip(id).is_none_or(|(accepted, id)| server_id(accepted) == id)
    }

    /// Returns the content that is used, for a record of it; `None` without an id.
    pub(crate) fn known(&self) -> Option<KnownContent> {
        Some(KnownContent { id: self.content()?.to_owned(), reached: self.reached })
    }

    /// Records a revision that was seen of the content. Does nothing if the server does not tell how far it came.
    pub(crate) fn reached(&mut self, revision: Revision) {
        self.reached = self.reached.map(|reached| reached.max(revision));
    }

    /// Returns whether the server answered last and has the accepted content.
    pub(crate) fn is_ready(&self) -> bool {
        self.availability == Availability::Ready
    }

    /// Returns whether the server has other content than the accepted one.
    pub(crate) fn is_replaced(&self) -> bool {
        matches!(self.availability, Availability::Replaced { .. })
    }

    /// Returns whether the first attempt to contact the server still runs.
    pub(crate) fn is_first_attempt(&self) -> bool {
        matches!(self.availability, Availability::Starting { reason: None })
    }

    /// Records that the server answered, and whose content it has. An answer that does not name the content
    /// changes no replacement.
    pub(crate) fn contacted(&mut self, incarnation: Incarnation) {
        if self.availability == Availability::Closed {
            return;
        }
        self.failures = 0;
        self.is_unnamed = incarnation.id.is_none();
        // Later, the lists of the caches show it, and they allow for a server that lags.
        let lost = self.reached.zip(incarnation.at).filter(|(reached, at)| !self.was_ready && at < reached);
        self.availability = match (&self.accepted, incarnation.id, lost) {
            (Some(accepted), Some(id), _) if server_id(accepted) != id => {
                self.went_back = false;
                Availability::Replaced { before: accepted.clone(), now: id }
            }
            (Some(_), Some(_), Some((reached, at))) => {
                self.went_back = true;
                Availability::Replaced { before: format!("revision {reached}"), now: format!("revision {at}") }
            }
            (_, id, _) if self.is_replaced() && ((self.went_back && self.was_ready) || id.is_none()) => return,
            (_, id, _) => {
                (self.was_ready, self.went_back) = (true, false);
                self.reached = self.reached.max(incarnation.at);
                self.accepted = self.accepted.take().or(id);
                Availability::Ready
            }
        };
    }

    /// Records that the server did not answer. A server that was replaced stays so.
    pub(crate) fn failed(&mut self, reason: String, now: SystemTime) {
        self.failures = self.failures.saturating_add(1);
        self.availability = match &self.availability {
            Availability::Ready | Availability::Unhealthy { .. } => Availability::Away { since: now, reason },
            Availability::Away { since, .. } => Availability::Away { since: *since, reason },
            Availability::Starting { .. } => Availability::Starting { reason: Some(reason) },
            unchanged @ (Availability::Replaced { .. } | Availability::Closed) => unchanged.clone(),
        };
    }

    /// Records that the content went back in time although it has the accepted id: it was restored from a
    /// backup.
    pub(crate) fn went_back(&mut self, before: String, now: String) {
        if self.availability != Availability::Closed {
            self.went_back = true;
            self.availability = Availability::Replaced { before, now };
        }
    }

    /// Accepts the content that the server has now, which [`Availability::Replaced`] calls `content`. Content that went
    /// back gets an id of its own, with the name of this acceptance. It cannot tell whether an owner of the former
    /// content was deleted or lost.
    ///
    /// # Errors
    /// `Invalid` when it was not replaced, or by other content.
    pub(crate) fn accept(&mut self, content: &str, name: &str) -> Result<()> {
        let Availability::Replaced { before: _, now } = &self.availability else {
            return Err(not_replaced());
        };
        if now != content {
            let reason = format!("its content was replaced by {now:?}, and not by {content:?}: look at it again");
            return Err(Error::invalid("store", reason));
        }
        self.accepted = match std::mem::take(&mut self.went_back) {
            true => self.accepted.as_deref().map(|accepted| restored_id(accepted, name)),
            false => Some(now.clone()),
        };
        (self.reached, self.was_ready) = (None, true);
        self.availability = Availability::Ready;
        Ok(())
    }

    /// Records that the store was closed.
    pub(crate) fn close(&mut self) {
        self.availability = Availability::Closed;
    }

    /// Returns the wait before the next attempt to contact the server. `jitter` is from 0 to 1.
    pub(crate) fn contact_delay(&self, jitter: f64) -> Duration {
        CONTACT_BACKOFF.delay(self.failures, jitter)
    }
}

/// Returns the wait of one of `kinds` streams before it is opened again, once the server has come back.
/// `jitter` is from 0 to 1.
pub(crate) fn reopen_delay(kinds: usize, jitter: f64) -> Duration {
    let (each, longest) = REOPEN_SPREAD;
    each.saturating_mul(u32::try_from(kinds).unwrap_or(u32::MAX)).min(longest).mul_f64(jitter)
}
