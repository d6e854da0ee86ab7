//! From bytes to a component that can be run: every check, and every reason for a refusal at once.

use std::sync::Arc;

use homeostat_digest::Digest;

use crate::bindings::{lifecycle, mapper, poller, reconciler};
use crate::code::{self, Code, Linked};
use crate::component::{Component, Entries, Exports, Facts, Loaded};
use crate::engine::{Engine, Machine};
use crate::grants::Grants;

mod bytes;
mod describe;
pub(crate) mod missing;
mod names;
mod refused;
mod world;

pub use refused::{Reason, Refused};

/// Compiles, checks and describes. `wanted`: the digest that the bytes must have.
pub(crate) async fn load(
    engine: &Engine,
    bytes: Vec<u8>,
    wanted: Option<&Digest>,
    grants: &Grants,
) -> Result<Component, Refused> {
    bytes::check(&bytes, engine.options().component_bytes_max)?;
    let (code, digest) = code(engine, bytes, wanted).await?;
    check(engine, code, digest, grants).await
}

/// Checks and describes what somebody has loaded, without its bytes. `None`: nobody has, or it is compiled just now.
pub(crate) async fn again(engine: &Engine, digest: &Digest, grants: &Grants) -> Option<Result<Component, Refused>> {
    let code = engine.codes().known(digest)?;
    // What cannot be read again any more has to be loaded.
    let ready = code.ready(engine.codes()).ok()?;
    let checked = check(engine, code, digest.clone(), grants).await;
    drop(ready);
    Some(checked)
}

/// Checks and describes code.
async fn check(engine: &Engine, code: Arc<Code>, digest: Digest, grants: &Grants) -> Result<Component, Refused> {
    let _ = grants;
    let ready = code.ready(engine.codes()).map_err(|lost| Reason::Malformed { reason: lost.to_string() })?;

    let names = world::Names::of(&ready.component, &code.machine.engine);
    let reasons = world::check(&names);
    if !reasons.is_empty() {
        return Err(Refused { reasons });
    }
    let optional = |interface| names.exports_interface(interface);
    let exports = Exports {
        mapper: optional(world::MAPPER),
        poller: optional(world::POLLER),
        lifecycle: optional(world::LIFECYCLE),
    };
    let linked = ready.linked(|component| link(&code.machine, component, exports))?;
    let spec = describe::describe(engine, &code.machine, linked).await?;
    let verbs = missing::verbs(&ready.component, &code.machine.engine);
    let facts = Facts {
        digest,
        size_bytes: code.size_bytes,
        imports: names.imports,
        exports: names.exports,
        pooled: code.pooled,
    };
    Ok(Component(Arc::new(Loaded { engine: engine.clone(), code, exports, facts, verbs, spec })))
}

/// Returns the code of a component and its name. Who loads what another one has, or is compiling, gets the same.
///
/// # Errors
/// `OtherDigest`, before anything is compiled; those of compilation.
async fn code(engine: &Engine, bytes: Vec<u8>, wanted: Option<&Digest>) -> Result<(Arc<Code>, Digest), Refused> {
    let (digest, bytes) = code::blocking(move || (Digest::of(&bytes), Arc::new(bytes))).await?;
    if let Some(wanted) = wanted.filter(|wanted| **wanted != digest) {
        return Err(Reason::OtherDigest { wanted: wanted.clone(), found: digest }.into());
    }
    let place = engine.codes().place(&digest);
    let mut known = place.lock().await;
    if let Some(code) = known.upgrade() {
        return Ok((code, digest));
    }
    let code = Arc::new(code::make(engine, &digest, bytes).await?);
    *known = Arc::downgrade(&code);
    engine.codes().wake();
    Ok((code, digest))
}

/// Binds code to what its machine offers, and looks up the exports.
///
/// # Errors
/// `Link`; `ExportType` for each export that has another type than the contract says.
pub(crate) fn link(
    machine: &Machine,
    component: &wasmtime::component::Component,
    exports: Exports,
) -> Result<Linked, Refused> {
    let failed = |error| Reason::Link { reason: format!("{error:#}") };
    let pre = machine.linker.instantiate_pre(component).map_err(failed)?;
    let mut reasons = Vec::new();
    let mut check = |interface: &str, error: wasmtime::Error| {
        reasons.push(Reason::ExportType { name: interface.to_owned(), reason: format!("{error:#}") });
    };
    let Exports { mapper, poller, lifecycle } = exports;
    let reconciler = reconciler::GuestIndices::new(&pre).map_err(|error| check(world::RECONCILER, error)).ok();
    let mapper = mapper.then(|| mapper::GuestIndices::new(&pre).map_err(|error| check(world::MAPPER, error)).ok());
    let poller = poller.then(|| poller::GuestIndices::new(&pre).map_err(|error| check(world::POLLER, error)).ok());
    let lifecycle =
        lifecycle.then(|| lifecycle::GuestIndices::new(&pre).map_err(|error| check(world::LIFECYCLE, error)).ok());
    match reconciler {
        Some(reconciler) if reasons.is_empty() => {
            let (mapper, poller, lifecycle) = (mapper.flatten(), poller.flatten(), lifecycle.flatten());
            Ok(Linked { pre, entries: Entries { reconciler, mapper, poller, lifecycle } })
        }
        _ => Err(Refused { reasons }),
    }
}

#[cfg(test)]
mod tests;
