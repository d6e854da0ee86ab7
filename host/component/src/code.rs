//! What compilation makes of a component, once for all who load the same bytes, and only while it is called.
//!
//! Code that nobody calls *rests*: all of it that is left is an open file, the entry of the cache. The next call reads that, checks it
//! as if for the first time and goes on. Code that is kept nowhere does not rest.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use homeostat_digest::Digest;
use parking_lot::Mutex;
use tokio::sync::Notify;
use wasmtime::component::{Component, InstancePre};

use crate::bindings::{lifecycle, mapper, poller, reconciler};
use crate::cache::{self, Entry, TrustedBytes};
use crate::machine::Machine;
use crate::state::State;

/// Machine code, and the machine that it is for.
pub(crate) struct Code {
    pub(crate) machine: Arc<Machine>,
    /// Why its instances do not come out of the pool; `None`: they do.
    pub(crate) unpooled: Option<String>,
    pub(crate) origin: Origin,
    /// Of the component that it was made of.
    pub(crate) size_bytes: u64,
    /// Where it can be read again; `None` keeps it in memory.
    entry: Option<Entry>,
    memory: Mutex<Memory>,
}

/// What of the code is in memory.
struct Memory {
    ready: Option<Arc<ResidentCode>>,
    /// Somebody asked for it since the last look.
    used: bool,
}

/// Code in memory. Who holds it can call it, and it does not rest.
pub(crate) struct ResidentCode {
    pub(crate) component: Component,
    linked: OnceLock<LinkedCode>,
}

/// Code that is bound to what its machine offers.
pub(crate) struct LinkedCode {
    pub(crate) pre: InstancePre<State>,
    pub(crate) entries: ExportIndices,
}

/// Where the exports are. Looked up once.
pub(crate) struct ExportIndices {
    pub(crate) reconciler: reconciler::GuestIndices,
    pub(crate) mapper: Option<mapper::GuestIndices>,
    pub(crate) poller: Option<poller::GuestIndices>,
    pub(crate) lifecycle: Option<lifecycle::GuestIndices>,
}

/// Where code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Compiled,
    Cache,
}

/// Code that rested cannot be had again.
#[derive(Debug, thiserror::Error)]
#[error("the compiled code of this component was changed on disk or cannot be read: load the component again")]
pub(crate) struct ReloadError;

impl ResidentCode {
    fn new(component: Component) -> Arc<Self> {
        Arc::new(Self { component, linked: OnceLock::new() })
    }

    /// Binds the code to what its machine offers, once.
    ///
    /// # Errors
    /// Those of `link`.
    pub(crate) fn linked<E>(&self, link: impl FnOnce(&Component) -> Result<LinkedCode, E>) -> Result<&LinkedCode, E> {
        if let Some(linked) = self.linked.get() {
            return Ok(linked);
        }
        let linked = link(&self.component)?;
        // Two calls at once may both come here: one of their results stays.
        Ok(self.linked.get_or_init(|| linked))
    }
}

impl Code {
    pub(crate) fn new(
        origin: Origin,
        size_bytes: u64,
        (machine, unpooled): (Arc<Machine>, Option<String>),
        component: Component,
    ) -> Self {
        let memory = Mutex::new(Memory { ready: Some(ResidentCode::new(component)), used: true });
        Self { machine, unpooled, origin, size_bytes, entry: None, memory }
    }

    /// Returns the code with the place where it can be read again; with `None` it stays in memory.
    pub(crate) fn kept_at(self, entry: Option<Entry>) -> Self {
        Self { entry, ..self }
    }

    /// Returns the code for a call, and reads it again if it rests: half a millisecond, in which other calls of it wait.
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

    /// Lets go of code that nobody has asked for since the last time this was called, and that nobody holds. Returns whether it is in
    /// memory still and may rest another time.
    fn evict_if_idle(&self) -> bool {
        if self.entry.is_none() {
            return false;
        }
        let mut memory = self.memory.lock();
        let used = std::mem::take(&mut memory.used);
        let held = memory.ready.as_ref().is_some_and(|ready| Arc::strong_count(ready) > 1);
        let given_up = if used || held { None } else { memory.ready.take() };
        let stays = memory.ready.is_some();
        // Unmapping takes its time: outside of the lock.
        drop(memory);
        drop(given_up);
        stays
    }
}

/// The code of one digest, while somebody has it. Whoever makes it holds the lock, and all others wait for that.
pub(crate) type CodeSlot = Arc<tokio::sync::Mutex<Weak<Code>>>;

/// The code of everything that is loaded.
#[derive(Default)]
pub(crate) struct CodeTable {
    places: Mutex<HashMap<Digest, CodeSlot>>,
    /// Told of code that came into memory.
    woken: Notify,
}

impl CodeTable {
    /// Returns the place for the code of a component, and forgets those that nobody has any more.
    pub(crate) fn slot(&self, digest: &Digest) -> CodeSlot {
        let mut places = self.places.lock();
        let is_used = |place: &CodeSlot| {
            Arc::strong_count(place) > 1 || place.try_lock().is_ok_and(|code| code.strong_count() > 0)
        };
        places.retain(|_, place| is_used(place));
        Arc::clone(places.entry(digest.clone()).or_default())
    }

    /// Returns the code of a component that somebody has.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<Code>> {
        let place = self.places.lock().get(digest).cloned()?;
        place.try_lock().ok()?.upgrade()
    }

    /// Waits until code has come into memory since the last time.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn loaded(&self) {
        self.woken.notified().await;
    }

    /// Tells that code has come into memory.
    pub(crate) fn notify_loaded(&self) {
        self.woken.notify_one();
    }

    /// Puts to rest what nobody has called since the last time. Returns whether there is more that may rest another time.
    pub(crate) fn evict_idle(&self) -> bool {
        // All of them are asked, also behind one that stays.
        self.each().filter(|code| code.evict_if_idle()).count() > 0
    }

    /// Returns how many have their code in memory.
    pub(crate) fn in_memory(&self) -> usize {
        self.each().filter(|code| code.is_in_memory()).count()
    }

    /// Returns all code, but for what is being made.
    fn each(&self) -> impl Iterator<Item = Arc<Code>> {
        let places: Vec<CodeSlot> = self.places.lock().values().cloned().collect();
        places.into_iter().filter_map(|place| place.try_lock().ok().and_then(|code| code.upgrade()))
    }
}

#[cfg(test)]
mod tests;
