//! The one place of this room with unsafe code: bytes become code that this process runs.

use wasmtime::component::Component;

use super::AuthenticBytes;
use crate::compiler::CompiledCode;

/// Bytes that may become code, by where they come from. There is no other way to have one.
#[derive(Clone, Copy)]
pub(crate) enum TrustedBytes<'a> {
    /// Out of the cache, and checked.
    Kept(&'a AuthenticBytes),
    /// Straight from the compiler.
    Made(&'a CompiledCode),
}

/// Makes a component of what a compiler of this user made.
///
/// # Errors
/// When another engine made it, or it does not fit the pool of this one.
#[expect(unsafe_code, reason = "wasmtime cannot know that the bytes are what it wrote itself")]
pub(crate) fn restore(engine: &wasmtime::Engine, compiled: TrustedBytes<'_>) -> wasmtime::Result<Component> {
    let bytes = match compiled {
        TrustedBytes::Kept(authentic) => authentic.bytes(),
        TrustedBytes::Made(made) => made.bytes(),
    };
    // SAFETY: `deserialize` wants bytes that `Engine::precompile_component` returned. A `CompiledCode` has them from that call, or through a pipe from a
    // process that the host started itself, of a program that it was given for this, and which makes that call alone. An `AuthenticBytes` is made in
    // one way: by checking a code over all of its bytes and its name, with a key that only this user's hosts can read, and they use it for
    // nothing but what a `CompiledCode` had. The bytes are in memory of our own since before the check, so nobody can change them after it.
    unsafe { Component::deserialize(engine, bytes) }
}
