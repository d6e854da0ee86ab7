//! The allocator: `dlmalloc`, as in the standard library, which takes its first memory from an arena inside of the
//! module.
//!
//! A fresh instance has the arena from the start. The allocator of the standard library grows the memory for the first
//! allocation of each call. Then the host's system changes the protection of pages, under a lock that all threads
//! share.
#![allow(unsafe_code, reason = "an allocator cannot be written without it")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::memory_grow;
use core::cell::{Cell, UnsafeCell};
use core::ptr::null_mut;

use dlmalloc::{Allocator, Dlmalloc};

/// Bytes of the arena. A reconcile that needs more grows the memory.
const ARENA_BYTES: usize = 512 << 10;
/// The unit in which a memory grows.
const PAGE_BYTES: usize = 64 << 10;

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Pages { arena_taken: Cell::new(false) })));

/// Zeros, so that they take no space in the module.
static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

#[repr(align(16))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

struct Heap(UnsafeCell<Dlmalloc<Pages>>);

// SAFETY: an instance has one thread.
unsafe impl Sync for Arena {}
// SAFETY: an instance has one thread.
unsafe impl Sync for Heap {}

/// The source of the allocator's memory: first the arena, then new pages.
struct Pages {
    arena_taken: Cell<bool>,
}

// SAFETY: the arena is handed out once, and the pages of `memory.grow` are new.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if size <= ARENA_BYTES && !self.arena_taken.replace(true) {
            return (ARENA.0.get().cast(), ARENA_BYTES, 0);
        }
        let pages = size.div_ceil(PAGE_BYTES);
        let before = memory_grow::<0>(pages);
        if before == usize::MAX {
            return (null_mut(), 0, 0);
        }
        // The last bytes of the address space stay unused: no pointer may point behind them.
        let (start, bytes) = (before * PAGE_BYTES, pages * PAGE_BYTES);
        let bytes = if start.wrapping_add(bytes) == 0 { bytes - 16 } else { bytes };
        (start as *mut u8, bytes, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}

impl Heap {
    /// Runs `work` on the allocator.
    fn with<T>(&self, work: impl FnOnce(&mut Dlmalloc<Pages>) -> T) -> T {
        // SAFETY: an instance has one thread, and the allocator calls nothing that allocates.
        work(unsafe { &mut *self.0.get() })
    }
}

// SAFETY: `Dlmalloc` has the contract of `GlobalAlloc`, and `Heap::with` gives it exclusive access.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        self.with(|heap| unsafe { heap.free(at, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        self.with(|heap| unsafe { heap.realloc(at, layout.size(), layout.align(), bytes) })
    }
}
