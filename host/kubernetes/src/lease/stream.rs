//! The stream of the records of all leases of a cluster.
//!
//! The watch is limited to one namespace and to the label that each write of Homeostat sets. A record that another
//! program made has no label until a host has acquired the lease once. Until then the reads of the hosts that wait
//! find its changes, once in each retry period.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_fleet::{LeaseName, Observation};
use homeostat_store::cached::{Delta, DeltaStream, Start};
use homeostat_store::{LeaseWatch, Resource, Result, View};

use super::record::{LABEL, LeaseDocument};
use super::{LeaseNamespace, VERSION, kind, lease_of, record_name};
use crate::follow::machine::ListStrategy;
use crate::follow::{KindStream, Subject};

/// A stream of the records of all leases. It ends with its first error; then the caller opens another one.
pub(super) struct LeaseStream {
    leases: Arc<LeaseNamespace>,
    stream: KindStream,
    /// The lease whose record was deleted, or lost its label, and was not read since.
    vanished: Option<LeaseName>,
}

impl LeaseStream {
    pub(super) async fn open(leases: &Arc<LeaseNamespace>) -> Result<Self> {
        let collection = leases.collection("watch of leases").await?;
        let subject =
            Subject { served: kind(), version: VERSION.to_owned(), collection, labels: Some(LABEL), view: View::Whole };
        let (start, strategy) = (Start::Now { not_before: None }, ListStrategy::default());
        let requests = Arc::clone(&leases.requests);
        let stream = KindStream::open(requests, subject, start, strategy, Box::new(|_, _| {})).await?;
        Ok(Self { leases: Arc::clone(leases), stream, vanished: None })
    }
}

#[async_trait]
impl LeaseWatch for LeaseStream {
    async fn next(&mut self) -> Result<(LeaseName, Observation)> {
        loop {
            if let Some(lease) = &self.vanished {
                let (_, observation) = self.leases.observe(lease, &record_name(lease)?).await?;
                let lease = lease.clone();
                self.vanished = None;
                return Ok((lease, observation));
            }
            match self.stream.next().await? {
                Delta::Listed(resource) | Delta::Put(resource) => {
                    // A read of the record says why it cannot be understood.
                    if let Some(seen) = seen(&resource) {
                        return Ok(seen);
                    }
                }
                Delta::Deleted { key, .. } => self.vanished = lease_of(key.name()),
                _ => {}
            }
        }
    }
}

fn seen(resource: &Resource) -> Option<(LeaseName, Observation)> {
    let lease = lease_of(resource.key().name())?;
    let record = LeaseDocument::new(resource.document().clone()).ok()?.record().ok()?;
    Some((lease, Observation::Present(record)))
}
