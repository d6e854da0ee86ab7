//! Obtains code: from the cache, or by compiling it.

use std::sync::Arc;
use std::time::Instant;

use homeostat_digest::Digest;

use crate::cache::{self, AuthenticBytes, Entry, EntryName, TrustedBytes};
use crate::code::{Code, Origin};
use crate::compiler::{CompileTask, CompiledCode};
use crate::engine::Engine;
use crate::instances::Machine;
use crate::load_error::Reason;
use crate::tier::Tier;

/// Reads the code of a component from the cache, or compiles and caches it. The code is optimised, or of this tier
/// if no optimised code is cached. A component that the baseline compiler does not support gets optimised code.
///
/// Both run on threads for blocking work; only a compilation waits for a permit. *Cancel safety*: a
/// compilation that has begun runs to its end, and holds its permit until then.
///
/// # Errors
/// `Malformed`, `Limit`, `Compiler`.
pub(crate) async fn compile_or_restore(
    engine: &Engine,
    digest: &Digest,
    bytes: Arc<Vec<u8>>,
    tier: Tier,
) -> Result<Code, Reason> {
    let start = Instant::now();
    let (known, name, size_bytes) = (engine.clone(), digest.clone(), bytes.len() as u64);
    let code = match blocking(move || from_cache(&known, &name, size_bytes, tier)).await? {
        Some(code) => code,
        None => {
            let permit = engine.compilations().permit().await;
            let (engine, name) = (engine.clone(), digest.clone());
            let work = move || {
                let _permit = permit;
                compile(&engine, &name, &bytes, tier)
            };
            blocking(work).await??
        }
    };
    tracing::debug!(%digest, origin = ?code.origin, tier = code.tier.as_str(), unpooled = ?code.unpooled, took = ?start.elapsed(), "component made ready");
    Ok(code)
}

/// Runs `work` on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Reason> {
    let failed = |error: tokio::task::JoinError| Reason::Compiler { reason: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// Compiles a component, and caches usable code.
fn compile(engine: &Engine, digest: &Digest, bytes: &[u8], tier: Tier) -> Result<Code, Reason> {
    match compile_tier(engine, digest, bytes, tier) {
        // The baseline compiler supports fewer features of WebAssembly.
        Err(Reason::Malformed { reason } | Reason::Unsupported { needs: reason } | Reason::Compiler { reason })
            if tier == Tier::Baseline =>
        {
            tracing::info!(%digest, reason, "a component has no baseline code, so its load waits for optimised code");
            compile_tier(engine, digest, bytes, Tier::Optimised)
        }
        compiled => compiled,
    }
}

fn compile_tier(engine: &Engine, digest: &Digest, bytes: &[u8], tier: Tier) -> Result<Code, Reason> {
    let (options, own) = (engine.options(), pooled(engine, tier)?);
    let task = CompileTask::of(options, tier);
    let made = engine.compilations().compile(options.compiler.as_ref(), &task, &own.engine, bytes)?;
    usable(engine, digest, bytes.len(), tier, &made)
}

/// Compiles optimised code in the background, and caches it. Returns `None` if `unused` ended before it.
pub(crate) fn optimise(
    engine: &Engine,
    digest: &Digest,
    bytes: &[u8],
    unused: impl Future<Output = ()>,
) -> Option<Result<Code, Reason>> {
    let (options, own) = (engine.options(), &engine.pooled().engine);
    let task = CompileTask::in_background(options);
    let made = engine.compilations().compile_while_used(options.compiler.as_ref(), &task, own, bytes, unused)?;
    Some(made.and_then(|made| usable(engine, digest, bytes.len(), Tier::Optimised, &made)))
}

/// Removes the cached baseline code of a component, which has optimised code.
pub(crate) fn forget_baseline(engine: &Engine, digest: &Digest) {
    let (Some(cache), Ok(machine)) = (engine.cache(), pooled(engine, Tier::Baseline)) else { return };
    for is_pooled in [true, false] {
        cache.remove(&EntryName::of(digest, &machine.engine, is_pooled, Tier::Baseline));
    }
}

fn pooled(engine: &Engine, tier: Tier) -> Result<Arc<Machine>, Reason> {
    engine.pooled_of(tier).map_err(|error| Reason::Compiler { reason: error.to_string() })
}

/// Returns compiled code on the machine that it fits, and caches it.
fn usable(
    engine: &Engine,
    digest: &Digest,
    size_bytes: usize,
    tier: Tier,
    made: &CompiledCode,
) -> Result<Code, Reason> {
    let pooled = pooled(engine, tier)?;
    let (machine, component, unpooled) = match cache::restore(&pooled.engine, TrustedBytes::Made(made)) {
        Ok(component) => (Arc::clone(&pooled), component, None),
        Err(error) => {
            let unusable = |error: &dyn std::fmt::Display| Reason::Compiler {
                reason: format!("its compiled code cannot be loaded: {error:#}"),
            };
            // The component exceeds a bound of the pool, which the error names.
            let machine = engine.on_demand_of(tier).map_err(|_| unusable(&error))?;
            let component =
                cache::restore(&machine.engine, TrustedBytes::Made(made)).map_err(|error| unusable(&error))?;
            (machine, component, Some(format!("{error:#}")))
        }
    };
    let entry = keep(engine, digest, made, &EntryName::of(digest, &pooled.engine, unpooled.is_none(), tier));
    let code = Code::new(Origin::Compiled, tier, size_bytes as u64, (machine, unpooled), component);
    Ok(code.kept_at(entry))
}

/// Returns cached code: optimised, or else of this tier.
fn from_cache(engine: &Engine, digest: &Digest, size_bytes: u64, tier: Tier) -> Option<Code> {
    let of_tier = |tier| tier_from_cache(engine, digest, size_bytes, tier);
    of_tier(Tier::Optimised).or_else(|| if tier == Tier::Optimised { None } else { of_tier(tier) })
}

fn tier_from_cache(engine: &Engine, digest: &Digest, size_bytes: u64, tier: Tier) -> Option<Code> {
    let cache = engine.cache()?;
    let pooled = engine.pooled_of(tier).ok()?;
    // Both machines compile alike, so the entry name for the on-demand machine is known before that machine
    // starts.
    let found = |is_pooled| {
        let entry = cache.find(&EntryName::of(digest, &pooled.engine, is_pooled, tier))?;
        let compiled = entry.read()?;
        Some((entry, compiled))
    };
    let made = |machine: Arc<Machine>, (entry, compiled): (Entry, AuthenticBytes), unpooled| {
        let component = cache::restore(&machine.engine, TrustedBytes::Kept(&compiled)).ok()?;
        let code = Code::new(Origin::Cache, tier, size_bytes, (machine, unpooled), component);
        Some(code.kept_at(Some(entry)))
    };
    if let Some(found) = found(true) {
        return made(Arc::clone(&pooled), found, None);
    }
    let found = found(false)?;
    // The pool's error names the exceeded bound.
    let refused = cache::restore(&pooled.engine, TrustedBytes::Kept(&found.1)).err();
    let unpooled = refused.map_or_else(|| "it was compiled for another pool".to_owned(), |error| format!("{error:#}"));
    made(engine.on_demand_of(tier).ok()?, found, Some(unpooled))
}

/// Caches compiled code, and returns its entry.
fn keep(engine: &Engine, digest: &Digest, made: &CompiledCode, name: &EntryName) -> Option<Entry> {
    let cache = engine.cache()?;
    match cache.put(name, made.bytes()) {
        Ok(()) => cache.find(name),
        Err(error) => {
            tracing::warn!(%digest, %error, "cannot cache a compiled component: the next start compiles it again");
            None
        }
    }
}
