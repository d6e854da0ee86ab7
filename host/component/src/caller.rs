//! Who calls guests one after the other, and what it keeps from call to call.
//!
//! A call needs leave to run, a clock that ticks, and code in memory. Each of these is counted in a place that all threads share, and a
//! place that two processors write to in turn costs them up to a microsecond each time. So whoever calls again and again counts itself in
//! once. What it keeps, others may wait for: it is to be dropped before its owner waits for something else than a guest.

use std::sync::Arc;

use crate::code::{Code, Lost, Ready};
use crate::engine::Engine;
use crate::instances::Permit;
use crate::loaded::Loaded;
use crate::machine::Machine;
use crate::ticker::{Running, Ticker};

/// Somebody who calls guests on behalf of one controller, one at a time.
///
/// From one call to the next it keeps a place among the guests that run, unless somebody waits for one, and the code that it called
/// last, which does not rest meanwhile. Dropping it gives both back.
pub struct Caller {
    /// A copy of its own, so that nobody else counts who holds it.
    controller: Arc<str>,
    leave: Option<Leave>,
    hand: Hand,
}

/// Leave to run guests of one machine, one at a time, until it is dropped.
pub(crate) struct Leave {
    machine: Arc<Machine>,
    permit: Permit,
    _running: Option<Running>,
}

/// The code at hand.
#[derive(Default)]
pub(crate) struct Hand(Option<(Arc<Code>, Arc<Ready>)>);

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caller").field(&self.controller).finish()
    }
}

impl Caller {
    /// Returns one that keeps nothing yet.
    pub fn new(controller: &str) -> Self {
        Self { controller: controller.into(), leave: None, hand: Hand::default() }
    }

    pub(crate) fn controller(&self) -> &Arc<str> {
        &self.controller
    }

    /// Returns leave to call a component, and the code at hand. Waits only where it has none that nobody else waits for.
    pub(crate) async fn leave(&mut self, component: &Loaded) -> (&Leave, &mut Hand) {
        let Self { controller, leave, hand } = self;
        let kept = leave.take().filter(|kept| kept.is_for(component) && !kept.permit.is_wanted());
        let kept = match kept {
            Some(kept) => kept,
            None => Leave::wait(component, controller).await,
        };
        (leave.insert(kept), hand)
    }

    /// Gives up its place when somebody waits for one.
    pub(crate) fn give_way(&mut self) {
        self.leave.take_if(|leave| leave.permit.is_wanted());
    }
}

impl Leave {
    /// Waits for leave to call a component once more.
    pub(crate) async fn wait(component: &Loaded, controller: &Arc<str>) -> Self {
        Self::of(&component.code.machine, &component.engine, controller).await
    }

    /// Waits for leave to run one more guest on a machine of `engine`.
    pub(crate) async fn of(machine: &Arc<Machine>, engine: &Engine, controller: &Arc<str>) -> Self {
        let permit = engine.0.instances.permit(controller).await;
        Self { machine: Arc::clone(machine), permit, _running: machine.ticker.as_ref().map(Ticker::running) }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    fn is_for(&self, component: &Loaded) -> bool {
        Arc::ptr_eq(&self.machine, &component.code.machine)
    }
}

impl Hand {
    /// Returns the code of a component, which takes the place of any other.
    ///
    /// # Errors
    /// [`Lost`].
    pub(crate) fn ready(&mut self, component: &Loaded) -> Result<&Ready, Lost> {
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
