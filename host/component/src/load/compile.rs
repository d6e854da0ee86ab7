//! Obtains code: from the cache, or by compiling it.

use std::sync::Arc;
use std::time::Instant;

use homeostat_digest::Digest;

use crate::cache::{self, AuthenticBytes, Entry, EntryName, TrustedBytes};
use crate::code::{Code, Origin};
use crate::compiler::CompiledCode;
use crate::engine::Engine;
use crate::instances::Machine;
use crate::load_error::Reason;

/// Reads the code of a component from the cache, or compiles and caches it.
///
/// Both run on threads for blocking work; only a compilation waits for a permit. *Cancel safety*: a
/// compilation that has begun runs to its end, and holds its permit until then.
///
/// # Errors
/// `Malformed`, `Limit`, `Compiler`.
pub(crate) async fn compile_or_restore(engine: &Engine, digest: &Digest, bytes: Arc<Vec<u8>>) -> Result<Code, Reason> {
    let start = Instant::now();
    let (known, name, size_bytes) = (engine.clone(), digest.clone(), bytes.len() as u64);
    let code = match blocking(move || from_cache(&known, &name, size_bytes)).await? {
        Some(code) => code,
        None => {
            let permit = engine.compilations().permit().await;
            let (engine, name) = (engine.clone(), digest.clone());
            let work = move || {
                let _permit = permit;
                compile(&engine, &name, &bytes)
            };
            blocking(work).await??
        }
    };
    tracing::debug!(%digest, origin = ?code.origin, unpooled = ?code.unpooled, took = ?start.elapsed(), "component made ready");
    Ok(code)
}

/// Runs `work` on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Reason> {
    let failed = |error: tokio::task::JoinError| Reason::Compiler { reason: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// Compiles a component, and caches usable code.
fn compile(engine: &Engine, digest: &Digest, bytes: &[u8]) -> Result<Code, Reason> {
    let mut machine = Arc::clone(engine.pooled());
    let made = engine.compilations().compile(engine.options(), &machine.engine, bytes)?;
    let (component, unpooled) = match cache::restore(&machine.engine, TrustedBytes::Made(&made)) {
        Ok(component) => (component, None),
        Err(error) => {
            let unusable = |error: &dyn std::fmt::Display| Reason::Compiler {
                reason: format!("its compiled code cannot be loaded: {error:#}"),
            };
            // The component exceeds a bound of the pool, which the error names.
            machine = engine.on_demand().map_err(|_| unusable(&error))?;
            let component =
                cache::restore(&machine.engine, TrustedBytes::Made(&made)).map_err(|error| unusable(&error))?;
            (component, Some(format!("{error:#}")))
        }
    };
    let entry = keep(engine, digest, &made, unpooled.is_none());
    let code = Code::new(Origin::Compiled, bytes.len() as u64, (machine, unpooled), component);
    Ok(code.kept_at(entry))
}

fn from_cache(engine: &Engine, digest: &Digest, size_bytes: u64) -> Option<Code> {
    let cache = engine.cache()?;
    let pooled = engine.pooled();
    // Both machines compile alike, so the entry name for the on-demand machine is known before that machine
    // starts.
    let found = |is_pooled| {
        let entry = cache.find(&EntryName::of(digest, &pooled.engine, is_pooled))?;
        let compiled = entry.read()?;
        Some((entry, compiled))
    };
    let made = |machine: Arc<Machine>, (entry, compiled): (Entry, AuthenticBytes), unpooled| {
        let component = cache::restore(&machine.engine, TrustedBytes::Kept(&compiled)).ok()?;
        let code = Code::new(Origin::Cache, size_bytes, (machine, unpooled), component);
        Some(code.kept_at(Some(entry)))
    };
    if let Some(found) = found(true) {
        return made(Arc::clone(pooled), found, None);
    }
    let found = found(false)?;
    // The pool's error names the exceeded bound.
    let refused = cache::restore(&pooled.engine, TrustedBytes::Kept(&found.1)).err();
    let unpooled = refused.map_or_else(|| "it was compiled for another pool".to_owned(), |error| format!("{error:#}"));
    made(engine.on_demand().ok()?, found, Some(unpooled))
}

/// Caches compiled code, and returns its entry.
fn keep(engine: &Engine, digest: &Digest, made: &CompiledCode, pooled: bool) -> Option<Entry> {
    let cache = engine.cache()?;
    let name = EntryName::of(digest, &engine.pooled().engine, pooled);
    match cache.put(&name, made.bytes()) {
        Ok(()) => cache.find(&name),
        Err(error) => {
            tracing::warn!(%digest, %error, "cannot cache a compiled component: the next start compiles it again");
            None
        }
    }
}
