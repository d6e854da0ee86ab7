//! A component that was loaded, and what can be called in it.

use std::cell::Cell;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_digest::Digest;
use homeostat_store::{Key, Resource, View};
use serde::Serialize;

use crate::bindings::{lifecycle, mapper, poller, reconciler, types};
use crate::call::{self, Sandbox};
use crate::caller::{Caller, Leave};
use crate::code::{Code, Linked, Lost, Ready};
use crate::effect::{Call, Effects, Entry, ResourceData};
use crate::engine::Engine;
use crate::grants::{Grants, Verb};
use crate::imports::convert;
use crate::limits::{Limits, contract};
use crate::load::{self, missing};
use crate::outcome::{Outcome, Report};
use crate::spec::ControllerSpec;

/// A compiled component whose imports, exports and description were checked. Cheap to clone.
///
/// Every call runs in a fresh instance: nothing is left of the last one, and any number of calls may run at once. A call waits while
/// the engine runs as many guests as it may; the deadline counts from the end of that wait.
#[derive(Clone)]
pub struct Component(pub(crate) Arc<Loaded>);

/// What a component is made of.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) code: Arc<Code>,
    pub(crate) exports: Exports,
    pub(crate) facts: Facts,
    /// What it is known to ask the store for, by its imports.
    pub(crate) verbs: Vec<Verb>,
    pub(crate) spec: ControllerSpec,
}

/// Where the exports are. Looked up once.
pub(crate) struct Entries {
    pub(crate) reconciler: reconciler::GuestIndices,
    pub(crate) mapper: Option<mapper::GuestIndices>,
    pub(crate) poller: Option<poller::GuestIndices>,
    pub(crate) lifecycle: Option<lifecycle::GuestIndices>,
}

/// What can be told of a component without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The name of the component by its content.
    pub digest: Digest,
    /// The length of the component as it was handed in.
    pub size_bytes: u64,
    /// The names of all interfaces that the component imports, with their versions, sorted.
    pub imports: Vec<String>,
    /// The names of everything that the component exports, with their versions, sorted.
    pub exports: Vec<String>,
    /// Whether its instances come out of the pool. False for components that are too large for its slots: they start more slowly.
    pub pooled: bool,
    /// Which bound of the pool it exceeds, where it does.
    pub unpooled: Option<String>,
}

/// Which of the optional exports a component has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exports {
    /// `mapper.map` can be called.
    pub mapper: bool,
    /// `poller.poll` can be called.
    pub poller: bool,
    /// `lifecycle.start` and `lifecycle.stop` can be called.
    pub lifecycle: bool,
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Component").field(&self.digest().as_str()).finish()
    }
}

impl Loaded {
    /// Returns the code for one call. It does not rest before the answer is dropped.
    pub(crate) fn ready(&self) -> Result<Arc<Ready>, Lost> {
        self.code.ready(self.engine.codes())
    }

    fn linked<'a>(&self, ready: &'a Ready) -> Result<&'a Linked, Lost> {
        // What could be linked once can be again.
        ready.linked(|component| load::link(&self.code.machine, component, self.exports).map_err(|_| Lost))
    }
}

impl Component {
    /// Returns the name of the component by its content.
    pub fn digest(&self) -> &Digest {
        &self.0.facts.digest
    }

    /// Returns the length of the component in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.facts.size_bytes
    }

    /// Says which of the optional exports there are.
    pub fn exports(&self) -> Exports {
        self.0.exports
    }

    /// Returns the names of the interfaces that the component imports, sorted.
    pub fn imports(&self) -> &[String] {
        &self.0.facts.imports
    }

    /// Returns what can be told of the component without running it.
    pub fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Returns what the component said of itself when it was loaded.
    pub fn describe(&self) -> &ControllerSpec {
        &self.0.spec
    }

    /// Says which verbs the component is known to use and no line of `grants` has, all at once, ending with the lines that would grant them;
    /// `None` when none is missing. Calls with these verbs will be denied, whatever they are about.
    pub fn missing_grants(&self, grants: &Grants) -> Option<String> {
        missing::missing(&self.0.verbs, grants, &self.0.spec.manages.kind)
    }

    /// Brings the world one step closer to what the resource `key` asks for.
    ///
    /// *Cancel safety*: dropping the future ends the guest at once, with whatever effects it had by then.
    pub async fn reconcile(
        &self,
        caller: &mut Caller,
        key: &Key,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> Report<Outcome> {
        let call = new_call(caller.controller(), Entry::Reconcile, Some(key.clone()));
        let report = {
            let (leave, hand) = caller.leave(&self.0).await;
            let sandbox = Sandbox::new(leave, call, limits, effects);
            let key = convert::to_key(key);
            // Pinned here: it is large, and this is the call that must be fast.
            let guest = pin!(async {
                let ready = hand.ready(&self.0)?;
                let Linked { pre, entries } = self.0.linked(ready)?;
                let (mut store, instance) = sandbox.open(pre).await?;
                let guest = entries.reconciler.load(&mut store, &instance)?;
                guest.call_reconcile(&mut store, &key).await
            });
            sandbox.run(guest).await
        };
        caller.give_way();
        Report { result: report.result.map(outcome), cost: report.cost }
    }

    /// Returns the keys that a change of `changed`, seen by the watch of this name, matters to. They may be of any kind.
    ///
    /// A component without a mapper answers none. At most 10 000 keys, else `Fault::Limit`. *Cancel safety*: as `reconcile`.
    pub async fn map(
        &self,
        controller: &Arc<str>,
        watch: &str,
        changed: &Resource,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> Report<Vec<Key>> {
        if !self.0.exports.mapper {
            return Report::empty(Vec::new());
        }
        let call = new_call(controller, Entry::Map, None);
        let leave = Leave::wait(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let changed = convert::to_resource(ResourceData::new(changed, View::Whole));
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let Linked { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let mapper = entries.mapper.as_ref().ok_or(Lost)?;
            let guest = mapper.load(&mut store, &instance)?;
            let keys = guest.call_map(&mut store, watch, &changed).await?;
            call::keys(&store.data().port, keys, contract::MAP_KEYS_MAX)
        });
        report.await
    }

    /// Returns the keys to look at now, of whatever the guest polls.
    ///
    /// A component without a poller answers none. At most 100 000 keys, else `Fault::Limit`. *Cancel safety*: as `reconcile`.
    pub async fn poll(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> Report<Vec<Key>> {
        if !self.0.exports.poller {
            return Report::empty(Vec::new());
        }
        let call = new_call(controller, Entry::Poll, None);
        let leave = Leave::wait(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let Linked { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let poller = entries.poller.as_ref().ok_or(Lost)?;
            let guest = poller.load(&mut store, &instance)?;
            let keys = guest.call_poll(&mut store).await?;
            call::keys(&store.data().port, keys, contract::POLL_KEYS_MAX)
        });
        report.await
    }

    /// Does what the guest wants done before the first reconcile. Nothing, for a component without a life-cycle.
    ///
    /// *Cancel safety*: as `reconcile`.
    pub async fn start(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> Report<()> {
        if !self.0.exports.lifecycle {
            return Report::empty(());
        }
        let call = new_call(controller, Entry::Start, None);
        let leave = Leave::wait(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let Linked { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let lifecycle = entries.lifecycle.as_ref().ok_or(Lost)?;
            let guest = lifecycle.load(&mut store, &instance)?;
            guest.call_start(&mut store).await
        });
        report.await
    }

    /// Does what the guest wants done after the last reconcile. Nothing, for a component without a life-cycle.
    ///
    /// *Cancel safety*: as `reconcile`.
    pub async fn stop(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> Report<()> {
        if !self.0.exports.lifecycle {
            return Report::empty(());
        }
        let call = new_call(controller, Entry::Stop, None);
        let leave = Leave::wait(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let Linked { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let lifecycle = entries.lifecycle.as_ref().ok_or(Lost)?;
            let guest = lifecycle.load(&mut store, &instance)?;
            guest.call_stop(&mut store).await.map(Ok)
        });
        report.await
    }
}

/// How many numbers a thread takes at a time, so that threads do not meet at each call.
const NUMBERS: u64 = 1024;

/// Returns a call with a number of its own.
pub(crate) fn new_call(controller: &Arc<str>, entry: Entry, key: Option<Key>) -> Call {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static LAST: Cell<u64> = const { Cell::new(0) };
    }
    let last = match LAST.get() {
        last if last.is_multiple_of(NUMBERS) => TAKEN.fetch_add(NUMBERS, Ordering::Relaxed),
        last => last,
    };
    LAST.set(last + 1);
    Call { id: last + 1, controller: Arc::clone(controller), entry, key }
}

fn outcome(outcome: types::Outcome) -> Outcome {
    match outcome {
        types::Outcome::Settled => Outcome::Settled,
        types::Outcome::AgainAfter(delay_ms) => Outcome::AgainAfter(call::delay(delay_ms)),
    }
}

#[cfg(test)]
mod tests;
