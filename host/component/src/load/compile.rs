//! Makes code: from the cache, or else by a compilation.

use std::sync::Arc;
use std::time::Instant;

use homeostat_digest::Digest;

use crate::cache::{self, AuthenticBytes, Entry, EntryName, TrustedBytes};
use crate::code::{Code, Origin};
use crate::compiler::CompiledCode;
use crate::engine::Engine;
use crate::machine::Machine;
use crate::refused::Reason;

/// Takes the code of a component from the cache, or compiles it and keeps it there.
///
/// Both run on threads for blocking work; only a compilation waits for its turn. *Cancel safety*: a compilation that has begun goes on to its end,
/// and so does what it holds.
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

/// Does `work` on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Reason> {
    let failed = |error: tokio::task::JoinError| Reason::Compiler { reason: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// Compiles a component, and keeps the code of one that can be used.
fn compile(engine: &Engine, digest: &Digest, bytes: &[u8]) -> Result<Code, Reason> {
    let mut machine = Arc::clone(engine.pooled());
    let made = engine.compilations().compile(engine.options(), &machine.engine, bytes)?;
    let (component, unpooled) = match cache::restore(&machine.engine, TrustedBytes::Made(&made)) {
        Ok(component) => (component, None),
        Err(error) => {
            let unusable = |error: &dyn std::fmt::Display| Reason::Compiler {
                reason: format!("its code is of no use: {error:#}"),
            };
            // It exceeds a bound of the pool, which the error names.
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
    // Both machines compile alike, so the name for the other one is known before it is started.
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
    // The pool says again which bound it exceeds.
    let refused = cache::restore(&pooled.engine, TrustedBytes::Kept(&found.1)).err();
    let unpooled = refused.map_or_else(|| "it was compiled for another pool".to_owned(), |error| format!("{error:#}"));
    made(engine.on_demand().ok()?, found, Some(unpooled))
}

/// Keeps what was compiled, and returns where.
fn keep(engine: &Engine, digest: &Digest, made: &CompiledCode, pooled: bool) -> Option<Entry> {
    let cache = engine.cache()?;
    let name = EntryName::of(digest, &engine.pooled().engine, pooled);
    match cache.put(&name, made.bytes()) {
        Ok(()) => cache.find(&name),
        Err(error) => {
            tracing::warn!(%digest, %error, "a compiled component could not be kept: the next start compiles it again");
            None
        }
    }
}
