//! The one place with unsafe code: bytes become code that this process runs.

use wasmtime::component::Component;

use super::Authentic;

/// Makes a component of what this user's host compiled before.
///
/// # Errors
/// When another engine made it, or it does not fit the pool of this one.
#[expect(unsafe_code, reason = "wasmtime cannot know that the bytes are what it wrote itself")]
pub(crate) fn restore(engine: &wasmtime::Engine, compiled: &Authentic) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize` wants bytes that `Component::serialize` returned. An `Authentic` is made in one way: by checking a code over
    // all of its bytes and its name, with a key that only this user's hosts can read, and they use it for nothing but what `serialize`
    // returned. The bytes are in memory of our own since before the check, so nobody can change them after it.
    unsafe { Component::deserialize(engine, compiled.bytes()) }
}
