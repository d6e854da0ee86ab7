//! From bytes to a component that can be run: every check, and every reason for a refusal at once.

use std::sync::Arc;

use homeostat_digest::Digest;

use crate::bindings::{lifecycle, mapper, poller, reconciler};
use crate::code::{self, Code, Linked};
use crate::component::{Component, Entries, Exports, Facts, Loaded};
use crate::engine::{Engine, Machine};
use crate::grants::Grants;
use crate::limits::Limits;

mod bytes;
mod describe;
mod members;
pub(crate) mod missing;
mod names;
mod refused;
mod survey;
mod world;

pub(crate) use describe::DEADLINE as DESCRIBE_DEADLINE;
pub use refused::{Reason, Refused};
pub(crate) use survey::explain;

/// Compiles, checks and describes. `wanted`: the digest that the bytes must have. `limits`: those of a call of the controller.
pub(crate) async fn load(
    engine: &Engine,
    bytes: Vec<u8>,
    wanted: Option<&Digest>,
    grants: &Grants,
    limits: &Limits,
) -> Result<Component, Refused> {
    let limits = describe::limits(limits);
    bytes::check(&bytes, engine.options().component_bytes_max)?;
    let (digest, bytes) = named(bytes, wanted).await?;
    survey(engine, &digest, &bytes, &limits).await?;
    let code = code(engine, &digest, bytes).await?;
    check(engine, code, digest, grants, &limits).await
}

/// Checks and describes what somebody has loaded, without its bytes. `None`: nobody has, or it is compiled just now.
pub(crate) async fn again(
    engine: &Engine,
    digest: &Digest,
    grants: &Grants,
    limits: &Limits,
) -> Option<Result<Component, Refused>> {
    let code = engine.codes().known(digest)?;
    // What cannot be read again any more has to be loaded.
    let ready = code.ready(engine.codes()).ok()?;
    let checked = check(engine, code, digest.clone(), grants, &describe::limits(limits)).await;
    drop(ready);
    Some(checked)
}

/// Checks and describes code.
async fn check(
    engine: &Engine,
    code: Arc<Code>,
    digest: Digest,
    grants: &Grants,
    limits: &Limits,
) -> Result<Component, Refused> {
    let ready = code.ready(engine.codes()).map_err(|lost| Reason::Malformed { reason: lost.to_string() })?;

    let names = world::Names::of(&ready.component, &code.machine.engine);
    let reasons = world::check(&names);
    if !reasons.is_empty() {
        return Err(Refused { reasons });
    }
    if grants.http.is_empty() && names.imports_package("wasi:http") {
        tracing::debug!(%digest, "it imports wasi:http and is granted no request: each will be denied");
    }
    let optional = |interface| names.exports_interface(interface);
    let exports = Exports {
        mapper: optional(world::MAPPER),
        poller: optional(world::POLLER),
        lifecycle: optional(world::LIFECYCLE),
    };
    let linked = ready.linked(|component| link(&code.machine, component, exports))?;
    let spec = describe::describe(engine, &code.machine, linked, limits).await?;
    let verbs = missing::verbs(&ready.component, &code.machine.engine);
    let facts = Facts {
        digest,
        size_bytes: code.size_bytes,
        imports: names.imports,
        exports: names.exports,
        pooled: code.unpooled.is_none(),
        unpooled: code.unpooled.clone(),
    };
    Ok(Component(Arc::new(Loaded { engine: engine.clone(), code, exports, facts, verbs, spec })))
}

/// Returns the name of a component.
///
/// # Errors
/// `OtherDigest`, before anything is compiled.
async fn named(bytes: Vec<u8>, wanted: Option<&Digest>) -> Result<(Digest, Arc<Vec<u8>>), Refused> {
    let (digest, bytes) = code::blocking(move || (Digest::of(&bytes), Arc::new(bytes))).await?;
    match wanted.filter(|wanted| **wanted != digest) {
        Some(wanted) => Err(Reason::OtherDigest { wanted: wanted.clone(), found: digest }.into()),
        None => Ok((digest, bytes)),
    }
}

/// Refuses, before it is compiled, what would be refused afterwards.
///
/// # Errors
/// Everything that the types of a component say.
async fn survey(engine: &Engine, digest: &Digest, bytes: &Arc<Vec<u8>>, limits: &Limits) -> Result<(), Refused> {
    if engine.codes().known(digest).is_some() {
        return Ok(());
    }
    let (bytes, limits) = (Arc::clone(bytes), limits.clone());
    let reasons = code::blocking(move || survey::check(&bytes, &limits)).await?;
    if reasons.is_empty() { Ok(()) } else { Err(Refused { reasons }) }
}

/// Returns the code of a component. Who loads what another one has, or is compiling, gets the same.
///
/// # Errors
/// Those of compilation.
async fn code(engine: &Engine, digest: &Digest, bytes: Arc<Vec<u8>>) -> Result<Arc<Code>, Refused> {
    let place = engine.codes().place(digest);
    let mut known = place.lock().await;
    if let Some(code) = known.upgrade() {
        return Ok(code);
    }
    let code = Arc::new(code::make(engine, digest, bytes).await?);
    *known = Arc::downgrade(&code);
    engine.codes().wake();
    Ok(code)
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
        let reason = format!("{error:#}; it was built against another version of the contract");
        reasons.push(Reason::ExportType { name: interface.to_owned(), reason });
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
