//! Loads components: from bytes to a runnable component, with every check, and with all reasons for a refusal
//! at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_digest::Digest;

use crate::component::{Component, ComponentInfo, Exports, LoadedComponent};
use crate::contract;
use crate::engine::Engine;
use crate::limits::Limits;
use crate::link::link;
use crate::load_error::{LoadError, Reason};
use crate::missing;
use crate::optimiser::Room;
use crate::options::EngineOptions;
use crate::tier::{Tier, TierPolicy};
use crate::tiered_code::TieredCode;

mod assigned_kinds;
mod bytes;
pub(crate) mod compile;
mod describe;
mod members;
mod optimise;
mod precheck;
mod world;

pub use assigned_kinds::AssignedKinds;
pub(crate) use describe::DEADLINE as DESCRIBE_DEADLINE;

impl Engine {
    /// Compiles and checks a component, and calls its `describe`, within the default limits of one call and without
    /// settings.
    ///
    /// Takes about 50 ms for an ordinary guest, and a few milliseconds if its code is cached. The code of a large
    /// component is of the quality that [`EngineOptions::tiers`](crate::EngineOptions::tiers) says. Compilation
    /// runs in separate processes ([`EngineOptions::compiler`](crate::EngineOptions::compiler)), otherwise on threads for blocking work.
    /// Bytes that are already loaded are not compiled again.
    ///
    /// No component is refused for its imports of APIs that need a grant, because languages import interfaces
    /// that their code never calls. [`crate::layers::Granted`] checks each call instead. Must be called in a
    /// tokio runtime with time enabled.
    ///
    /// # Errors
    /// A [`LoadError`] with all reasons. *Cancel safety*: safe; a compilation that has begun runs to its end.
    pub async fn load(&self, bytes: impl Into<Vec<u8>>) -> Result<Component, LoadError> {
        load(self, bytes.into(), None, &Limits::default(), &BTreeMap::new()).await
    }

    /// As [`Engine::load`], for a controller with these limits and settings: `describe` may use the larger of each
    /// limit and its default, and reads the settings. Bytes with another digest than `wanted` are refused before
    /// compilation.
    ///
    /// # Errors
    /// A [`LoadError`] with all reasons. *Cancel safety*: as [`Engine::load`].
    pub async fn load_within(
        &self,
        bytes: impl Into<Vec<u8>>,
        wanted: Option<&Digest>,
        limits: &Limits,
        config: &BTreeMap<String, String>,
    ) -> Result<Component, LoadError> {
        load(self, bytes.into(), wanted, limits, config).await
    }

    /// As [`Engine::load_within`], for a component that is already loaded elsewhere: it needs no bytes and
    /// compiles nothing. Returns `None` if the component is not loaded, or still compiles.
    ///
    /// # Errors
    /// A [`LoadError`] with all reasons. *Cancel safety*: safe.
    pub async fn load_known(
        &self,
        digest: &Digest,
        limits: &Limits,
        config: &BTreeMap<String, String>,
    ) -> Option<Result<Component, LoadError>> {
        load_known(self, digest, limits, config).await
    }
}

impl Component {
    /// Calls `describe` again, for a controller with these limits and settings, as [`Engine::load_within`]. Both
    /// components share the code. Kinds that a manifest assigned do not count.
    ///
    /// # Errors
    /// A [`LoadError`] with all reasons. *Cancel safety*: safe.
    pub async fn described_with(&self, limits: &Limits, config: &BTreeMap<String, String>) -> Result<Self, LoadError> {
        let (code, digest) = (Arc::clone(&self.0.code), self.digest().clone());
        check(&self.0.engine, code, digest, &describe::limits(limits), config).await
    }
}

/// Compiles, checks and describes a component. `wanted` is the required digest of the bytes; `limits` are
/// those of a call of the controller, and `config` are its settings.
async fn load(
    engine: &Engine,
    bytes: Vec<u8>,
    wanted: Option<&Digest>,
    limits: &Limits,
    config: &BTreeMap<String, String>,
) -> Result<Component, LoadError> {
    let limits = describe::limits(limits);
    bytes::check(&bytes, engine.options().component_bytes_max)?;
    let (digest, bytes) = check_digest(bytes, wanted).await?;
    survey(engine, &digest, &bytes, &limits).await?;
    let code = code(engine, &digest, bytes).await?;
    check(engine, code, digest, &limits, config).await
}

/// Checks and describes a component that is already loaded, without its bytes. `None` if it is not loaded, or
/// still compiles.
async fn load_known(
    engine: &Engine,
    digest: &Digest,
    limits: &Limits,
    config: &BTreeMap<String, String>,
) -> Option<Result<Component, LoadError>> {
    let code = engine.codes().find(digest)?;
    // Evicted code that cannot be reloaded has to be loaded from bytes.
    let ready = code.current().ready(engine.codes()).ok()?;
    let checked = check(engine, code, digest.clone(), &describe::limits(limits), config).await;
    drop(ready);
    Some(checked)
}

/// Checks and describes code.
async fn check(
    engine: &Engine,
    tiered: Arc<TieredCode>,
    digest: Digest,
    limits: &Limits,
    config: &BTreeMap<String, String>,
) -> Result<Component, LoadError> {
    // Optimised code that replaces this one has the same types and description.
    let code = tiered.current();
    let ready = code.ready(engine.codes()).map_err(|lost| Reason::Malformed { reason: lost.to_string() })?;

    let names = world::InterfaceNames::of(&ready.component, &code.machine.engine);
    let reasons = world::check(&names);
    if !reasons.is_empty() {
        return Err(LoadError { reasons });
    }
    let optional = |interface| names.exports_interface(interface);
    let exports = Exports {
        mapper: optional(contract::MAPPER),
        poller: optional(contract::POLLER),
        lifecycle: optional(contract::LIFECYCLE),
        converter: optional(contract::CONVERTER),
    };
    let linked = ready.linked(|component| link(&code.machine, component, exports))?;
    let (spec, describe_cost) = describe::describe(engine, &code.machine, linked, limits, config).await?;
    let verbs = missing::verbs(&ready.component, &code.machine.engine);
    let facts = ComponentInfo {
        digest,
        size_bytes: code.size_bytes,
        imports: names.imports,
        exports: names.exports,
        pooled: code.unpooled.is_none(),
        unpooled: code.unpooled.clone(),
    };
    Ok(Component(
        Arc::new(LoadedComponent { engine: engine.clone(), code: tiered, exports, facts, verbs, spec, describe_cost }),
        None,
    ))
}

/// Computes the digest of a component, and compares it.
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

/// Refuses an invalid component before it is compiled.
///
/// # Errors
/// All reasons that the component's types give.
async fn survey(engine: &Engine, digest: &Digest, bytes: &Arc<Vec<u8>>, limits: &Limits) -> Result<(), LoadError> {
    if engine.codes().find(digest).is_some() {
        return Ok(());
    }
    let (bytes, limits) = (Arc::clone(bytes), limits.clone());
    let reasons = compile::blocking(move || precheck::check(&bytes, &limits)).await?;
    if reasons.is_empty() { Ok(()) } else { Err(LoadError { reasons }) }
}

/// Returns the code of a component. Concurrent loads of the same bytes share one compilation.
///
/// # Errors
/// Those of compilation.
async fn code(engine: &Engine, digest: &Digest, bytes: Arc<Vec<u8>>) -> Result<Arc<TieredCode>, LoadError> {
    let place = engine.codes().slot(digest);
    let _load = place.load.lock().await;
    if let Some(code) = place.code() {
        return Ok(code);
    }
    let (tier, room) = choose_tier(engine, &bytes).await?;
    let code = compile::compile_or_restore(engine, digest, Arc::clone(&bytes), tier).await?;
    let code = match room {
        Some(room) if code.tier == Tier::Baseline => engine.optimiser().add(digest, bytes, code, room),
        _ => Arc::new(TieredCode::new(code).0),
    };
    place.set(&code);
    engine.codes().notify_loaded();
    Ok(code)
}

/// Chooses the quality of the code that a load waits for, and reserves room if optimised code is to follow.
async fn choose_tier(engine: &Engine, bytes: &Arc<Vec<u8>>) -> Result<(Tier, Option<Room>), LoadError> {
    let EngineOptions { tiers, baseline_function_bytes_min, .. } = *engine.options();
    if tiers == TierPolicy::Optimised || (bytes.len() as u64) < baseline_function_bytes_min {
        return Ok((Tier::Optimised, None));
    }
    let counted = Arc::clone(bytes);
    if compile::blocking(move || bytes::function_bytes(&counted)).await? < baseline_function_bytes_min {
        return Ok((Tier::Optimised, None));
    }
    if tiers == TierPolicy::Baseline {
        return Ok((Tier::Baseline, None));
    }
    let room = engine.optimiser().reserve(bytes.len());
    let tier = if room.is_some() { Tier::Baseline } else { Tier::Optimised };
    Ok((tier, room))
}

#[cfg(test)]
mod tests;
