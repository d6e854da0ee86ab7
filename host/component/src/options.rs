//! How an engine is set up, and the settings of wasmtime that come of it.
//!
//! The settings come from measurements: a fresh instance for every call costs about 6 µs with them and five times that without.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wasmtime::{Config, Enabled, PoolingAllocationConfig};

use crate::compiler::Compiler;
use crate::limits::STACK_BYTES_MAX;
use crate::millis;

/// What one component may consist of and still run in the pool.
const CORE_INSTANCES_MAX: u32 = 32;
const MEMORIES_MAX: u32 = 2;
const TABLES_MAX: u32 = 8;
pub(crate) const POOLED_TABLE_ELEMENTS_MAX: usize = 20_000;

/// Resident bytes that a slot keeps for its next instance: enough for what an ordinary guest touches.
const MEMORY_KEEP_RESIDENT_BYTES: usize = 1 << 20;
const TABLE_KEEP_RESIDENT_BYTES: usize = 64 << 10;

/// Frames that a trap walks. The innermost ones of a panic are its own machinery.
const BACKTRACE_FRAMES_MAX: usize = 16;

/// What a person may choose for [`EngineOptions::instances_max`].
pub const INSTANCES_BOUNDS: RangeInclusive<u32> = 1..=4096;
/// What a person may choose for [`EngineOptions::compile_time`].
pub const COMPILE_TIME_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// What a person may choose for [`EngineOptions::compile_memory_bytes_max`].
pub const COMPILE_MEMORY_BYTES_BOUNDS: RangeInclusive<u64> = 64 << 20..=64 << 30;

/// How an engine is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EngineOptions {
    /// Guests that run at once, over all components. More of them wait, one controller after the other, and no controller gets the
    /// last quarter. 1 to 4096. Default: 256.
    pub instances_max: u32,
    /// The largest component that is loaded, in bytes. Default: 50 MiB.
    pub component_bytes_max: u64,
    /// Compile one component on all processors. Default: true.
    pub parallel_compilation: bool,
    /// The program that compiles components, in a process of its own for each. Default: none, they are compiled in this process, and the two
    /// bounds below do not hold. Two components at most are compiled at once, either way.
    pub compiler: Option<Compiler>,
    /// Time that one compilation may take on processors, all of them together, in whole seconds rounded up; four times that on the wall.
    /// Default: 120 s. Limit `compile-time`.
    #[serde(rename = "compileTimeMs", with = "millis")]
    pub compile_time: Duration,
    /// Memory that one compilation may take, in bytes, of which the code that comes of it is a part. Default: 2 GiB. Limit
    /// `compile-memory`.
    pub compile_memory_bytes_max: u64,
    /// Interrupt guests at every millisecond, so that they share the processors and end at their limit. Default: true. Without it a
    /// guest that computes for ever does so: for simulations, in which nothing may depend on how fast a machine is.
    pub preemption: bool,
    /// A folder in which compiled components are kept for the next start. It is made with the mode 0700 where it is missing, several
    /// processes may share it, and whoever can write into it can run code in the host: one that is not its user's alone is not used,
    /// which the log says. Default: none, nothing is kept.
    pub compiled: Option<PathBuf>,
    /// The bytes that compiled components may take on disk in all; those that were used longest ago go first. Default: 512 MiB, some
    /// 400 ordinary guests.
    pub compiled_bytes_max: u64,
    /// How long nobody must have called a component before its code is given back: between this and twice as long. One millisecond at
    /// least. Default: 10 s. `None`: it stays in memory.
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
            preemption: true,
            compiled: None,
            compiled_bytes_max: 512 << 20,
            rest_after: Some(Duration::from_secs(10)),
        }
    }
}

/// Returns the settings of every machine. What they say of code is the same for all of them, and for whoever compiles in their place.
pub(crate) fn config(parallel_compilation: bool) -> Config {
    let mut config = Config::new();
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.parallel_compilation(parallel_compilation);
    config.wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES_MAX));
    config.max_wasm_stack(STACK_BYTES_MAX);
    // The same inputs must give the same outputs: a trace is replayed bit by bit.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // No controller needs these, and what is off cannot be attacked.
    config.wasm_memory64(false);
    // Components within components need it: what goes over from one to the other has two memories.
    config.wasm_multi_memory(true);
    config
}

pub(crate) fn pool(instances_max: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    // Every bound is the number of guests times what one may have, so that a guest with a permit never finds the pool empty.
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
