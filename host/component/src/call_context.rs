//! The context of one call, and the state of its instance. Every effect of the call passes through the
//! context on its way to the layers.
//!
//! The instance and its HTTP requests in flight share the context. Invariant: the first limit that is hit is
//! final; a call that hit one ends with that limit, regardless of the guest's answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store, StoreContextMut, UpdateDeadline, format_err};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::effect::{Answer, Call, Effect, Effects, Level};
use crate::imports::HttpHooks;
use crate::layers::{EffectTotals, LimitHit, Limited};
use crate::limits::LimitName;
use crate::limits::{Limits, WASM_PAGE_BYTES, contract};
use crate::options::POOLED_TABLE_ELEMENTS_MAX;
use crate::outcome::Cost;
use crate::output::Output;

/// The usage and limits of one call, and the destination of its effects.
pub(crate) struct CallContext {
    pub(crate) call: Call,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    /// The layer of this call, around those of its controller.
    effects: Limited<Arc<dyn Effects>>,
    memory_bytes_max: AtomicU64,
    pages_grown: AtomicU64,
    hit: OnceLock<LimitHit>,
    output: Mutex<Output>,
}

impl CallContext {
    pub(crate) fn new(call: Call, limits: &Limits, effects: Arc<dyn Effects>) -> Self {
        Self {
            call,
            limits: limits.clone(),
            meter: Meter::new(),
            effects: Limited::new(limits.clone(), effects),
            memory_bytes_max: AtomicU64::new(0),
            pages_grown: AtomicU64::new(0),
            hit: OnceLock::new(),
            output: Mutex::new(Output::default()),
        }
    }

    /// Flushes standard output and standard error, then performs one effect.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn perform(&self, effect: Effect) -> wasmtime::Result<Answer> {
        self.flush().await?;
        self.forward(effect).await
    }

    /// Writes one log line. It counts as a line and by its bytes, not as an effect.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn log(&self, effect: Effect) -> wasmtime::Result<()> {
        self.flush().await?;
        self.charge_log(effect.size_bytes(), 1)?;
        self.forward(effect).await.map(drop)
    }

    /// Passes the complete lines of standard output and standard error to the log.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn flush(&self) -> wasmtime::Result<()> {
        loop {
            let line = self.output().next_line();
            let Some((level, message)) = line else { return Ok(()) };
            self.forward(Effect::Log { level, message, fields: Vec::new() }).await?;
        }
    }

    /// Completes the last lines of standard output and standard error, and passes everything to the log.
    ///
    /// # Errors
    /// A limit was hit. The error is a trap.
    pub(crate) async fn finish_output(&self) -> wasmtime::Result<()> {
        self.output().end();
        self.flush().await
    }

    /// Receives the guest's writes to standard output (`Info`) or standard error (`Warn`). A line is charged
    /// when it ends.
    ///
    /// # Errors
    /// The limit `log-bytes` or `log-lines` was hit. The error is a trap.
    pub(crate) fn write_output(&self, level: Level, bytes: &[u8]) -> wasmtime::Result<()> {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.charge_log(bytes.len() as u64, u32::try_from(lines).unwrap_or(u32::MAX))?;
        self.output().write(level, bytes, contract::LOG_MESSAGE_BYTES_MAX);
        Ok(())
    }

    /// Returns the last lines of standard error, to explain a crash.
    pub(crate) fn last_words(&self) -> String {
        self.output().last_words()
    }

    /// Records the guest's current memory, for its peak.
    pub(crate) fn record_memory(&self, bytes: u64) {
        self.memory_bytes_max.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Records that the guest has grown a memory by this many pages.
    pub(crate) fn record_growth(&self, pages: u64) {
        self.pages_grown.fetch_add(pages, Ordering::Relaxed);
    }

    /// Records that a limit was hit, and returns the trap that ends the guest.
    pub(crate) fn hit(&self, limit: LimitName, message: String) -> wasmtime::Error {
        let error = format_err!("limit {limit}: {message}");
        // The first limit hit is the cause; later ones follow from it.
        drop(self.hit.set(LimitHit { limit, message }));
        error
    }

    /// Returns the limit that was hit first.
    pub(crate) fn first_hit(&self) -> Option<LimitHit> {
        self.hit.get().cloned()
    }

    /// Returns the cost of the call so far.
    pub(crate) fn cost(&self) -> Cost {
        let EffectTotals { effects, bytes_out, bytes_in } = self.effects.totals();
        Cost {
            cpu: self.meter.spent(),
            wall: self.meter.wall(),
            memory_bytes_max: self.memory_bytes_max.load(Ordering::Relaxed),
            pages_grown: self.pages_grown.load(Ordering::Relaxed),
            effects,
            bytes_out,
            bytes_in,
        }
    }

    /// Passes an effect to the layers.
    async fn forward(&self, effect: Effect) -> wasmtime::Result<Answer> {
        match self.effects.perform(&self.call, effect).await {
            Answer::Limit { limit, message } => Err(self.hit(limit, message)),
            answer => Ok(answer),
        }
    }

    fn charge_log(&self, bytes: u64, lines: u32) -> wasmtime::Result<()> {
        self.effects.charge_log(bytes, lines).map_err(|LimitHit { limit, message }| self.hit(limit, message))
    }

    fn output(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data of one instance.
pub(crate) struct State {
    pub(crate) context: Arc<CallContext>,
    pub(crate) table: ResourceTable,
    pub(crate) http: WasiHttpCtx,
    pub(crate) hooks: HttpHooks,
    memory_bytes: u64,
    table_elements: u64,
}

impl State {
    /// Creates the wasmtime store of one instance, with every limit in place.
    pub(crate) fn store(engine: &wasmtime::Engine, port: Arc<CallContext>) -> Store<Self> {
        let handles_max = usize::try_from(port.limits.handles_max).unwrap_or(usize::MAX);
        let transfer_bytes_max = usize::try_from(port.limits.transfer_bytes_max).unwrap_or(usize::MAX);
        let mut table = ResourceTable::new();
        table.set_max_capacity(handles_max);
        let hooks = HttpHooks::new(Arc::clone(&port));
        let state = Self { context: port, table, http: WasiHttpCtx::new(), hooks, memory_bytes: 0, table_elements: 0 };
        let mut store = Store::new(engine, state);
        store.limiter(|state| state);
        store.set_hostcall_fuel(transfer_bytes_max);
        store.set_max_component_handles(handles_max);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(Self::tick);
        store
    }

    /// Prepares the instance of an ended call for another one, with the limits of that call in place.
    pub(crate) fn begin(store: &mut Store<Self>, context: &Arc<CallContext>) {
        let transfer_bytes_max = usize::try_from(context.limits.transfer_bytes_max).unwrap_or(usize::MAX);
        let state = store.data_mut();
        context.record_memory(state.memory_bytes);
        state.hooks = HttpHooks::new(Arc::clone(context));
        state.context = Arc::clone(context);
        store.set_hostcall_fuel(transfer_bytes_max);
        store.set_epoch_deadline(1);
    }

    /// Returns whether the instance has more than half of the memory that its limit allows.
    pub(crate) fn is_memory_half_used(&self) -> bool {
        self.memory_bytes > self.context.limits.memory_bytes_max / 2
    }

    /// Called at each tick of the epoch clock: yields to other tasks, or stops the guest at its processor
    /// limit.
    fn tick(mut store: StoreContextMut<'_, Self>) -> wasmtime::Result<UpdateDeadline> {
        let state = store.data_mut();
        let cpu = state.context.limits.cpu;
        if state.context.meter.spent_so_far() > cpu {
            return Err(state.context.hit(LimitName::Cpu, format!("more than {cpu:?} of processor time in one call")));
        }
        Ok(UpdateDeadline::Yield(1))
    }
}

impl ResourceLimiter for State {
    fn memories(&self) -> usize {
        self.context.limits.memories_max as usize
    }

    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let bytes = (self.memory_bytes - current as u64).saturating_add(desired as u64);
        let bytes_max = self.context.limits.memory_bytes_max;
        if bytes > bytes_max {
            let message = format!("{bytes} bytes of memory asked for, {bytes_max} allowed");
            return Err(self.context.hit(LimitName::Memory, message));
        }
        self.memory_bytes = bytes;
        self.context.record_memory(bytes);
        // The first call for a memory creates it.
        if current > 0 {
            self.context.record_growth(desired.saturating_sub(current) as u64 / WASM_PAGE_BYTES);
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        if most == Some(POOLED_TABLE_ELEMENTS_MAX) && desired > POOLED_TABLE_ELEMENTS_MAX {
            // A table of the pool cannot grow beyond its slot. Without this check only the guest would
            // notice.
            let message =
                format!("a table of {desired} elements asked for, {POOLED_TABLE_ELEMENTS_MAX} fit in the pool");
            return Err(self.context.hit(LimitName::Tables, message));
        }
        let elements = (self.table_elements - current as u64).saturating_add(desired as u64);
        let elements_max = self.context.limits.table_elements_max;
        if elements > elements_max {
            let message = format!("{elements} elements of tables asked for, {elements_max} allowed");
            return Err(self.context.hit(LimitName::Tables, message));
        }
        self.table_elements = elements;
        Ok(true)
    }
}

/// Measures the time for which a call occupies a thread: sums up the durations of a future's polls.
///
/// Ticks of the epoch clock are too coarse to measure a reconcile of ten microseconds, and they count waiting
/// as work. The duration of the polls has neither flaw.
///
/// Only the polling thread writes; other threads may read a
/// slightly older value.
#[derive(Debug)]
pub(crate) struct Meter {
    base: Instant,
    spent_ns: AtomicU64,
    entered_ns: AtomicU64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { base: Instant::now(), spent_ns: AtomicU64::new(0), entered_ns: AtomicU64::new(0) }
    }

    /// Returns the time since the meter was created.
    pub(crate) fn wall(&self) -> Duration {
        self.base.elapsed()
    }

    /// Returns the time spent in completed polls.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    /// Returns the time spent in polls, including the current one. Call it within a poll.
    pub(crate) fn spent_so_far(&self) -> Duration {
        let current = self.now_ns().saturating_sub(self.entered_ns.load(Ordering::Relaxed));
        self.spent() + Duration::from_nanos(current)
    }

    /// Runs `future` and measures its polls.
    ///
    /// *Cancel safety*: as that of `future`.
    pub(crate) async fn measure<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            let entered = self.now_ns();
            self.entered_ns.store(entered, Ordering::Relaxed);
            let poll = future.as_mut().poll(context);
            self.spent_ns.fetch_add(self.now_ns() - entered, Ordering::Relaxed);
            poll
        })
        .await
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
