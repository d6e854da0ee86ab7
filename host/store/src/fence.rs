//! Fences: a store refuses the write of a host that has lost its lease.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use homeostat_fleet::LeaseName;

use crate::{Error, Result};

/// The most leases of which one store of this process knows the term.
const LEASES_MAX: usize = 4096;

/// The term of a lease under which a write was decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The lease.
    pub lease: LeaseName,
    /// The number of the term in the store that is written. A later term has a higher one.
    pub epoch: u64,
}

/// The latest term of each lease under which a store of this process was written. A store that one host alone
/// has sees an older term only in a write that outlived it.
#[derive(Debug, Default)]
pub(crate) struct KnownTerms(BTreeMap<LeaseName, u64>);

impl KnownTerms {
    /// Notes the term of a write. Beyond [`LEASES_MAX`] leases, the terms of further ones are not compared.
    ///
    /// # Errors
    /// `Fenced` for a term before the latest one.
    pub(crate) fn check(&mut self, fence: Option<&Fence>) -> Result<()> {
        let Some(Fence { lease, epoch }) = fence else { return Ok(()) };
        let is_full = self.0.len() >= LEASES_MAX;
        match self.0.get_mut(lease) {
            Some(latest) if *epoch < *latest => Err(Error::Fenced { lease: lease.to_string(), epoch: *epoch }),
            Some(latest) => {
                *latest = *epoch;
                Ok(())
            }
            None if is_full => Ok(()),
            None => {
                self.0.insert(lease.clone(), *epoch);
                Ok(())
            }
        }
    }
}
