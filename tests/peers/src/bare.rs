//! The bare call of a component: wasmtime alone, with the settings of the host's engine.
//!
//! Deliberately absent: limits, effects, a clock, linked imports (each of them is a trap). It is the lower
//! bound for the host.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

use crate::arguments::Size;
use crate::measure::Laps;
use crate::ours::tax::at_once;
use crate::values::{Values, named};
use crate::{guests, keys};

use bindings::exports::homeostat::reconciler::reconciler::GuestIndices;
use bindings::homeostat::reconciler::types;

mod bindings {
    //! Rust types of the contract in `wit/`, generated at build time.

    #![allow(missing_docs, unreachable_pub, clippy::all, reason = "made by bindgen! from wit/")]

    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "homeostat:reconciler/reconciler-part",
        exports: { default: async },
    });
}

/// Calls between two readings of the clock.
const BATCH: usize = 100;
/// No call is interrupted.
const NEVER: u64 = u64::MAX / 2;
const INSTANCES_MAX: u32 = 256;

/// Calls the guest that does nothing, in a fresh instance each time, in this many concurrent tasks.
pub(crate) async fn run(work: &str, size: &Size, folder: &Path) -> Result<Values> {
    ensure!(work == "no-op", "there is no bare call for {work}");
    let prepared = prepare(&guests::read(folder, "noop")?);
    let (engine, pre, indices) = prepared.map_err(|error| anyhow!("the guest cannot be prepared: {error:#}"))?;
    let indices = Arc::new(indices);
    let calls = |laps: Laps| {
        let (engine, pre, indices) = (engine.clone(), pre.clone(), indices.clone());
        async move {
            let mut laps = laps;
            let keys: Vec<types::Key> = (0..BATCH).map(key).collect();
            let mut failed = 0;
            while laps.another() {
                for key in &keys {
                    failed += usize::from(call(&engine, &pre, &indices, key).await.is_err());
                }
            }
            (laps.nanos_each(BATCH), failed)
        }
    };
    Ok(named([("us", at_once(size, calls).await? / 1e3)]))
}

fn prepare(component: &[u8]) -> wasmtime::Result<(Engine, InstancePre<()>, GuestIndices)> {
    let engine = Engine::new(&config())?;
    let component = Component::new(&engine, component)?;
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&component)?;
    let pre = linker.instantiate_pre(&component)?;
    let indices = GuestIndices::new(&pre)?;
    Ok((engine, pre, indices))
}

async fn call(
    engine: &Engine,
    pre: &InstancePre<()>,
    indices: &GuestIndices,
    key: &types::Key,
) -> wasmtime::Result<Result<types::Outcome, types::Failure>> {
    let mut store = Store::new(engine, ());
    store.set_epoch_deadline(NEVER);
    let instance = pre.instantiate_async(&mut store).await?;
    let guest = indices.load(&mut store, &instance)?;
    guest.call_reconcile(&mut store, key).await
}

fn key(number: usize) -> types::Key {
    let (namespace, name) = keys::parts(number);
    let word = str::to_owned;
    let kind = types::Kind { group: word("demo.homeostat.dev"), version: word("v1"), name: word("Noop") };
    types::Key { kind, namespace, name }
}

/// The speed-related settings of `host/component`.
fn config() -> Config {
    let mut config = Config::new();
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.wasm_backtrace_max_frames(NonZeroUsize::new(16));
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    config.wasm_memory64(false);
    config.wasm_multi_memory(false);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES_MAX)
        .total_stacks(INSTANCES_MAX)
        .total_core_instances(INSTANCES_MAX * 32)
        .total_memories(INSTANCES_MAX * 2)
        .total_tables(INSTANCES_MAX * 8)
        .max_core_instances_per_component(32)
        .max_memories_per_component(2)
        .max_tables_per_component(8)
        .table_elements(20_000)
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(1 << 20)
        .table_keep_resident(64 << 10);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
