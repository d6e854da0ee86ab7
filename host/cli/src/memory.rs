//! The one place of this program with unsafe code: how soon the allocator gives back what was freed.
//!
//! By default it waits for a second, and then for somebody to allocate, which in a host at rest nobody does. What a host frees when the code
//! of its guests goes to rest is most of what it had, so it would keep that for good.

use std::ffi::{c_int, c_long};

/// After how many milliseconds memory that is free goes back to the system.
const PURGE_DELAY: c_int = 15;

#[expect(unsafe_code, reason = "the allocator's crate declares no safe way to call it")]
// SAFETY: the symbols are mimalloc's own, which is linked in as this program's allocator, with the signatures of its `mimalloc.h`. They
// take and return numbers alone, ignore the number of an option that there is none of, and may be called at any time.
unsafe extern "C" {
    safe fn mi_option_set_default(option: c_int, value: c_long);
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
}

/// Makes the allocator give back at once what nobody uses, unless the environment says otherwise (`MIMALLOC_PURGE_DELAY`).
pub(crate) fn keep_little() {
    mi_option_set_default(PURGE_DELAY, 0);
}

#[cfg(test)]
#[path = "memory/tests.rs"]
mod tests;
