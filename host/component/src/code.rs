//! What compilation makes of a component, once for all who load the same bytes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::cache::{self, Name};
use crate::digest::Digest;
use crate::engine::{Engine, Machine};
use crate::load::Reason;

/// Machine code, and the machine that it is for.
pub(crate) struct Code {
    pub(crate) machine: Arc<Machine>,
    pub(crate) component: wasmtime::component::Component,
    pub(crate) pooled: bool,
    pub(crate) origin: Origin,
}

/// Where code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Compiled,
    Cache,
}

/// The code of one digest, while somebody has it. Whoever makes it holds the lock, and all others wait for that.
pub(crate) type Place = Arc<tokio::sync::Mutex<Weak<Code>>>;

/// The code of everything that is loaded.
#[derive(Default)]
pub(crate) struct Codes(Mutex<HashMap<Digest, Place>>);

impl Codes {
    /// Returns the place for the code of a component, and forgets those that nobody has any more.
    pub(crate) fn place(&self, digest: &Digest) -> Place {
        let mut places = self.0.lock();
        let is_used =
            |place: &Place| Arc::strong_count(place) > 1 || place.try_lock().is_ok_and(|code| code.strong_count() > 0);
        places.retain(|_, place| is_used(place));
        Arc::clone(places.entry(digest.clone()).or_default())
    }
}

/// Takes the code of a component from the cache, or compiles it and keeps it there. Takes its time: for threads that may block.
///
/// # Errors
/// `Malformed`.
pub(crate) fn make(engine: &Engine, digest: &Digest, bytes: &[u8]) -> Result<Code, Reason> {
    let start = Instant::now();
    let code = match from_cache(engine, digest) {
        Some(code) => code,
        None => {
            let code = compile(engine, bytes)?;
            keep(engine, digest, &code);
            code
        }
    };
    tracing::debug!(%digest, origin = ?code.origin, pooled = code.pooled, took = ?start.elapsed(), "component made ready");
    Ok(code)
}

fn compile(engine: &Engine, bytes: &[u8]) -> Result<Code, Reason> {
    let origin = Origin::Compiled;
    let machine = Arc::clone(engine.pooled());
    let error = match wasmtime::component::Component::from_binary(&machine.engine, bytes) {
        Ok(component) => return Ok(Code { machine, component, pooled: true, origin }),
        Err(error) => error,
    };
    // What is too large for the pool compiles here; what is wrong is wrong here too.
    let on_demand = engine.on_demand().ok().and_then(|machine| {
        let component = wasmtime::component::Component::from_binary(&machine.engine, bytes).ok()?;
        Some(Code { machine, component, pooled: false, origin })
    });
    on_demand.ok_or_else(|| Reason::Malformed { reason: format!("{error:#}") })
}

fn from_cache(engine: &Engine, digest: &Digest) -> Option<Code> {
    let cache = engine.cache()?;
    let origin = Origin::Cache;
    let pooled = engine.pooled();
    // Both machines compile alike, so the name for the other one is known before it is started.
    let found = |is_pooled| cache.get(&Name::of(digest, &pooled.engine, is_pooled));
    if let Some(compiled) = found(true) {
        let component = cache::restore(&pooled.engine, &compiled).ok()?;
        return Some(Code { machine: Arc::clone(pooled), component, pooled: true, origin });
    }
    let compiled = found(false)?;
    let machine = engine.on_demand().ok()?;
    let component = cache::restore(&machine.engine, &compiled).ok()?;
    Some(Code { machine, component, pooled: false, origin })
}

fn keep(engine: &Engine, digest: &Digest, code: &Code) {
    let Some(cache) = engine.cache() else { return };
    let name = Name::of(digest, &engine.pooled().engine, code.pooled);
    let kept =
        code.component.serialize().map_err(std::io::Error::other).and_then(|compiled| cache.put(&name, &compiled));
    if let Err(error) = kept {
        tracing::warn!(%digest, %error, "a compiled component could not be kept: the next start compiles it again");
    }
}

#[cfg(test)]
mod tests;
