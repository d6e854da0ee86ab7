//! The store: records with versions, fences, and the beats of the hosts. One message is carried out at once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::{AcquireCondition, Answer, Request};
use crate::record::{Epoch, Identity, Observation, Record, Version};

#[derive(Default)]
pub(super) struct Store {
    revision: u64,
    records: Vec<Option<Record>>,
    /// By lease; zero when it was never held.
    pub(super) fences: Vec<u64>,
    /// The number of the last beat of each host, and its weight.
    pub(super) beats: BTreeMap<Identity, (u64, u32)>,
    pub(super) is_down: bool,
}

impl Store {
    pub(super) fn new(leases: usize) -> Self {
        Self { records: vec![None; leases], fences: vec![0; leases], ..Self::default() }
    }

    pub(super) fn observation(&self, lease: usize) -> Observation {
        match &self.records[lease] {
            Some(record) => Observation::Present(record.clone()),
            None => Observation::Absent { fence: self.fence(lease) },
        }
    }

    fn fence(&self, lease: usize) -> Option<Epoch> {
        Some(Epoch(self.fences[lease])).filter(|epoch| epoch.0 > 0)
    }

    /// Carries a request out, with the figure that the holder tells. Every write of a record is a compare-and-set.
    pub(super) fn answer(
        &mut self,
        lease: usize,
        from: &Identity,
        length: Duration,
        request: &Request,
        load: Option<u32>,
    ) -> Answer {
        let current = match &self.records[lease] {
            Some(record) => AcquireCondition::Version(record.version),
            None => AcquireCondition::Absent { fence: self.fence(lease) },
        };
        let expected = match request {
            Request::Read => return Answer::Found(self.observation(lease)),
            Request::Acquire { expected, .. } => *expected,
            Request::Renew { expected, .. } | Request::Release { expected, .. } => AcquireCondition::Version(*expected),
        };
        if expected != current {
            return Answer::Conflict;
        }
        self.revision += 1;
        let version = Version(self.revision);
        let known = self.records[lease].as_ref().map_or(0, |record| record.transitions);
        let (holder, epoch, preferred_holder, transitions) = match request {
            Request::Acquire { transitions, .. } => {
                self.fences[lease] = self.revision;
                (Some(from.clone()), Epoch(self.revision), None, *transitions)
            }
            Request::Release { epoch, preferred_holder, .. } => (None, *epoch, preferred_holder.clone(), known),
            Request::Renew { epoch, .. } => (Some(from.clone()), *epoch, None, known),
            Request::Read => unreachable!("it is answered above"),
        };
        let description = load.filter(|_| holder.is_some()).map(|load| load.to_string().into());
        self.records[lease] =
            Some(Record { version, holder, epoch, length, preferred_holder, transitions, description });
        Answer::Stored { version, epoch }
    }

    /// Returns the figure in a record.
    pub(super) fn load(record: &Record) -> Option<u32> {
        record.description.as_ref()?.parse().ok()
    }

    /// Returns the figure of a lease.
    pub(super) fn told(&self, lease: usize) -> Option<u32> {
        Self::load(self.records[lease].as_ref()?)
    }

    /// Deletes a record, as a person may do.
    pub(super) fn delete(&mut self, lease: usize) {
        self.revision += 1;
        self.records[lease] = None;
    }
}
