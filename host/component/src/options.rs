//! The options of an engine, and the resulting settings of wasmtime.
//!
//! The settings come from measurements: they reduce the cost of a fresh instance for each call to about 6 µs,
//! a fifth of the cost without them.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wasmtime::{Config, Enabled, PoolingAllocationConfig, Strategy};

use crate::compiler::Compiler;
use crate::limits::STACK_BYTES_MAX;
use crate::millis;
use crate::tier::{Tier, TierPolicy};

/// The maximum parts of a component in the pool.
const CORE_INSTANCES_MAX: u32 = 32;
const MEMORIES_MAX: u32 = 2;
const TABLES_MAX: u32 = 8;
pub(crate) const POOLED_TABLE_ELEMENTS_MAX: usize = 20_000;

/// Resident bytes that a slot keeps for its next instance: enough for the memory that an ordinary guest
/// touches.
const MEMORY_KEEP_RESIDENT_BYTES: usize = 1 << 20;
const TABLE_KEEP_RESIDENT_BYTES: usize = 64 << 10;

/// Bytes of a guest's native stack in baseline code, whose frames are larger: a guest that stays within
/// [`STACK_BYTES_MAX`] in optimised code stays within this.
const BASELINE_STACK_BYTES_MAX: usize = 4 * STACK_BYTES_MAX;
/// Bytes of the whole native stack of a call in baseline code, with room for the host's own frames.
const BASELINE_STACK_BYTES: usize = 2 * BASELINE_STACK_BYTES_MAX;

/// Instances that an engine keeps between calls. Beyond it, an instance ends with its call.
pub(crate) const INSTANCES_KEPT_MAX: usize = 64;

/// Conversions that run at once, beside [`EngineOptions::instances_max`] other guests. They have permits of their own,
/// because a guest that holds one may wait for a conversion.
pub(crate) const CONVERSIONS_MAX: u32 = 8;

/// Frames that a trap walks. The innermost frames of a panic are its own machinery.
const BACKTRACE_FRAMES_MAX: usize = 16;

/// The valid range of [`EngineOptions::instances_max`].
pub const INSTANCES_BOUNDS: RangeInclusive<u32> = 1..=4096;
/// The valid range of [`EngineOptions::compile_time`].
pub const COMPILE_TIME_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// The valid range of [`EngineOptions::compile_memory_bytes_max`].
pub const COMPILE_MEMORY_BYTES_BOUNDS: RangeInclusive<u64> = 64 << 20..=64 << 30;

/// The settings of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EngineOptions {
    /// Guests that run at once, over all components. Further calls wait; waiting controllers take turns, and
    /// no controller gets more than three quarters of the instances. 1 to 4096. Default: 256.
    pub instances_max: u32,
    /// The largest component that is loaded, in bytes. Default: 50 MiB.
    pub component_bytes_max: u64,
    /// Whether one compilation uses all processors. Default: true.
    pub parallel_compilation: bool,
    /// The program that compiles components, each in a process of its own. Default: none; then this process
    /// compiles them itself, and the two bounds below do not apply. In both cases at most two components
    /// compile at once.
    pub compiler: Option<Compiler>,
    /// Processor time of one compilation, summed over all processors, in whole seconds rounded up. The bound
    /// on wall time is four times as long. Default: 120 s. Limit `compile-time`.
    #[serde(rename = "compileTimeMs", with = "millis")]
    pub compile_time: Duration,
    /// Memory of one compilation in bytes, including the resulting code. Default: 2 GiB. Limit
    /// `compile-memory`.
    pub compile_memory_bytes_max: u64,
    /// The order in which code of different quality is compiled. Default: optimised code only.
    pub tiers: TierPolicy,
    /// Bytes of the core functions of a component, from which on [`EngineOptions::tiers`] applies; smaller
    /// components are compiled to optimised code only. Default: 1 MiB, whose optimised code takes about two
    /// seconds of processor time.
    pub baseline_function_bytes_min: u64,
    /// Whether the host interrupts guests every millisecond, so that they share the processors and end at
    /// their limit. Default: true. Without it, a guest in an endless loop is never stopped. Only for
    /// simulations, whose results must not depend on the speed of the machine.
    pub preemption: bool,
    /// The folder that caches compiled components across restarts. The engine creates it with mode 0700 if it
    /// is missing; several processes may share it. Anyone who can write to it can run code in the host, so a
    /// folder that others can access is not used, and the log warns. Default: none, without a cache.
    pub compiled: Option<PathBuf>,
    /// The maximum bytes of compiled components on disk; the least recently used are removed first. Default:
    /// 512 MiB, some 400 ordinary guests.
    pub compiled_bytes_max: u64,
    /// The idle time after which a component's code is evicted from memory; eviction happens between this
    /// time and twice as long. At least one millisecond. Default: 10 s. `None` keeps code in memory.
    #[serde(rename = "restAfterMs", with = "millis::option")]
    pub rest_after: Option<Duration>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            instances_max: 256,
            component_bytes_max: 50 << 20,
            parallel_compilation: true,
            compiler: None,
            compile_time: Duration::from_secs(120),
            compile_memory_bytes_max: 2 << 30,
            tiers: TierPolicy::Optimised,
            baseline_function_bytes_min: 1 << 20,
            preemption: true,
            compiled: None,
            compiled_bytes_max: 512 << 20,
            rest_after: Some(Duration::from_secs(10)),
        }
    }
}

/// Returns the settings of every machine that runs code of a tier. Settings that affect code are the same for
/// all machines of the tier, and for the compiler process.
pub(crate) fn config(tier: Tier, parallel_compilation: bool) -> Config {
    let mut config = Config::new();
    if tier == Tier::Baseline {
        config.strategy(Strategy::Winch);
        config.async_stack_size(BASELINE_STACK_BYTES);
    }
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.parallel_compilation(parallel_compilation);
    config.wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES_MAX));
    config.max_wasm_stack(match tier {
        Tier::Baseline => BASELINE_STACK_BYTES_MAX,
        Tier::Optimised => STACK_BYTES_MAX,
    });
    // The same inputs must give the same outputs: traces are replayed bit by bit.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // No controller needs this, and a disabled feature cannot be attacked.
    config.wasm_memory64(false);
    // Nested components need it: an adapter between two of them has two memories.
    config.wasm_multi_memory(true);
    config
}

pub(crate) fn pool(instances_max: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    // Every bound is the number of guests, running or kept, times the maximum of one guest, so a guest with a permit
    // never finds the pool empty.
    let instances_max = instances_max + CONVERSIONS_MAX + INSTANCES_KEPT_MAX as u32;
    pool.total_component_instances(instances_max)
        .total_stacks(instances_max)
        .total_core_instances(instances_max * CORE_INSTANCES_MAX)
        .total_memories(instances_max * MEMORIES_MAX)
        .total_tables(instances_max * TABLES_MAX)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .table_elements(POOLED_TABLE_ELEMENTS_MAX)
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(MEMORY_KEEP_RESIDENT_BYTES)
        .table_keep_resident(TABLE_KEEP_RESIDENT_BYTES);
    pool
}
