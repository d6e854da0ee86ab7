//! Who calls guests one after the other, and what it keeps from call to call.
//!
//! A call needs leave to run, a clock that ticks, and code in memory. Each of these is counted in a place that all threads share, and a
//! place that two processors write to in turn costs them up to a microsecond each time. So whoever calls again and again counts itself in
//! once. What it keeps, others may wait for: it is to be dropped before its owner waits for something else than a guest.

use std::sync::Arc;

use crate::code::{Code, ReloadError, ResidentCode};
use crate::engine::Engine;
use crate::instances::Permit;
use crate::loaded::LoadedComponent;
use crate::machine::Machine;
use crate::ticker::{TickGuard, Ticker};

/// Somebody who calls guests on behalf of one controller, one at a time.
///
/// From one call to the next it keeps a place among the guests that run, unless somebody waits for one, and the code that it called
/// last, which does not rest meanwhile. Dropping it gives both back.
pub struct CallSession {
    /// A copy of its own, so that nobody else counts who holds it.
    controller: Arc<str>,
    permit: Option<ExecutionPermit>,
    code: CachedCode,
}

/// Leave to run guests of one machine, one at a time, until it is dropped.
pub(crate) struct ExecutionPermit {
    machine: Arc<Machine>,
    permit: Permit,
    _running: Option<TickGuard>,
}

/// The code at hand.
#[derive(Default)]
pub(crate) struct CachedCode(Option<(Arc<Code>, Arc<ResidentCode>)>);

impl std::fmt::Debug for CallSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caller").field(&self.controller).finish()
    }
}

impl CallSession {
    /// Returns one that keeps nothing yet.
    pub fn new(controller: &str) -> Self {
        Self { controller: controller.into(), permit: None, code: CachedCode::default() }
    }

    pub(crate) fn controller(&self) -> &Arc<str> {
        &self.controller
    }

    /// Returns leave to call a component, and the code at hand. Waits only where it has none that nobody else waits for.
    pub(crate) async fn acquire(&mut self, component: &LoadedComponent) -> (&ExecutionPermit, &mut CachedCode) {
        let Self { controller, permit: leave, code: hand } = self;
        let kept = leave.take().filter(|kept| kept.is_for(component) && !kept.permit.has_waiters());
        let kept = match kept {
            Some(kept) => kept,
            None => ExecutionPermit::acquire(component, controller).await,
        };
        (leave.insert(kept), hand)
    }

    /// Gives up its place when somebody waits for one.
    pub(crate) fn yield_permit(&mut self) {
        self.permit.take_if(|leave| leave.permit.has_waiters());
    }
}

impl ExecutionPermit {
    /// Waits for leave to call a component once more.
    pub(crate) async fn acquire(component: &LoadedComponent, controller: &Arc<str>) -> Self {
        Self::acquire_on(&component.code.machine, &component.engine, controller).await
    }

    /// Waits for leave to run one more guest on a machine of `engine`.
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
    /// Returns the code of a component, which takes the place of any other.
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
