//! A session of consecutive calls, and the state it keeps between them.
//!
//! A call needs a permit, a running epoch clock and code in memory. Each of these has a counter that all
//! threads share, and a cache line that two processors write in turn costs up to a microsecond per call. So a
//! session that calls repeatedly registers once. Other callers may wait for the permit that it holds: its
//! owner must drop the session before it waits for anything but a guest.

use std::sync::Arc;

use crate::code::{Code, ReloadError, ResidentCode};
use crate::engine::Engine;
use crate::instances::Permit;
use crate::loaded::LoadedComponent;
use crate::machine::Machine;
use crate::ticker::{TickGuard, Ticker};

/// A session that calls guests on behalf of one controller, one at a time.
///
/// Between calls it keeps its permit, unless other callers wait for one, and the code of the last call, which
/// is not evicted meanwhile. Dropping the session releases both.
pub struct CallSession {
    /// A private copy, so that its reference count is not shared with other threads.
    controller: Arc<str>,
    permit: Option<ExecutionPermit>,
    code: CachedCode,
}

/// A permit to run guests on one machine, one at a time, until it is dropped.
pub(crate) struct ExecutionPermit {
    machine: Arc<Machine>,
    permit: Permit,
    _running: Option<TickGuard>,
}

/// The code of the last call.
#[derive(Default)]
pub(crate) struct CachedCode(Option<(Arc<Code>, Arc<ResidentCode>)>);

impl std::fmt::Debug for CallSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caller").field(&self.controller).finish()
    }
}

impl CallSession {
    /// Creates a session that holds nothing yet.
    pub fn new(controller: &str) -> Self {
        Self { controller: controller.into(), permit: None, code: CachedCode::default() }
    }

    pub(crate) fn controller(&self) -> &Arc<str> {
        &self.controller
    }

    /// Returns a permit to call a component, and the code of the last call. Waits only if it holds no permit,
    /// or if others wait for the one it holds.
    pub(crate) async fn acquire(&mut self, component: &LoadedComponent) -> (&ExecutionPermit, &mut CachedCode) {
        let Self { controller, permit: leave, code: hand } = self;
        let kept = leave.take().filter(|kept| kept.is_for(component) && !kept.permit.has_waiters());
        let kept = match kept {
            Some(kept) => kept,
            None => ExecutionPermit::acquire(component, controller).await,
        };
        (leave.insert(kept), hand)
    }

    /// Releases the permit if other callers wait for one.
    pub(crate) fn yield_permit(&mut self) {
        self.permit.take_if(|leave| leave.permit.has_waiters());
    }
}

impl ExecutionPermit {
    /// Waits for a permit to call a component once.
    pub(crate) async fn acquire(component: &LoadedComponent, controller: &Arc<str>) -> Self {
        Self::acquire_on(&component.code.machine, &component.engine, controller).await
    }

    /// Waits for a permit to run one more guest on a machine of `engine`.
    pub(crate) async fn acquire_on(machine: &Arc<Machine>, engine: &Engine, controller: &Arc<str>) -> Self {
        let permit = engine.0.instances.acquire(controller).await;
        Self { machine: Arc::clone(machine), permit, _running: machine.ticker.as_ref().map(Ticker::keep_ticking) }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    fn is_for(&self, component: &LoadedComponent) -> bool {
        Arc::ptr_eq(&self.machine, &component.code.machine)
    }
}

impl CachedCode {
    /// Returns the code of a component, and replaces the cached code.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(crate) fn ready(&mut self, component: &LoadedComponent) -> Result<&ResidentCode, ReloadError> {
        let kept = match self.0.take().filter(|(code, _)| Arc::ptr_eq(code, &component.code)) {
            Some(kept) => kept,
            None => (Arc::clone(&component.code), component.ready()?),
        };
        let (_, ready) = self.0.insert(kept);
        Ok(ready)
    }
}

#[cfg(test)]
mod tests;
