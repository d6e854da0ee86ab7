//! The virtual machine: its settings, its clock, and how many guests it runs at once.
//!
//! The settings come from measurements: a fresh instance for every call costs about 6 µs with them and five times that without. Two
//! machines share one bound: the pooled one runs what fits its slots, the other one, started when first needed, runs the rest.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use homeostat_digest::Digest;
use serde::{Deserialize, Serialize};
use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::cache::Cache;
use crate::code::Codes;
use crate::compiler::{Compilations, Compiled, Compiler};
use crate::error::Error;
use crate::grants::Grants;
use crate::imports;
use crate::instances::Instances;
use crate::load::{self, Refused};
use crate::state::State;
use crate::ticker::Ticker;
use crate::{Component, limits::Limits, millis};

/// What one component may consist of and still run in the pool.
const CORE_INSTANCES_MAX: u32 = 32;
const MEMORIES_MAX: u32 = 2;
const TABLES_MAX: u32 = 8;
pub(crate) const POOLED_TABLE_ELEMENTS_MAX: usize = 20_000;

/// Resident bytes that a slot keeps for its next instance: enough for what an ordinary guest touches.
const MEMORY_KEEP_RESIDENT_BYTES: usize = 1 << 20;
const TABLE_KEEP_RESIDENT_BYTES: usize = 64 << 10;

/// The shortest time after which code may rest.
const REST_AFTER_MIN: Duration = Duration::from_millis(1);

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

/// Compiles components and runs guests. Cheap to clone; its threads end with the last clone and the last [`Component`].
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Shared>);

/// What all clones of an engine share.
pub(crate) struct Shared {
    options: EngineOptions,
    pooled: Arc<Machine>,
    on_demand: OnceLock<Arc<Machine>>,
    cache: Option<Cache>,
    codes: Codes,
    compilations: Compilations,
    pub(crate) instances: Arc<Instances>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

/// One wasmtime engine with everything that is linked for its components, and its clock.
pub(crate) struct Machine {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    /// `None` when guests are not interrupted.
    pub(crate) ticker: Option<Ticker>,
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// `Option` when a bound is out of range; `Engine` when there is not enough address space (about 8 GiB for each instance are
    /// reserved, not used); `Ticker` when no thread can be started.
    pub fn new(options: EngineOptions) -> Result<Self, Error> {
        let instances_max = options.instances_max;
        if !INSTANCES_BOUNDS.contains(&instances_max) {
            let (least, most) = INSTANCES_BOUNDS.into_inner();
            let reason = format!("must be {least} to {most}, is {instances_max}");
            return Err(Error::Option { option: "instancesMax", reason });
        }
        if options.rest_after.is_some_and(|rest_after| rest_after < REST_AFTER_MIN) {
            let reason = format!("must be {REST_AFTER_MIN:?} at least");
            return Err(Error::Option { option: "restAfterMs", reason });
        }
        let mut config = config(options.parallel_compilation);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(instances_max)));
        let pooled = Arc::new(Machine::start(&config, &options)?);
        let instances = Instances::new(instances_max);
        let cache = cache(&options);
        let (on_demand, codes, compilations) = (OnceLock::new(), Codes::default(), Compilations::default());
        Ok(Self(Arc::new(Shared { options, pooled, on_demand, cache, codes, compilations, instances })))
    }

    /// Compiles and checks a component, and asks it what it is, within the default limits of one call.
    ///
    /// Takes about 50 ms for an ordinary guest, and a few where its compilation was kept; compilation runs in processes of their own
    /// ([`EngineOptions::compiler`]), else on threads for blocking work. Bytes that are loaded already are not compiled again. `grants` keep nothing from
    /// loading, for languages import what their code never calls: each call is checked, by [`crate::layers::Granted`]. Must be called in a tokio
    /// runtime with time enabled.
    ///
    /// # Errors
    /// All reasons at once. *Cancel safety*: safe; a compilation that is under way runs to its end.
    pub async fn load(&self, bytes: impl Into<Vec<u8>>, grants: &Grants) -> Result<Component, Refused> {
        load::load(self, bytes.into(), None, grants, &Limits::default()).await
    }

    /// As [`Engine::load`], for a controller whose calls have these limits: `describe` may use as much, where that is more than the default. Bytes
    /// that have another digest than `wanted` are refused, and not compiled.
    ///
    /// # Errors
    /// All reasons at once. *Cancel safety*: as [`Engine::load`].
    pub async fn load_within(
        &self,
        bytes: impl Into<Vec<u8>>,
        wanted: Option<&Digest>,
        grants: &Grants,
        limits: &Limits,
    ) -> Result<Component, Refused> {
        load::load(self, bytes.into(), wanted, grants, limits).await
    }

    /// As [`Engine::load_within`], for a component that somebody has loaded and still has: its bytes are not needed, and nothing is compiled. `None`:
    /// nobody has, or not yet.
    ///
    /// # Errors
    /// All reasons at once. *Cancel safety*: safe.
    pub async fn load_again(
        &self,
        digest: &Digest,
        grants: &Grants,
        limits: &Limits,
    ) -> Option<Result<Component, Refused>> {
        load::again(self, digest, grants, limits).await
    }

    /// Gives back the memory of components that nobody has called for [`EngineOptions::rest_after`], for as long as it is polled: it
    /// never ends. One poller is enough for an engine; two at once put to rest earlier.
    ///
    /// What rests is a description, a digest and an open file in [`EngineOptions::compiled`]; without that folder nothing does. The
    /// next call reads the code again, which takes it less than a millisecond where the file is in the system's memory. A file that
    /// was damaged meanwhile is never run: calls fail until the component is loaded again.
    ///
    /// *Cancel safety*: what rests goes on resting.
    pub async fn rest(&self) -> Infallible {
        let Some(rest_after) = self.0.options.rest_after else { return std::future::pending().await };
        loop {
            self.codes().woken().await;
            loop {
                tokio::time::sleep(rest_after).await;
                if !self.codes().rest() {
                    break;
                }
            }
        }
    }

    /// Returns the options that the engine was started with.
    pub fn options(&self) -> &EngineOptions {
        &self.0.options
    }

    /// Returns the number of guests that could be started now without waiting.
    pub fn instances_free(&self) -> usize {
        self.0.instances.free()
    }

    /// Returns the number of components whose code is in memory, those that are the same byte by byte counted once. All others rest.
    pub fn components_in_memory(&self) -> usize {
        self.0.codes.in_memory()
    }

    /// Returns what has come of the compilations so far.
    pub fn compiled(&self) -> Compiled {
        self.0.compilations.counts()
    }

    pub(crate) fn compilations(&self) -> &Compilations {
        &self.0.compilations
    }

    pub(crate) fn pooled(&self) -> &Arc<Machine> {
        &self.0.pooled
    }

    /// Returns where compiled components are kept, if anywhere.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    pub(crate) fn codes(&self) -> &Codes {
        &self.0.codes
    }

    /// Returns the machine for components that do not fit the pool, and starts it if need be.
    pub(crate) fn on_demand(&self) -> Result<Arc<Machine>, Error> {
        if let Some(machine) = self.0.on_demand.get() {
            return Ok(Arc::clone(machine));
        }
        let machine = Arc::new(Machine::start(&config(self.0.options.parallel_compilation), &self.0.options)?);
        // Two loads at once may both come here: one of their machines stays.
        Ok(Arc::clone(self.0.on_demand.get_or_init(|| machine)))
    }
}

impl Machine {
    fn start(config: &Config, options: &EngineOptions) -> Result<Self, Error> {
        let engine = wasmtime::Engine::new(config).map_err(|error| Error::Engine(error.into()))?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker).map_err(|error| Error::Engine(error.into()))?;
        let ticker = options.preemption.then(|| Ticker::start(&engine)).transpose().map_err(Error::Ticker)?;
        Ok(Self { engine, linker, ticker })
    }
}

/// Opens the folder of compiled components. One that cannot be used costs time at every start, and nothing else.
fn cache(options: &EngineOptions) -> Option<Cache> {
    let folder = options.compiled.as_ref()?;
    Cache::open(folder, options.compiled_bytes_max)
        .inspect_err(|error| {
            tracing::warn!(folder = %folder.display(), %error, "compiled components are not kept: every start compiles them again");
        })
        .ok()
}

/// Returns the settings of every machine. What they say of code is the same for all of them, and for whoever compiles in their place.
pub(crate) fn config(parallel_compilation: bool) -> Config {
    let mut config = Config::new();
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.parallel_compilation(parallel_compilation);
    config.wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES_MAX));
    config.max_wasm_stack(crate::limits::STACK_BYTES_MAX);
    // The same inputs must give the same outputs: a trace is replayed bit by bit.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // No controller needs these, and what is off cannot be attacked.
    config.wasm_memory64(false);
    // Components within components need it: what goes over from one to the other has two memories.
    config.wasm_multi_memory(true);
    config
}

fn pool(instances_max: u32) -> PoolingAllocationConfig {
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
