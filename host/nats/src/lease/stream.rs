//! The stream of the records of all leases of a bucket.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_fleet::{LeaseName, Observation};
use homeostat_store::{Error, LeaseWatch, Result, Revision};

use super::observe;
use super::record::{RecordContent, content};
use crate::follow::deliveries::{Deliveries, Source, StreamItem, header};
use crate::follow::machine::ConsumerMachine;
use crate::protocol::Deliver;
use crate::state::BucketState;

/// A stream of the records of all leases of a bucket. It ends with its first error; then the caller opens
/// another one.
pub(crate) struct LeaseStream {
    bucket: Arc<BucketState>,
    deliveries: Deliveries,
    /// The lease whose record has vanished, and whose fence was not read yet.
    vanished: Option<LeaseName>,
}

impl std::fmt::Debug for LeaseStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseStream").finish_non_exhaustive()
    }
}

impl LeaseStream {
    pub(crate) async fn open(bucket: &Arc<BucketState>) -> Result<Self> {
        let what = "watch of leases".to_owned();
        let connection = bucket.connection()?;
        let losses = connection.losses();
        let info = bucket.info(&connection).await.map_err(|failure| bucket.error(failure, &what))?;
        let last = info.state.last_seq;
        if !bucket.has_content(&info) {
            return Err(Error::Expired { oldest: Revision(last) });
        }
        let filter = bucket.subjects.leases();
        let machine = ConsumerMachine::listing(last, false);
        let source =
            Source { stream: &bucket.stream, filter: &filter, machine, deliver: Deliver::LastPerSubject, what };
        let deliveries = Deliveries::open(bucket, connection, losses, source).await?;
        Ok(Self { bucket: Arc::clone(bucket), deliveries, vanished: None })
    }
}

#[async_trait]
impl LeaseWatch for LeaseStream {
    // A replica may tell a state, so it may be older than one that was read.
    async fn next(&mut self) -> Result<(LeaseName, Observation)> {
        loop {
            if let Some(lease) = &self.vanished {
                let subject = self.bucket.subjects.lease(lease)?;
                let observation = observe(&self.bucket, &*self.bucket.connection()?, lease, &subject).await?;
                let name = lease.clone();
                self.vanished = None;
                return Ok((name, observation));
            }
            let StreamItem::Value { message, sequence, .. } = self.deliveries.next().await? else { continue };
            let Some(lease) = self.bucket.subjects.lease_of(&message.subject) else { continue };
            match content(sequence, |name| header(&message, name), &message.payload) {
                RecordContent::Present(record) => return Ok((lease, Observation::Present(record))),
                RecordContent::Absent => self.vanished = Some(lease),
                // A look at the record says why it cannot be read.
                RecordContent::Unreadable(_) => {}
            }
        }
    }
}
