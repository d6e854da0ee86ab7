//! From bytes to a component that can be run: every check, and every reason for a refusal at once.

use std::sync::Arc;

use homeostat_digest::Digest;

use crate::code::Code;
use crate::component::Component;
use crate::contract;
use crate::engine::Engine;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::link::link;
use crate::loaded::{ComponentInfo, Exports, LoadedComponent};
use crate::missing;
use crate::refused::{LoadError, Reason};

mod bytes;
pub(crate) mod compile;
mod describe;
mod members;
mod survey;
mod world;

pub(crate) use describe::DEADLINE as DESCRIBE_DEADLINE;

impl Engine {
    /// Compiles and checks a component, and asks it what it is, within the default limits of one call.
    ///
    /// Takes about 50 ms for an ordinary guest, and a few where its compilation was kept; compilation runs in processes of their own
    /// ([`EngineOptions::compiler`]), else on threads for blocking work. Bytes that are loaded already are not compiled again. `grants` keep nothing from
    /// loading, for languages import what their code never calls: each call is checked, by [`crate::layers::Granted`]. Must be called in a tokio
    /// runtime with time enabled.
    ///
    /// # Errors
    /// All reasons at once. *Cancel safety*: safe; a compilation that is under way runs to its end.
    pub async fn load(&self, bytes: impl Into<Vec<u8>>, grants: &Grants) -> Result<Component, LoadError> {
        load(self, bytes.into(), None, grants, &Limits::default()).await
    }

    /// As [`Engine::load`], for a controller whose calls have these limits: `describe` may use as much, where that is more than the default. Bytes
    /// that have another digest than `wanted` are refused, and not compiled.
    ///
    /// # Errors
    /// All reasons at once. *Cancel safety*: as [`Engine::load`].
    pub async fn load_within(
        &self,
        bytes: impl Into<Vec<u8>>,
        wanted: Option<&Digest>,
        grants: &Grants,
        limits: &Limits,
    ) -> Result<Component, LoadError> {
        load(self, bytes.into(), wanted, grants, limits).await
    }

    /// As [`Engine::load_within`], for a component that somebody has loaded and still has: its bytes are not needed, and nothing is compiled. `None`:
    /// nobody has, or not yet.
    ///
    /// # Errors
    /// All reasons at once. *Cancel safety*: safe.
    pub async fn load_known(
        &self,
        digest: &Digest,
        grants: &Grants,
        limits: &Limits,
    ) -> Option<Result<Component, LoadError>> {
        load_known(self, digest, grants, limits).await
    }
}

/// Compiles, checks and describes. `wanted`: the digest that the bytes must have. `limits`: those of a call of the controller.
async fn load(
    engine: &Engine,
    bytes: Vec<u8>,
    wanted: Option<&Digest>,
    grants: &Grants,
    limits: &Limits,
) -> Result<Component, LoadError> {
    let limits = describe::limits(limits);
    bytes::check(&bytes, engine.options().component_bytes_max)?;
    let (digest, bytes) = check_digest(bytes, wanted).await?;
    survey(engine, &digest, &bytes, &limits).await?;
    let code = code(engine, &digest, bytes).await?;
    check(engine, code, digest, grants, &limits).await
}

/// Checks and describes what somebody has loaded, without its bytes. `None`: nobody has, or it is compiled just now.
async fn load_known(
    engine: &Engine,
    digest: &Digest,
    grants: &Grants,
    limits: &Limits,
) -> Option<Result<Component, LoadError>> {
    let code = engine.codes().find(digest)?;
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
) -> Result<Component, LoadError> {
    let ready = code.ready(engine.codes()).map_err(|lost| Reason::Malformed { reason: lost.to_string() })?;

    let names = world::InterfaceNames::of(&ready.component, &code.machine.engine);
    let reasons = world::check(&names);
    if !reasons.is_empty() {
        return Err(LoadError { reasons });
    }
    if grants.http.is_empty() && names.imports_package("wasi:http") {
        tracing::debug!(%digest, "it imports wasi:http and is granted no request: each will be denied");
    }
    let optional = |interface| names.exports_interface(interface);
    let exports = Exports {
        mapper: optional(contract::MAPPER),
        poller: optional(contract::POLLER),
        lifecycle: optional(contract::LIFECYCLE),
    };
    let linked = ready.linked(|component| link(&code.machine, component, exports))?;
    let spec = describe::describe(engine, &code.machine, linked, limits).await?;
    let verbs = missing::verbs(&ready.component, &code.machine.engine);
    let facts = ComponentInfo {
        digest,
        size_bytes: code.size_bytes,
        imports: names.imports,
        exports: names.exports,
        pooled: code.unpooled.is_none(),
        unpooled: code.unpooled.clone(),
    };
    Ok(Component(Arc::new(LoadedComponent { engine: engine.clone(), code, exports, facts, verbs, spec })))
}

/// Returns the name of a component.
///
/// # Errors
/// `OtherDigest`, before anything is compiled.
async fn check_digest(bytes: Vec<u8>, wanted: Option<&Digest>) -> Result<(Digest, Arc<Vec<u8>>), LoadError> {
    let (digest, bytes) = compile::blocking(move || (Digest::of(&bytes), Arc::new(bytes))).await?;
    match wanted.filter(|wanted| **wanted != digest) {
        Some(wanted) => Err(Reason::OtherDigest { wanted: wanted.clone(), found: digest }.into()),
        None => Ok((digest, bytes)),
    }
}

/// Refuses, before it is compiled, what would be refused afterwards.
///
/// # Errors
/// Everything that the types of a component say.
async fn survey(engine: &Engine, digest: &Digest, bytes: &Arc<Vec<u8>>, limits: &Limits) -> Result<(), LoadError> {
    if engine.codes().find(digest).is_some() {
        return Ok(());
    }
    let (bytes, limits) = (Arc::clone(bytes), limits.clone());
    let reasons = compile::blocking(move || survey::check(&bytes, &limits)).await?;
    if reasons.is_empty() { Ok(()) } else { Err(LoadError { reasons }) }
}

/// Returns the code of a component. Who loads what another one has, or is compiling, gets the same.
///
/// # Errors
/// Those of compilation.
async fn code(engine: &Engine, digest: &Digest, bytes: Arc<Vec<u8>>) -> Result<Arc<Code>, LoadError> {
    let place = engine.codes().slot(digest);
    let mut known = place.lock().await;
    if let Some(code) = known.upgrade() {
        return Ok(code);
    }
    let code = Arc::new(compile::compile_or_restore(engine, digest, bytes).await?);
    *known = Arc::downgrade(&code);
    engine.codes().notify_loaded();
    Ok(code)
}

#[cfg(test)]
mod tests;
