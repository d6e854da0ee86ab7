//! Where the code of controllers comes from: the seam between the host and files, and whatever may come after files.

use std::collections::BTreeSet;

use async_trait::async_trait;
use homeostat_component::Digest;

use crate::manifest::ComponentSource;

/// Brings the code of controllers, and keeps it.
///
/// What was fetched once can be fetched again by its digest alone, for as long as somebody names it: a revision of a controller has nothing
/// else to go back with.
#[async_trait]
pub trait CodeSource: Send + Sync + 'static {
    /// Says what is wrong with a source whatever is there: what is written of a controller is refused for that. Nothing is read or asked.
    ///
    /// # Errors
    /// What a person has to know.
    fn check(&self, _source: &ComponentSource) -> Result<(), String> {
        Ok(())
    }

    /// Returns the bytes that a source means. The digest is checked by whoever asks. What asks a network has a bound on its time.
    ///
    /// # Errors
    /// What a person has to know, when the code is not there or cannot be read. *Cancel safety*: nothing is lost.
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String>;

    /// Forgets kept code that is not among `named`. What was kept a short while ago may stay: whoever keeps code names it a moment later.
    async fn sweep(&self, named: &BTreeSet<Digest>);
}
