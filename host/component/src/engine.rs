//! The engine: its wasmtime machines, their shared state, and the bound on concurrent guests.
//!
//! There are two machines for each tier of code, with one common bound on concurrent guests. The pooled machine runs
//! components that fit its slots. The on-demand machine runs larger components. All but the pooled machine of
//! optimised code start when they are first needed.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wasmtime::InstanceAllocationStrategy;

use crate::cache::Cache;
use crate::code::CodeTable;
use crate::compiler::{CompilationCounts, Compilations};
use crate::error::Error;
use crate::instances::{Instances, Machine};
use crate::optimiser::Optimiser;
use crate::options::{CONVERSIONS_MAX, EngineOptions, INSTANCES_BOUNDS, config, pool};
use crate::tier::Tier;
use crate::warm_instances::WarmTable;

/// The lower bound of [`EngineOptions::rest_after`].
const REST_AFTER_MIN: Duration = Duration::from_millis(1);

/// Compiles components and runs guests. Cheap to clone; its threads end with the last clone and the last
/// [`crate::Component`].
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Inner>);

/// The state shared by all clones of an engine.
pub(crate) struct Inner {
    options: EngineOptions,
    pooled: Arc<Machine>,
    on_demand: OnceLock<Arc<Machine>>,
    baseline_pooled: OnceLock<Arc<Machine>>,
    baseline_on_demand: OnceLock<Arc<Machine>>,
    cache: Option<Cache>,
    codes: CodeTable,
    compilations: Compilations,
    optimiser: Optimiser,
    warm: Arc<WarmTable>,
    pub(crate) instances: Arc<Instances>,
    /// The permits of conversions, which calls of other guests may wait for.
    pub(crate) conversions: Arc<Instances>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// `Option` when an option is out of range; `Engine` when there is not enough address space (about 8 GiB
    /// per instance are reserved, not used); `EpochClock` when no thread can be started.
    pub fn new(options: EngineOptions) -> Result<Self, Error> {
        let instances_max = options.instances_max;
        if !INSTANCES_BOUNDS.contains(&instances_max) {
            let (least, most) = INSTANCES_BOUNDS.into_inner();
            let reason = format!("must be {least} to {most}, is {instances_max}");
            return Err(Error::Option { option: "instancesMax", reason });
        }
        if options.rest_after.is_some_and(|rest_after| rest_after < REST_AFTER_MIN) {
            let reason = format!("must be at least {REST_AFTER_MIN:?}");
            return Err(Error::Option { option: "restAfterMs", reason });
        }
        let pooled = start(&options, Tier::Optimised, true)?;
        let (instances, conversions) = (Instances::new(instances_max), Instances::new(CONVERSIONS_MAX));
        let cache = cache(&options);
        Ok(Self(Arc::new(Inner {
            options,
            pooled,
            on_demand: OnceLock::new(),
            baseline_pooled: OnceLock::new(),
            baseline_on_demand: OnceLock::new(),
            cache,
            codes: CodeTable::default(),
            compilations: Compilations::default(),
            optimiser: Optimiser::default(),
            warm: Arc::default(),
            instances,
            conversions,
        })))
    }

    /// Evicts the code of components and the kept instances that were idle for [`EngineOptions::rest_after`], as long
    /// as it is polled; it never returns. One poller is enough for an engine; two pollers evict earlier.
    ///
    /// An evicted component keeps its description, its digest and an open file in
    /// [`EngineOptions::compiled`]; without that folder no code is evicted. The next call reloads the code,
    /// in less than a millisecond if the file is in the page cache. A damaged file is never run: calls fail
    /// until the component is loaded again.
    ///
    /// *Cancel safety*: safe; evicted code stays evicted.
    pub async fn evict_idle(&self) -> Infallible {
        let Some(rest_after) = self.0.options.rest_after else { return std::future::pending().await };
        loop {
            tokio::select! {
                () = self.codes().loaded() => {}
                () = self.0.warm.kept() => {}
            }
            loop {
                tokio::time::sleep(rest_after).await;
                let (keeps_instances, keeps_code) = (self.0.warm.evict_idle(), self.codes().evict_idle());
                if !keeps_instances && !keeps_code {
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

    /// Returns the number of instances that are kept between calls.
    pub fn instances_kept(&self) -> usize {
        self.0.warm.count()
    }

    /// Returns the number of components whose code is in memory, counting identical components once. The code
    /// of all others is evicted.
    pub fn components_in_memory(&self) -> usize {
        self.0.codes.in_memory()
    }

    /// Returns the number of components that run baseline code, counting identical components once.
    pub fn components_with_baseline_code(&self) -> usize {
        self.0.codes.baseline()
    }

    /// Returns the numbers of compilations so far, by result.
    pub fn compilation_counts(&self) -> CompilationCounts {
        self.0.compilations.counts()
    }

    pub(crate) fn compilations(&self) -> &Compilations {
        &self.0.compilations
    }

    pub(crate) fn optimiser(&self) -> &Optimiser {
        &self.0.optimiser
    }

    pub(crate) fn warm(&self) -> &Arc<WarmTable> {
        &self.0.warm
    }

    pub(crate) fn pooled(&self) -> &Arc<Machine> {
        &self.0.pooled
    }

    /// Returns the cache of compiled components, if there is one.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    pub(crate) fn codes(&self) -> &CodeTable {
        &self.0.codes
    }

    /// Returns the machine for components whose code of a tier fits the pool, and starts it if necessary.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub(crate) fn pooled_of(&self, tier: Tier) -> Result<Arc<Machine>, Error> {
        match tier {
            Tier::Optimised => Ok(Arc::clone(&self.0.pooled)),
            Tier::Baseline => self.started(&self.0.baseline_pooled, tier, true),
        }
    }

    /// Returns the machine for components that do not fit the pool, and starts it if necessary.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub(crate) fn on_demand_of(&self, tier: Tier) -> Result<Arc<Machine>, Error> {
        let place = match tier {
            Tier::Optimised => &self.0.on_demand,
            Tier::Baseline => &self.0.baseline_on_demand,
        };
        self.started(place, tier, false)
    }

    fn started(&self, place: &OnceLock<Arc<Machine>>, tier: Tier, is_pooled: bool) -> Result<Arc<Machine>, Error> {
        if let Some(machine) = place.get() {
            return Ok(Arc::clone(machine));
        }
        let machine = start(&self.0.options, tier, is_pooled)?;
        // Two concurrent loads may both start a machine: one of them is kept.
        Ok(Arc::clone(place.get_or_init(|| machine)))
    }
}

/// Starts a machine.
fn start(options: &EngineOptions, tier: Tier, is_pooled: bool) -> Result<Arc<Machine>, Error> {
    let mut config = config(tier, options.parallel_compilation);
    if is_pooled {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options.instances_max)));
    }
    Ok(Arc::new(Machine::start(&config, options.preemption)?))
}

/// Opens the cache of compiled components. An unusable folder only costs time at every start.
fn cache(options: &EngineOptions) -> Option<Cache> {
    let folder = options.compiled.as_ref()?;
    Cache::open(folder, options.compiled_bytes_max)
        .inspect_err(|error| {
            tracing::warn!(folder = %folder.display(), %error, "cannot use the cache of compiled components: every start compiles them again");
        })
        .ok()
}
