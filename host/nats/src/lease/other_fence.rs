//! The fence of a lease that lives in another store.
//!
//! Its lanes are those of a lease of this bucket. Their value names the term in the store of the lease, so that a host
//! that was paused after its acquisition does not take the fence from a later term.

use async_nats::jetstream::message::StreamMessage;
use homeostat_fleet::Identity;
use homeostat_store::{Error, Fence, OtherTerm, Result};
use serde::{Deserialize, Serialize};

use super::LANES;
use crate::state::BucketState;

/// How often a fence is read and written again, when another host writes it meanwhile.
const TRIES: usize = 4;

/// The value of a lane.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RaisedFence {
    holder_identity: String,
    /// The id of the content of the store of the lease.
    content: String,
    epoch: u64,
}

impl RaisedFence {
    fn of(term: &OtherTerm) -> Self {
        let OtherTerm { lease: _, holder, content, epoch } = term;
        Self { holder_identity: Identity::to_string(holder), content: content.clone(), epoch: epoch.0 }
    }

    /// Reads a lane; `None` for the fence of a lease of this bucket, and for a marker.
    fn read(message: &StreamMessage) -> Option<Self> {
        serde_json::from_slice(&message.payload).ok()
    }

    /// Returns whether this term has begun after another one.
    fn is_after(&self, other: &Self) -> bool {
        self.content == other.content && self.epoch > other.epoch
    }
}

impl BucketState {
    /// Writes the fence of a term, unless that of a later term is here.
    pub(super) async fn raise_fence(&self, term: &OtherTerm) -> Result<Fence> {
        let connection = self.connection()?;
        let (own, lane) = (RaisedFence::of(term), self.subjects.fence(&term.lease, 0)?);
        let value = serde_json::to_string(&own).expect("numbers and texts are JSON");
        let failed = |failure| self.error(failure, &format!("write of the fence of the lease {}", term.lease));
        for _ in 0..TRIES {
            let last = self.last(&connection, &lane).await.map_err(failed)?;
            let fence = |epoch| Fence { lease: term.lease.clone(), epoch };
            match last.as_ref().and_then(RaisedFence::read) {
                Some(known) if known.is_after(&own) => {
                    return Err(Error::Fenced { lease: term.lease.to_string(), epoch: term.epoch.0 });
                }
                // The answer was lost.
                Some(known) if known == own => return Ok(fence(last.map_or(0, |message| message.sequence))),
                _ => {}
            }
            let messages = self.fence_messages(&term.lease, Some(last.map_or(0, |last| last.sequence)), &value)?;
            match connection.publish_batch(messages).await {
                Ok(sequence) => return Ok(fence(sequence.saturating_sub(LANES - 1))),
                Err(failure) if failure.is_wrong_sequence() => {}
                Err(failure) => return Err(failed(failure)),
            }
        }
        Err(Error::unavailable(format!("others write the fence of the lease {}", term.lease)))
    }
}
