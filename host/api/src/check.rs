//! Additional readiness checks, from outside of the host.

use std::sync::Arc;

/// An additional readiness check.
#[derive(Clone)]
pub struct Check {
    /// The name of the check in the response.
    pub name: &'static str,
    /// Returns whether the check passes, or the reason for the failure. Must not block.
    pub holds: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}
