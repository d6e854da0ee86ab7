//! The calls that `inspect` makes, and the limits that a manifest needs for them.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::layers::EmptyWorld;
use homeostat_component::{CallSession, Component, Cost, Limits};
use homeostat_runtime::manifest::{Bytes, Span};
use homeostat_store::Key;
use serde_json::{Map, Value, json};

/// A resource has more to process than one that does not exist, and a busy machine takes longer.
const CPU_FACTOR: u32 = 10;
const MEMORY_FACTOR: u64 = 2;

/// The costs of the first calls of a component.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeasuredCalls {
    pub(super) describe: Cost,
    /// Of a resource that does not exist.
    pub(super) reconcile: Cost,
}

impl MeasuredCalls {
    /// Reconciles a resource that does not exist, in a world without content. A failure of the call is a result as good
    /// as any.
    pub(super) async fn of(component: &Component) -> Self {
        let manages = &component.describe().manages;
        let namespace = if manages.namespaced { "default" } else { "" };
        let key = Key::new(manages.kind.clone(), namespace, "missing");
        let (mut session, limits) = (CallSession::new("inspect"), super::ample());
        let reconcile = component.reconcile(&mut session, &key, &limits, Arc::new(EmptyWorld)).await.cost;
        Self { describe: *component.describe_cost(), reconcile }
    }

    pub(super) fn facts(&self) -> Value {
        let fact = |cost: &Cost| {
            json!({
                "cpuUs": u64::try_from(cost.cpu.as_micros()).unwrap_or(u64::MAX),
                "memoryBytesMax": cost.memory_bytes_max,
                "pagesGrown": cost.pages_grown,
            })
        };
        json!({"describe": fact(&self.describe), "reconcile": fact(&self.reconcile)})
    }

    /// Returns the limits of a manifest, as written there, for which the defaults leave too little room.
    pub(super) fn suggested_limits(&self) -> Value {
        let Limits { cpu: cpu_default, memory_bytes_max: memory_default, .. } = Limits::default();
        let calls = [&self.describe, &self.reconcile];
        let cpu = calls.map(|cost| cost.cpu).into_iter().max().unwrap_or_default() * CPU_FACTOR;
        let memory = calls.map(|cost| cost.memory_bytes_max).into_iter().max().unwrap_or_default() * MEMORY_FACTOR;
        let mut limits = Map::new();
        if cpu > cpu_default {
            let seconds = Duration::from_secs(cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0));
            limits.insert("cpu".to_owned(), Span(seconds).to_string().into());
        }
        if memory > memory_default {
            limits.insert("memory".to_owned(), Bytes(memory.next_power_of_two()).to_string().into());
        }
        Value::Object(limits)
    }
}

/// Returns a line for each call.
pub(super) fn lines(calls: &Value) -> Vec<String> {
    let calls = calls.as_object().into_iter().flatten();
    let line = |name: &str, call: &Value| {
        let number = |name: &str| call[name].as_u64().unwrap_or(0);
        format!("{name}: {} µs of processor time, {} KiB", number("cpuUs"), number("memoryBytesMax") >> 10)
    };
    calls.map(|(name, call)| line(name, call)).collect()
}

#[cfg(test)]
mod tests;
