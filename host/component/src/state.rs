//! The state of one instance: its call context, its handles, and its memory size.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::call_context::CallContext;
use crate::imports::HttpHooks;
use crate::limits::LimitName;
use crate::options::POOLED_TABLE_ELEMENTS_MAX;

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

#[cfg(test)]
mod tests;
