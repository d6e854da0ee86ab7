//! A condition of readiness that is not the host's own.

use std::sync::Arc;

/// One more thing that has to hold before a host is ready.
#[derive(Clone)]
pub struct Check {
    /// What it is called in the answer.
    pub name: &'static str,
    /// Says whether it holds, or why not. Must not wait.
    pub holds: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}
