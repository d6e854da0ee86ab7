//! Sets how soon the allocator returns freed memory to the system. This is the only unsafe code of the
//! binary.
//!
//! By default, mimalloc waits for a second and then for the next allocation. An idle host makes none.
//! Evicting the code of idle guests frees most of a host's memory, so without this setting it would keep that
//! memory for good.

use std::ffi::{c_int, c_long};

/// mimalloc's option for the delay, in milliseconds, before freed memory is returned.
const PURGE_DELAY: c_int = 15;

#[expect(unsafe_code, reason = "the allocator's crate declares no safe way to call it")]
// SAFETY: these are symbols of mimalloc, which is linked in as this program's allocator, with the signatures
// in its `mimalloc.h`. They take and return only numbers, ignore unknown options, and may be called at any
// time.
unsafe extern "C" {
    safe fn mi_option_set_default(option: c_int, value: c_long);
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
}

/// Makes the allocator return freed memory at once, unless `MIMALLOC_PURGE_DELAY` is set.
pub(crate) fn keep_little() {
    mi_option_set_default(PURGE_DELAY, 0);
}

#[cfg(test)]
#[path = "memory/tests.rs"]
mod tests;
