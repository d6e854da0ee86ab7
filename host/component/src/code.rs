//! The machine code of components: shared by all loads of the same bytes, and evicted while idle.
//!
//! Idle code is *evicted* from memory: only an open file remains, its entry in the cache. The next call
//! reloads and verifies the entry. Code without an entry in the cache stays in memory.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use homeostat_digest::Digest;
use parking_lot::Mutex;
use tokio::sync::Notify;
use wasmtime::component::{Component, InstancePre};

use crate::bindings::{converter, lifecycle, mapper, poller, reconciler};
use crate::cache::{self, Entry, TrustedBytes};
use crate::call_context::State;
use crate::instances::Machine;
use crate::tier::Tier;
use crate::tiered_code::TieredCode;

/// Machine code, and the machine that runs it.
pub(crate) struct Code {
    pub(crate) machine: Arc<Machine>,
    /// The reason why its instances do not come from the pool; `None` if they do.
    pub(crate) unpooled: Option<String>,
    pub(crate) origin: Origin,
    pub(crate) tier: Tier,
    /// The size of the component that it was compiled from.
    pub(crate) size_bytes: u64,
    /// The cache entry to reload it from; without one it stays in memory.
    entry: Option<Entry>,
    memory: Mutex<Memory>,
}

/// The part of the code that is in memory.
struct Memory {
    ready: Option<Arc<ResidentCode>>,
    /// It was used since the last eviction run.
    used: bool,
}

/// Code in memory. Code with other owners is not evicted.
pub(crate) struct ResidentCode {
    pub(crate) component: Component,
    linked: OnceLock<LinkedCode>,
}

/// Code that is linked to the imports of its machine.
pub(crate) struct LinkedCode {
    pub(crate) pre: InstancePre<State>,
    pub(crate) entries: ExportIndices,
}

/// The indices of the exports. Looked up once.
pub(crate) struct ExportIndices {
    pub(crate) reconciler: reconciler::GuestIndices,
    pub(crate) mapper: Option<mapper::GuestIndices>,
    pub(crate) poller: Option<poller::GuestIndices>,
    pub(crate) lifecycle: Option<lifecycle::GuestIndices>,
    pub(crate) converter: Option<converter::GuestIndices>,
}

/// The origin of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Compiled,
    Cache,
}

/// Evicted code that cannot be reloaded.
#[derive(Debug, thiserror::Error)]
#[error("the compiled code of this component was changed on disk or cannot be read: load the component again")]
pub(crate) struct ReloadError;

impl ResidentCode {
    fn new(component: Component) -> Arc<Self> {
        Arc::new(Self { component, linked: OnceLock::new() })
    }

    /// Links the code to the imports of its machine, once.
    ///
    /// # Errors
    /// Those of `link`.
    pub(crate) fn linked<E>(&self, link: impl FnOnce(&Component) -> Result<LinkedCode, E>) -> Result<&LinkedCode, E> {
        if let Some(linked) = self.linked.get() {
            return Ok(linked);
        }
        let linked = link(&self.component)?;
        // Two concurrent calls may both link it: one of the results is kept.
        Ok(self.linked.get_or_init(|| linked))
    }
}

impl Code {
    pub(crate) fn new(
        origin: Origin,
        tier: Tier,
        size_bytes: u64,
        (machine, unpooled): (Arc<Machine>, Option<String>),
        component: Component,
    ) -> Self {
        let memory = Mutex::new(Memory { ready: Some(ResidentCode::new(component)), used: true });
        Self { machine, unpooled, origin, tier, size_bytes, entry: None, memory }
    }

    /// Sets the cache entry to reload it from; `None` keeps it in memory.
    pub(crate) fn kept_at(self, entry: Option<Entry>) -> Self {
        Self { entry, ..self }
    }

    /// Returns the code for a call, and reloads it if it was evicted. A reload takes half a millisecond, in
    /// which other calls of the component wait.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(crate) fn ready(&self, codes: &CodeTable) -> Result<Arc<ResidentCode>, ReloadError> {
        let mut memory = self.memory.lock();
        memory.used = true;
        if let Some(ready) = &memory.ready {
            return Ok(Arc::clone(ready));
        }
        let ready = ResidentCode::new(self.restore().ok_or(ReloadError)?);
        memory.ready = Some(Arc::clone(&ready));
        drop(memory);
        codes.woken.notify_one();
        Ok(ready)
    }

    fn restore(&self) -> Option<Component> {
        let compiled = self.entry.as_ref()?.read()?;
        cache::restore(&self.machine.engine, TrustedBytes::Kept(&compiled)).ok()
    }

    fn is_in_memory(&self) -> bool {
        self.memory.lock().ready.is_some()
    }

    /// Evicts the code if it was not used since the last run and has no other owners. Returns whether it
    /// stays in memory and may be evicted later.
    fn evict_if_idle(&self) -> bool {
        if self.entry.is_none() {
            return false;
        }
        let mut memory = self.memory.lock();
        let used = std::mem::take(&mut memory.used);
        let held = memory.ready.as_ref().is_some_and(|ready| Arc::strong_count(ready) > 1);
        let given_up = if used || held { None } else { memory.ready.take() };
        let stays = memory.ready.is_some();
        // Unmapping takes time, so it happens outside of the lock.
        drop(memory);
        drop(given_up);
        stays
    }
}

/// The slot for the code of one digest, while it is in use.
#[derive(Default)]
pub(crate) struct CodeSlot {
    /// The load that compiles the code holds it; concurrent loads of the digest wait.
    pub(crate) load: tokio::sync::Mutex<()>,
    /// Held for a moment only, so that a list of all code never leaves one out.
    code: Mutex<Weak<TieredCode>>,
}

impl CodeSlot {
    /// Returns the code; `None` while a load compiles it, and after its last user has dropped it.
    pub(crate) fn code(&self) -> Option<Arc<TieredCode>> {
        self.code.lock().upgrade()
    }

    /// Sets the code that a load has compiled.
    pub(crate) fn set(&self, code: &Arc<TieredCode>) {
        *self.code.lock() = Arc::downgrade(code);
    }
}

/// The code of all loaded components.
#[derive(Default)]
pub(crate) struct CodeTable {
    places: Mutex<HashMap<Digest, Arc<CodeSlot>>>,
    /// Notified when code enters memory.
    woken: Notify,
}

impl CodeTable {
    /// Returns the slot for the code of a component, and removes unused slots.
    pub(crate) fn slot(&self, digest: &Digest) -> Arc<CodeSlot> {
        let mut places = self.places.lock();
        let is_used = |place: &Arc<CodeSlot>| Arc::strong_count(place) > 1 || place.code.lock().strong_count() > 0;
        places.retain(|_, place| is_used(place));
        Arc::clone(places.entry(digest.clone()).or_default())
    }

    /// Returns the code of a loaded component.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<TieredCode>> {
        self.places.lock().get(digest)?.code()
    }

    /// Waits until code has entered memory since the last call.
    ///
    /// *Cancel safety*: safe, no notification is lost.
    pub(crate) async fn loaded(&self) {
        self.woken.notified().await;
    }

    /// Signals that code has entered memory.
    pub(crate) fn notify_loaded(&self) {
        self.woken.notify_one();
    }

    /// Evicts code that was idle since the last run. Returns whether more code may be evicted later.
    pub(crate) fn evict_idle(&self) -> bool {
        // `count` visits all of them; `any` would stop at the first that stays.
        self.each().filter(|code| code.evict_if_idle()).count() > 0
    }

    /// Returns the number of components that run baseline code.
    pub(crate) fn baseline(&self) -> usize {
        self.each().filter(|code| code.tier == Tier::Baseline).count()
    }

    /// Returns the number of components with code in memory.
    pub(crate) fn in_memory(&self) -> usize {
        self.each().filter(|code| code.is_in_memory()).count()
    }

    /// Returns all code except for running compilations.
    fn each(&self) -> impl Iterator<Item = Arc<Code>> {
        let places: Vec<Arc<CodeSlot>> = self.places.lock().values().cloned().collect();
        places.into_iter().filter_map(|place| Some(place.code()?.current()))
    }
}

#[cfg(test)]
mod tests;
