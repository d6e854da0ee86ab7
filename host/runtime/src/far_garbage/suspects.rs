//! The owners that a live read did not find, until a second one confirms it. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between the two reads.
pub(super) const CONFIRMATION: Duration = Duration::from_secs(10);
/// Suspected owners at most. The sweep finds the others again.
pub(super) const SUSPECTS_MAX: usize = 10_000;

/// The meaning of an owner's absence so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Ask again after this time.
    AskAgain(Duration),
    /// It has been absent for long enough.
    Gone,
    /// There are too many suspects to remember another one.
    Full,
}

/// The suspected owners, by uid.
#[derive(Debug, Default)]
pub(super) struct Suspects(HashMap<String, Suspect>);

#[derive(Debug)]
struct Suspect {
    since: Instant,
    /// The id of the store's content.
    store: Option<String>,
}

impl Suspects {
    /// Notes that a live read at `now` did not find an owner in a store with this content.
    pub(super) fn absent(&mut self, uid: &str, store: &Option<String>, now: Instant) -> Verdict {
        if let Some(suspect) = self.0.get(uid).filter(|suspect| suspect.store == *store) {
            return match CONFIRMATION.checked_sub(now - suspect.since) {
                Some(left) if !left.is_zero() => Verdict::AskAgain(left),
                _ => Verdict::Gone,
            };
        }
        if self.0.len() >= SUSPECTS_MAX && !self.0.contains_key(uid) {
            return Verdict::Full;
        }
        self.0.insert(uid.to_owned(), Suspect { since: now, store: store.clone() });
        Verdict::AskAgain(CONFIRMATION)
    }

    /// Forgets an owner: it was found, or the question could not be answered.
    pub(super) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn an_owner_is_gone_once_it_was_absent_twice_ten_seconds_apart() {
        let (mut suspects, start) = (Suspects::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(suspects.absent("u", &id("a"), at(0)), Verdict::AskAgain(CONFIRMATION));
        assert_eq!(suspects.absent("u", &id("a"), at(4)), Verdict::AskAgain(Duration::from_secs(6)));
        assert_eq!(suspects.absent("u", &id("a"), at(10)), Verdict::Gone);
        suspects.forget("u");
        assert_eq!(suspects.absent("u", &id("a"), at(11)), Verdict::AskAgain(CONFIRMATION));
    }

    #[test]
    fn other_content_of_the_store_starts_the_wait_again() {
        let (mut suspects, start) = (Suspects::default(), Instant::now());
        suspects.absent("u", &id("a"), start);
        assert_eq!(suspects.absent("u", &id("b"), start + 2 * CONFIRMATION), Verdict::AskAgain(CONFIRMATION));
    }

    #[test]
    fn the_number_of_suspects_is_bounded() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        for at in 0..SUSPECTS_MAX {
            assert_eq!(suspects.absent(&at.to_string(), &None, now), Verdict::AskAgain(CONFIRMATION));
        }
        assert_eq!(suspects.absent("one more", &None, now), Verdict::Full);
        assert_eq!(suspects.absent("7", &id("other"), now), Verdict::AskAgain(CONFIRMATION), "it is known");
        suspects.forget("0");
        assert_eq!(suspects.absent("one more", &None, now), Verdict::AskAgain(CONFIRMATION));
    }
}
