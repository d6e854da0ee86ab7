//! The one place of this room with unsafe code: bytes become code that this process runs.

use wasmtime::component::Component;

use super::Authentic;
use crate::compiler::Made;

/// Bytes that may become code, by where they come from. There is no other way to have one.
#[derive(Clone, Copy)]
pub(crate) enum Trusted<'a> {
    /// Out of the cache, and checked.
    Kept(&'a Authentic),
    /// Straight from the compiler.
    Made(&'a Made),
}

/// Makes a component of what a compiler of this user made.
///
/// # Errors
/// When another engine made it, or it does not fit the pool of this one.
#[expect(unsafe_code, reason = "wasmtime cannot know that the bytes are what it wrote itself")]
pub(crate) fn restore(engine: &wasmtime::Engine, compiled: Trusted<'_>) -> wasmtime::Result<Component> {
    let bytes = match compiled {
        Trusted::Kept(authentic) => authentic.bytes(),
        Trusted::Made(made) => made.bytes(),
    };
    // SAFETY: `deserialize` wants bytes that `Engine::precompile_component` returned. A `Made` has them from that call, or through a pipe from a
    // process that the host started itself, of a program that it was given for this, and which makes that call alone. An `Authentic` is made in
    // one way: by checking a code over all of its bytes and its name, with a key that only this user's hosts can read, and they use it for
    // nothing but what a `Made` had. The bytes are in memory of our own since before the check, so nobody can change them after it.
    unsafe { Component::deserialize(engine, bytes) }
}
