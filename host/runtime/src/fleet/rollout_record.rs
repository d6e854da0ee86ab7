//! The record of a controller's rollout in its store, which all hosts read: a lease of its own, `CONTROLLER.rollout`,
//! which nobody renews. Its description is the rollout, and its holder the host that wrote it last.
//!
//! A host works on the controller only if it has carried out what the record says: it is *settled*. It reads the record
//! after each acquisition, so the next holder goes on at the step of the former one.
//!
//! Deliberately absent: the meaning of the text, which is that of [`crate::rollout`].

use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::{AcquireCondition, Answer, Epoch, LeaseName, Observation, Request, Version};
use homeostat_store::{Error, LeaseRequests, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time;

use super::Fleet;
use super::gate::GateChanges;
use super::lease_room::LeaseRoom;
use super::sharding::RECORD_LENGTH;

/// The record of the rollout of one controller, as this host knows it.
pub(crate) struct RolloutRecord {
    pub(super) name: LeaseName,
    record: Arc<dyn LeaseRequests>,
    request_timeout: Duration,
    state: Mutex<RecordState>,
    /// Held during each request, so that answers come in the order of the store.
    requesting: tokio::sync::Mutex<()>,
    /// Notified when the record has to be read.
    stale: Arc<Notify>,
    changes: GateChanges,
}

struct RecordState {
    seen: RecordView,
    /// Why the last read failed.
    error: Option<String>,
    /// The version that this host has looked at, and why it cannot do what that says.
    settled: Option<(Version, Option<String>)>,
}

/// The state of the record at the last read or write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordView {
    /// It was not read yet.
    Unknown,
    /// There is none.
    Absent {
        /// The fence of the last write.
        fence: Option<Epoch>,
    },
    /// There is one.
    Written {
        /// The version of the store.
        version: Version,
        /// What it says; empty if that is longer than a record may have.
        text: Arc<str>,
    },
}

impl RolloutRecord {
    pub(super) fn new(fleet: &Fleet, room: &LeaseRoom, controller: &str, changes: GateChanges) -> Result<Arc<Self>> {
        let name = LeaseName::of_rollout(controller);
        let record = room.leases.lease(&name, &fleet.identity, RECORD_LENGTH)?;
        let state = Mutex::new(RecordState { seen: RecordView::Unknown, error: None, settled: None });
        let (requesting, stale) = Default::default();
        let request_timeout = fleet.times.request_timeout;
        Ok(Arc::new(Self { name, record, request_timeout, state, requesting, stale, changes }))
    }

    /// Returns the state of the record, as this host knows it.
    pub(crate) fn view(&self) -> RecordView {
        self.state.lock().seen.clone()
    }

    /// Writes the record over the state that this host knows. Returns `false` if it has changed meanwhile.
    ///
    /// # Errors
    /// The store does not answer; the record is read again.
    pub(crate) async fn write(&self, over: &RecordView, text: &str) -> Result<bool> {
        let requesting = self.requesting.lock().await;
        if self.view() != *over {
            return Ok(false);
        }
        let expected = match over {
            RecordView::Unknown => return Err(Error::unavailable("the record of the rollout was not read yet")),
            RecordView::Absent { fence } => AcquireCondition::Absent { fence: *fence },
            RecordView::Written { version, .. } => AcquireCondition::Version(*version),
        };
        self.record.describe(text);
        let answer = self.ask(&Request::Acquire { expected, transitions: 0 }).await;
        let written = if let Ok(Answer::Stored { version, .. }) = answer {
            self.see(RecordView::Written { version, text: text.into() });
            Ok(true)
        } else {
            self.stale.notify_one();
            answer.map(|_conflict| false)
        };
        drop(requesting);
        written
    }

    async fn ask(&self, request: &Request) -> Result<Answer> {
        let late = || Err(Error::unavailable("the server does not answer in time"));
        time::timeout(self.request_timeout, self.record.carry_out(request)).await.unwrap_or_else(|_| late())
    }

    async fn read(&self) -> Result<()> {
        let requesting = self.requesting.lock().await;
        let answer = self.ask(&Request::Read).await;
        let seen = match answer {
            Ok(Answer::Found(Observation::Absent { fence })) => RecordView::Absent { fence },
            Ok(Answer::Found(Observation::Present(record))) => {
                let text = record.description.unwrap_or_default();
                RecordView::Written { version: record.version, text }
            }
            Ok(_) => return Err(Error::unavailable("the record of the rollout was not read")),
            Err(error) => {
                self.state.lock().error = Some(error.to_string());
                return Err(error);
            }
        };
        self.see(seen);
        drop(requesting);
        Ok(())
    }

    fn see(&self, seen: RecordView) {
        let mut state = self.state.lock();
        state.error = None;
        if state.seen != seen {
            state.seen = seen;
            drop(state);
            self.notify();
        }
    }

    /// Tells everyone who follows the placement that something has changed.
    fn notify(&self) {
        self.changes.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Records that this host has looked at a state of the record: it does what that says, or it cannot, with the reason.
    pub(crate) fn settle(&self, seen: &RecordView, problem: Option<String>) {
        let RecordView::Written { version, .. } = seen else { return };
        let mut state = self.state.lock();
        let settled = Some((*version, problem));
        if state.settled != settled {
            state.settled = settled;
            drop(state);
            self.notify();
            self.stale.notify_one();
        }
    }

    /// Returns whether this host may work on the controller.
    pub(super) fn is_settled(&self) -> bool {
        self.problem().is_none()
    }

    /// Returns why this host may not work on the controller, for a person.
    pub(super) fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        match (&state.seen, &state.settled) {
            (RecordView::Absent { .. }, _) => None,
            (RecordView::Written { version, .. }, Some((settled, problem))) if settled == version => problem.clone(),
            (RecordView::Written { .. }, _) => Some("it follows the rollout of the other hosts first".to_owned()),
            (RecordView::Unknown, _) => {
                Some(state.error.clone().unwrap_or_else(|| "the record of the rollout was not read yet".to_owned()))
            }
        }
    }

    /// Reads the record after an acquisition.
    ///
    /// # Errors
    /// This host has not carried out what it says, or the store does not answer.
    pub(super) async fn confirm(&self) -> Result<()> {
        self.read().await?;
        self.problem().map_or(Ok(()), |problem| Err(Error::unavailable(problem)))
    }

    /// Reads the record when it changes, and in each length of a lease. Never returns.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(super) async fn keep(&self, fleet: &Fleet, room: &LeaseRoom) {
        let _following = room.follow(&self.name, &self.stale);
        loop {
            let wait = match self.read().await {
                Ok(()) => {
                    room.send_candidacies();
                    fleet.times.length
                }
                Err(_) => fleet.times.error_wait(),
            };
            let _waited = time::timeout(wait, self.stale.notified()).await;
        }
    }
}
