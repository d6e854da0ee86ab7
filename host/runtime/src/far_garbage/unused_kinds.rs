//! When the kinds that no controller of this host uses are asked for dependents. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_store::Kind;
use tokio::time::Instant;

use crate::kinds::{KindId, id_of};

/// The time between two questions for one kind, about.
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(3600);
/// The same for a kind of which the host may not list or delete resources, about.
pub(super) const REFUSED_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// The wait after a question without an answer, about.
pub(super) const RETRY: Duration = Duration::from_secs(600);

/// The kinds that were asked, with the time of the next question. A kind that was never asked is not in it.
///
/// Has no more kinds than the catalogs of all stores.
#[derive(Debug, Default)]
pub(super) struct UnusedKinds(BTreeMap<KindId, Instant>);

impl UnusedKinds {
    /// Returns the first of these kinds that is to be asked now.
    pub(super) fn due<'a>(&self, unused: impl IntoIterator<Item = &'a Kind>, now: Instant) -> Option<&'a Kind> {
        unused.into_iter().find(|kind| self.0.get(&id_of(kind)).is_none_or(|at| *at <= now))
    }

    /// Sets when a kind is asked again.
    pub(super) fn ask_at(&mut self, kind: &Kind, at: Instant) {
        self.0.insert(id_of(kind), at);
    }

    /// Forgets the kinds that no store serves any more.
    pub(super) fn keep(&mut self, is_served: impl Fn(&KindId) -> bool) {
        self.0.retain(|id, _| is_served(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_asked_once_in_its_interval() {
        let (mut kinds, start) = (UnusedKinds::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let [one, other] = ["One", "Other"].map(|name| Kind::new("far.dev", "v1", name));
        let all = [one.clone(), other.clone()];
        assert_eq!(kinds.due(&all, start), Some(&one));
        kinds.ask_at(&one, at(60));
        assert_eq!(kinds.due(&all, start), Some(&other));
        kinds.ask_at(&other, at(90));
        assert_eq!(kinds.due(&all, at(59)), None);
        assert_eq!(kinds.due(&all, at(60)), Some(&one));
        assert_eq!(kinds.due(&all[1..], at(60)), None, "it is used meanwhile");
        kinds.keep(|id| *id == id_of(&other));
        assert_eq!(kinds.due(&all, start), Some(&one), "it is served again");
    }
}
