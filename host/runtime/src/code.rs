//! The source of the controllers' code: the seam between the host and files, registries and caches.

use std::collections::BTreeSet;

use async_trait::async_trait;
use homeostat_component::Digest;

use crate::manifest::ComponentSource;

/// Fetches the code of controllers and keeps it.
///
/// Code that was fetched once can be fetched again by its digest alone, for as long as a controller or
/// revision names it: a rollback has only the digest.
#[async_trait]
pub trait CodeSource: Send + Sync + 'static {
    /// Validates a source without reading a file or calling a registry. A write of a `Controller` with an
    /// invalid source is refused.
    ///
    /// # Errors
    /// The reason, for a person.
    fn check(&self, _source: &ComponentSource) -> Result<(), String> {
        Ok(())
    }

    /// Returns the bytes of a source. The caller checks the digest. Network calls are bounded in time.
    ///
    /// # Errors
    /// The reason, for a person, when the code is missing or unreadable. *Cancel safety*: nothing is lost.
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String>;

    /// Drops stored code that is not among `named`. Recently fetched code may stay, because its controller is
    /// stored a moment later.
    async fn sweep(&self, named: &BTreeSet<Digest>);
}
