//! From bytes to a component that can be run: every check, and every reason for a refusal at once.

use std::sync::Arc;

use wasmtime::component::InstancePre;

use crate::bindings::{lifecycle, mapper, poller, reconciler};
use crate::code::{self, Code};
use crate::component::{Component, Entries, Facts, Loaded};
use crate::digest::Digest;
use crate::engine::Engine;
use crate::grants::Grants;
use crate::state::State;

mod bytes;
mod describe;
mod names;
mod refused;
mod world;

pub use refused::{Reason, Refused};

/// Compiles, checks and describes.
pub(crate) async fn load(engine: &Engine, bytes: Vec<u8>, grants: &Grants) -> Result<Component, Refused> {
    bytes::check(&bytes, engine.options().component_bytes_max)?;
    let size_bytes = bytes.len() as u64;
    let (code, digest) = code(engine, bytes).await?;
    let machine = &code.machine;

    let names = world::Names::of(&code.component, &machine.engine);
    let mut reasons = world::check(&names, grants);
    if !reasons.is_empty() {
        return Err(Refused { reasons });
    }
    let pre = machine
        .linker
        .instantiate_pre(&code.component)
        .map_err(|error| Reason::Link { reason: format!("{error:#}") })?;
    let entries = entries(&pre, &names, &mut reasons);
    let (Some(entries), true) = (entries, reasons.is_empty()) else {
        return Err(Refused { reasons });
    };
    let spec = describe::describe(engine, machine, &pre, &entries).await?;
    let facts = Facts { digest, size_bytes, imports: names.imports, exports: names.exports, pooled: code.pooled };
    Ok(Component(Arc::new(Loaded { engine: engine.clone(), code, pre, entries, facts, spec })))
}

/// Returns the code of a component and its name. Who loads what another one has, or is compiling, gets the same.
async fn code(engine: &Engine, bytes: Vec<u8>) -> Result<(Arc<Code>, Digest), Refused> {
    let (digest, bytes) = blocking(move || (Digest::of(&bytes), bytes)).await?;
    let place = engine.codes().place(&digest);
    let mut known = place.lock().await;
    if let Some(code) = known.upgrade() {
        return Ok((code, digest));
    }
    let (engine, name) = (engine.clone(), digest.clone());
    let code = Arc::new(blocking(move || code::make(&engine, &name, &bytes)).await??);
    *known = Arc::downgrade(&code);
    Ok((code, digest))
}

/// Does `work` on a thread for blocking work.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    let failed = |error| Reason::Malformed { reason: format!("the compiler failed: {error}") };
    tokio::task::spawn_blocking(work).await.map_err(|error| failed(error).into())
}

/// Looks up the exports; each that has another type than the contract says is one more reason.
fn entries(pre: &InstancePre<State>, names: &world::Names, reasons: &mut Vec<Reason>) -> Option<Entries> {
    let mut check = |interface: &str, error: wasmtime::Error| {
        reasons.push(Reason::ExportType { name: interface.to_owned(), reason: format!("{error:#}") });
    };
    let reconciler = reconciler::GuestIndices::new(pre).map_err(|error| check(world::RECONCILER, error)).ok();
    let optional = |interface: &'static str| names.exports_interface(interface).then_some(interface);
    let (has_mapper, has_poller, has_lifecycle) =
        (optional(world::MAPPER), optional(world::POLLER), optional(world::LIFECYCLE));
    Some(Entries {
        reconciler: reconciler?,
        mapper: has_mapper.and_then(|name| mapper::GuestIndices::new(pre).map_err(|error| check(name, error)).ok()),
        poller: has_poller.and_then(|name| poller::GuestIndices::new(pre).map_err(|error| check(name, error)).ok()),
        lifecycle: has_lifecycle
            .and_then(|name| lifecycle::GuestIndices::new(pre).map_err(|error| check(name, error)).ok()),
    })
}

#[cfg(test)]
mod tests;
