//! The only unsafe code of this crate: it turns bytes into code that this process runs.

use wasmtime::component::Component;

use super::AuthenticBytes;
use crate::compiler::CompiledCode;

/// Bytes that may become code, by origin. They cannot be constructed in any other way.
#[derive(Clone, Copy)]
pub(crate) enum TrustedBytes<'a> {
    /// From the cache, and verified.
    Kept(&'a AuthenticBytes),
    /// Straight from the compiler.
    Made(&'a CompiledCode),
}

/// Loads a component from compiled code.
///
/// # Errors
/// When another engine compiled it, or it does not fit the pool of this one.
#[expect(unsafe_code, reason = "wasmtime cannot know that the bytes are what it wrote itself")]
pub(crate) fn restore(engine: &wasmtime::Engine, compiled: TrustedBytes<'_>) -> wasmtime::Result<Component> {
    let bytes = match compiled {
        TrustedBytes::Kept(authentic) => authentic.bytes(),
        TrustedBytes::Made(made) => made.bytes(),
    };
    // SAFETY: `deserialize` requires bytes that `Engine::precompile_component` returned. A `CompiledCode` has
    // them from that call, or through a pipe from a compiler process. The host started that process itself,
    // from the program configured for it, which makes only that call. An `AuthenticBytes` is created in one
    // way only: by verifying a MAC over all of its bytes and its name. Only this user's hosts can read the
    // key, and they use it for nothing but the bytes of a `CompiledCode`. The bytes are private memory since
    // before the check, so no other process can change them after it.
    unsafe { Component::deserialize(engine, bytes) }
}
