//! The parts that the standard library lacks on the target `wasm32-unknown-unknown`, because the target has no system: an
//! allocator that does not grow the memory at once, and messages of panics.
//!
//! With `wasm32-wasip2` the standard library calls WASI. Its imports, and the adapter around each, make an instance half
//! as expensive again.

mod arena;
mod panic_hook;

pub(crate) use panic_hook::report_panics;
