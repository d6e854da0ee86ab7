//! Which requests the occurrences of events become. Pure: the caller measures the time.
//!
//! An event is written once, and again with its count when an interval is over. A resource that gets many different
//! events, and a host that has many, lose some: events are for people.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use homeostat_store::Key;

/// Events that are remembered. The one that was written longest ago is forgotten first: it begins anew when it
/// occurs again.
const SERIES_MAX: usize = 4096;
/// New events of one resource at once, and the time after which it may have one more.
/// Source: the defaults of client-go's event correlator.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// Resources whose numbers of events are remembered.
const RESOURCES_MAX: usize = 4096;

/// The identity of an event: two occurrences with the same one are the same event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    /// The controller.
    pub(crate) controller: String,
    /// The resource.
    pub(crate) regarding: Key,
    /// The uid of the resource; may be empty.
    pub(crate) uid: String,
    /// The reason, as one word.
    pub(crate) reason: String,
    /// The text for people.
    pub(crate) note: String,
    /// Whether it is a warning.
    pub(crate) is_warning: bool,
}

/// A request to write an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Create the event, with this number of occurrences.
    Create(u64),
    /// Set the number of occurrences of the event of this name.
    Count(String, u64),
}

/// The state of an event: its occurrences, and those that the cluster has.
#[derive(Debug)]
struct EventState {
    /// The name of the event in the cluster; `None` while the first request is on its way, or after it failed.
    name: Option<String>,
    /// Occurrences so far, and those that were written.
    count: u64,
    count_written: u64,
    /// When the last write began.
    at: Duration,
}

/// The events that were written, and those that wait.
#[derive(Debug)]
pub(crate) struct Series {
    /// Least time between two writes of one event.
    interval: Duration,
    events: BTreeMap<Identity, EventState>,
    /// The same by the time of their last write.
    by_time: BTreeSet<(Duration, Identity)>,
    /// The events of each resource: the time at which none of its burst is used.
    full_at: BTreeMap<Key, Duration>,
    /// The resources of `full_at`, oldest first.
    resources: VecDeque<Key>,
}

impl Series {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            events: BTreeMap::new(),
            by_time: BTreeSet::new(),
            full_at: BTreeMap::new(),
            resources: VecDeque::new(),
        }
    }

    /// Takes an occurrence, the `count`th of its event. Returns the request to send now; repetitions within the
    /// interval wait until [`Series::due`].
    pub(crate) fn occurred(&mut self, now: Duration, identity: &Identity, count: u64) -> Option<Action> {
        if let Some(written) = self.events.get_mut(identity) {
            written.count = written.count.max(count);
            let is_due = now >= written.at + self.interval;
            return if is_due { self.write(now, identity) } else { None };
        }
        if !self.has_room(now, &identity.regarding) {
            return None;
        }
        self.bound();
        let written = EventState { name: None, count, count_written: 0, at: now };
        self.events.insert(identity.clone(), written);
        self.by_time.insert((now, identity.clone()));
        Some(Action::Create(count))
    }

    /// Returns an event whose repetitions have waited long enough, with its request.
    pub(crate) fn due(&mut self, now: Duration) -> Option<(Identity, Action)> {
        let waits = |(at, identity): &&(Duration, Identity)| {
            now >= *at + self.interval && self.events.get(identity).is_some_and(|one| one.count > one.count_written)
        };
        let identity = self.by_time.iter().find(waits)?.1.clone();
        let action = self.write(now, &identity)?;
        Some((identity, action))
    }

    /// Takes the result of a request: the name of the event, or `None` if there is no such event.
    pub(crate) fn written(&mut self, identity: &Identity, name: Option<String>, count: u64) {
        if let Some(written) = self.events.get_mut(identity) {
            written.count_written = if name.is_some() { count } else { 0 };
            written.name = name;
        }
    }

    fn write(&mut self, now: Duration, identity: &Identity) -> Option<Action> {
        let written = self.events.get_mut(identity)?;
        self.by_time.remove(&(written.at, identity.clone()));
        self.by_time.insert((now, identity.clone()));
        written.at = now;
        Some(match &written.name {
            Some(name) => Action::Count(name.clone(), written.count),
            None => Action::Create(written.count),
        })
    }

    fn bound(&mut self) {
        if self.events.len() >= SERIES_MAX
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.events.remove(&oldest);
        }
    }

    /// Takes one new event of a resource from its burst; `false` if none is left.
    fn has_room(&mut self, now: Duration, regarding: &Key) -> bool {
        if !self.full_at.contains_key(regarding) {
            if self.resources.len() >= RESOURCES_MAX
                && let Some(oldest) = self.resources.pop_front()
            {
                self.full_at.remove(&oldest);
            }
            self.resources.push_back(regarding.clone());
        }
        let full_at = self.full_at.entry(regarding.clone()).or_insert(now);
        let after = (*full_at).max(now) + REFILL;
        let has_room = after <= now + REFILL * BURST;
        if has_room {
            *full_at = after;
        }
        has_room
    }
}

#[cfg(test)]
mod tests;
