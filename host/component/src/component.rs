//! A loaded component, and the calls into it.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use homeostat_digest::Digest;
use homeostat_store::{Key, Resource, View};

use crate::bindings::types;
use crate::call::{self, Sandbox, new_call};
use crate::call_session::{CallSession, ExecutionPermit};
use crate::code::{LinkedCode, ReloadError};
use crate::effect::{Effects, EntryPoint, ResourceData};
use crate::grants::Grants;
use crate::imports::convert;
use crate::limits::{Limits, contract};
use crate::loaded::{ComponentInfo, Exports, LoadedComponent};
use crate::missing;
use crate::outcome::{CallReport, Outcome};
use crate::spec::ControllerSpec;

/// A compiled component whose imports, exports and description were checked. Cheap to clone.
///
/// Every call runs in a fresh instance, without state from earlier calls; calls may run concurrently. A call
/// waits while the engine runs its maximum of guests. The deadline starts after that wait.
#[derive(Clone)]
pub struct Component(pub(crate) Arc<LoadedComponent>);

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Component").field(&self.digest().as_str()).finish()
    }
}

impl Component {
    /// Returns the digest of the component.
    pub fn digest(&self) -> &Digest {
        &self.0.facts.digest
    }

    /// Returns the size of the component in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.facts.size_bytes
    }

    /// Returns the optional exports that it has.
    pub fn exports(&self) -> Exports {
        self.0.exports
    }

    /// Returns the names of the imported interfaces, sorted.
    pub fn imports(&self) -> &[String] {
        &self.0.facts.imports
    }

    /// Returns the facts that are known without running it.
    pub fn info(&self) -> &ComponentInfo {
        &self.0.facts
    }

    /// Returns the description that the component returned when it was loaded.
    pub fn describe(&self) -> &ControllerSpec {
        &self.0.spec
    }

    /// Describes the verbs that the component uses and no line of `grants` covers, with the lines that would
    /// grant them. Returns `None` if none is missing. Every call with these verbs will be denied.
    pub fn missing_grants(&self, grants: &Grants) -> Option<String> {
        missing::missing(&self.0.verbs, grants, &self.0.spec.manages.kind)
    }

    /// Brings the world one step closer to the desired state of the resource `key`.
    ///
    /// *Cancel safety*: dropping the future stops the guest at once. Effects performed so far remain.
    pub async fn reconcile(
        &self,
        caller: &mut CallSession,
        key: &Key,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Outcome> {
        let call = new_call(caller.controller(), EntryPoint::Reconcile, Some(key.clone()));
        let report = {
            let (leave, hand) = caller.acquire(&self.0).await;
            let sandbox = Sandbox::new(leave, call, limits, effects);
            let key = convert::to_key(key);
            // Pinned here: the future is large, and this call must be fast.
            let guest = pin!(async {
                let ready = hand.ready(&self.0)?;
                let LinkedCode { pre, entries } = self.0.linked(ready)?;
                let (mut store, instance) = sandbox.open(pre).await?;
                let guest = entries.reconciler.load(&mut store, &instance)?;
                guest.call_reconcile(&mut store, &key).await
            });
            sandbox.run(guest).await
        };
        caller.yield_permit();
        CallReport { result: report.result.map(outcome), cost: report.cost }
    }

    /// Returns the keys that the change of `changed`, seen by the watch of this name, affects. They may be of
    /// any kind.
    ///
    /// A component without a mapper returns none. At most 10 000 keys, otherwise `Fault::Limit`.
    /// *Cancel safety*: as `reconcile`.
    pub async fn map(
        &self,
        controller: &Arc<str>,
        watch: &str,
        changed: &Resource,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Vec<Key>> {
        if !self.0.exports.mapper {
            return CallReport::empty(Vec::new());
        }
        let call = new_call(controller, EntryPoint::Map, None);
        let leave = ExecutionPermit::acquire(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let changed = convert::to_resource(ResourceData::new(changed, View::Whole));
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let LinkedCode { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let mapper = entries.mapper.as_ref().ok_or(ReloadError)?;
            let guest = mapper.load(&mut store, &instance)?;
            let keys = guest.call_map(&mut store, watch, &changed).await?;
            call::keys(&store.data().context, keys, contract::MAP_KEYS_MAX)
        });
        report.await
    }

    /// Returns the keys to reconcile now, from the guest's poller.
    ///
    /// A component without a poller returns none. At most 100 000 keys, otherwise `Fault::Limit`.
    /// *Cancel safety*: as `reconcile`.
    pub async fn poll(
        &self,
        controller: &Arc<str>,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Vec<Key>> {
        if !self.0.exports.poller {
            return CallReport::empty(Vec::new());
        }
        let call = new_call(controller, EntryPoint::Poll, None);
        let leave = ExecutionPermit::acquire(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let LinkedCode { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let poller = entries.poller.as_ref().ok_or(ReloadError)?;
            let guest = poller.load(&mut store, &instance)?;
            let keys = guest.call_poll(&mut store).await?;
            call::keys(&store.data().context, keys, contract::POLL_KEYS_MAX)
        });
        report.await
    }

    /// Calls `lifecycle.start`, which runs before the first reconcile. No-op for a component without this
    /// export.
    ///
    /// *Cancel safety*: as `reconcile`.
    pub async fn start(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> CallReport<()> {
        if !self.0.exports.lifecycle {
            return CallReport::empty(());
        }
        let call = new_call(controller, EntryPoint::Start, None);
        let leave = ExecutionPermit::acquire(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let LinkedCode { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let lifecycle = entries.lifecycle.as_ref().ok_or(ReloadError)?;
            let guest = lifecycle.load(&mut store, &instance)?;
            guest.call_start(&mut store).await
        });
        report.await
    }

    /// Calls `lifecycle.stop`, which runs after the last reconcile. No-op for a component without this
    /// export.
    ///
    /// *Cancel safety*: as `reconcile`.
    pub async fn stop(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> CallReport<()> {
        if !self.0.exports.lifecycle {
            return CallReport::empty(());
        }
        let call = new_call(controller, EntryPoint::Stop, None);
        let leave = ExecutionPermit::acquire(&self.0, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = self.0.ready()?;
            let LinkedCode { pre, entries } = self.0.linked(&ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let lifecycle = entries.lifecycle.as_ref().ok_or(ReloadError)?;
            let guest = lifecycle.load(&mut store, &instance)?;
            guest.call_stop(&mut store).await.map(Ok)
        });
        report.await
    }
}

fn outcome(outcome: types::Outcome) -> Outcome {
    match outcome {
        types::Outcome::Settled => Outcome::Settled,
        types::Outcome::AgainAfter(delay_ms) => Outcome::AgainAfter(call::delay(delay_ms)),
    }
}

#[cfg(test)]
mod tests;
