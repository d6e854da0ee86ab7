//! Coverage: which edges of the control flow the inputs have reached, and how often.
//!
//! The compiler counts edges in crates that are built through `rustc-coverage.sh` (SanitizerCoverage of LLVM). In
//! any other build there is no counter, and no input reaches anything new.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// The counters of this program, one per edge.
static COUNTERS: OnceLock<&'static [AtomicU8]> = OnceLock::new();

/// Takes the counters. Each instrumented crate calls it before `main`, with the same range.
///
/// # Safety
/// `start` to `stop` is one range of bytes that lives as long as the program.
#[expect(unsafe_code, reason = "the compiler calls this function by its name, and hands over raw memory")]
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *const AtomicU8, stop: *const AtomicU8) {
    let length = stop.addr().saturating_sub(start.addr());
    // SAFETY: the linker gives the section of the counters, which is static, and bytes have any alignment. The
    // program changes counters with plain instructions, but each is one byte, and a lost count does no harm.
    COUNTERS.get_or_init(|| unsafe { std::slice::from_raw_parts(start, length) });
}

/// The edges that all inputs up to now have reached.
#[derive(Debug)]
pub(crate) struct Coverage {
    counters: &'static [AtomicU8],
    /// For each edge a bit per range of counts, see [`count_bit`].
    reached: Vec<u8>,
}

impl Coverage {
    /// Starts with nothing reached.
    pub(crate) fn new() -> Self {
        let counters = COUNTERS.get().copied().unwrap_or_default();
        Self { counters, reached: vec![0; counters.len()] }
    }

    /// Adds what the program reached since the last call. Returns whether an edge, or a range of its counts, is
    /// new.
    pub(crate) fn grows(&mut self) -> bool {
        let mut is_new = false;
        for (counter, reached) in self.counters.iter().zip(&mut self.reached) {
            let count = counter.load(Relaxed);
            if count > 0 {
                counter.store(0, Relaxed);
                is_new |= *reached & count_bit(count) == 0;
                *reached |= count_bit(count);
            }
        }
        is_new
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges = self.reached.iter().filter(|reached| **reached > 0).count();
        write!(f, "{edges} of {} edges reached", self.reached.len())
    }
}

/// Returns the bit of a count's range: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, and more.
///
/// Source: AFL, `classify_counts`, so that a loop counts as new when it runs much more often.
fn count_bit(count: u8) -> u8 {
    match count {
        0..=1 => 1,
        2 => 1 << 1,
        3 => 1 << 2,
        4..=7 => 1 << 3,
        8..=15 => 1 << 4,
        16..=31 => 1 << 5,
        32..=127 => 1 << 6,
        128.. => 1 << 7,
    }
}

#[cfg(test)]
mod tests;
