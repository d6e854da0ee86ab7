//! From bytes to a component that can be run: every check, and every reason for a refusal at once.

use std::sync::Arc;

use wasmtime::component::InstancePre;

use crate::bindings::{lifecycle, mapper, poller, reconciler};
use crate::component::{Component, Entries, Facts, Loaded};
use crate::digest::Digest;
use crate::engine::{Engine, Machine};
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
    let compiled = compile(engine.clone(), bytes).await?;
    let Compiled { digest, machine, component, pooled } = compiled;

    let names = world::Names::of(&component, &machine.engine);
    let mut reasons = world::check(&names, grants);
    if !reasons.is_empty() {
        return Err(Refused { reasons });
    }
    let pre =
        machine.linker.instantiate_pre(&component).map_err(|error| Reason::Link { reason: format!("{error:#}") })?;
    let entries = entries(&pre, &names, &mut reasons);
    let (Some(entries), true) = (entries, reasons.is_empty()) else {
        return Err(Refused { reasons });
    };
    let spec = describe::describe(engine, &machine, &pre, &entries).await?;
    let facts = Facts { digest, size_bytes, imports: names.imports, exports: names.exports, pooled };
    Ok(Component(Arc::new(Loaded { engine: engine.clone(), machine, pre, entries, facts, spec })))
}

struct Compiled {
    digest: Digest,
    machine: Arc<Machine>,
    component: wasmtime::component::Component,
    pooled: bool,
}

/// Compiles on a thread for blocking work; for the pool if the component fits.
async fn compile(engine: Engine, bytes: Vec<u8>) -> Result<Compiled, Refused> {
    let work = move || {
        let digest = Digest::of(&bytes);
        let machine = Arc::clone(engine.pooled());
        let error = match wasmtime::component::Component::from_binary(&machine.engine, &bytes) {
            Ok(component) => return Ok(Compiled { digest, machine, component, pooled: true }),
            Err(error) => error,
        };
        // What is too large for the pool compiles here; what is wrong is wrong here too.
        let Ok(machine) = engine.on_demand() else { return Err(malformed(&error)) };
        match wasmtime::component::Component::from_binary(&machine.engine, &bytes) {
            Ok(component) => Ok(Compiled { digest, machine, component, pooled: false }),
            Err(_) => Err(malformed(&error)),
        }
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(compiled) => compiled.map_err(Refused::from),
        Err(error) => Err(Reason::Malformed { reason: format!("the compiler failed: {error}") }.into()),
    }
}

fn malformed(error: &wasmtime::Error) -> Reason {
    Reason::Malformed { reason: format!("{error:#}") }
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
