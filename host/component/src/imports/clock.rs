//! `wasi:clocks`: reading a clock is an effect; waiting is done by the tokio runtime, within the deadline of
//! the call.

use std::time::Duration;

use tokio::time::Instant;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::{WASI_VERSION, answer};
use crate::call_context::CallContext;
use crate::call_context::State;
use crate::effect::Effect;

const NANOSECONDS: u64 = 1_000_000_000;

/// The resolution that both clocks claim: one microsecond.
const RESOLUTION_NS: u32 = 1000;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut wall = linker.instance(&format!("wasi:clocks/wall-clock@{WASI_VERSION}"))?;
    wall.func_wrap_async("now", |store, (): ()| {
        Box::new(async move {
            let now = read(&store.data().context, Effect::WallClock).await?;
            Ok((Datetime { seconds: now / NANOSECONDS, nanoseconds: u32::try_from(now % NANOSECONDS)? },))
        })
    })?;
    wall.func_wrap("resolution", |_, (): ()| Ok((Datetime { seconds: 0, nanoseconds: RESOLUTION_NS },)))?;

    let mut monotonic = linker.instance(&format!("wasi:clocks/monotonic-clock@{WASI_VERSION}"))?;
    monotonic.func_wrap_async("now", |store, (): ()| {
        Box::new(async move { Ok((read(&store.data().context, Effect::MonotonicClock).await?,)) })
    })?;
    monotonic.func_wrap("resolution", |_, (): ()| Ok((u64::from(RESOLUTION_NS),)))?;
    monotonic.func_wrap_async("subscribe-instant", |mut store, (when,): (u64,)| {
        Box::new(async move {
            let now = read(&store.data().context, Effect::MonotonicClock).await?;
            Ok((timer(store.data_mut(), when.saturating_sub(now))?,))
        })
    })?;
    monotonic
        .func_wrap("subscribe-duration", |mut store, (duration,): (u64,)| Ok((timer(store.data_mut(), duration)?,)))
}

async fn read(port: &CallContext, effect: Effect) -> wasmtime::Result<u64> {
    Ok(answer!(port.perform(effect).await?, Nanoseconds))
}

/// Creates a pollable that is ready after `wait_ns` nanoseconds.
pub(super) fn timer(state: &mut State, wait_ns: u64) -> wasmtime::Result<Resource<DynPollable>> {
    let timer = Timer { due: Instant::now().checked_add(Duration::from_nanos(wait_ns)) };
    let timer = state.table.push(timer)?;
    subscribe(&mut state.table, timer)
}

/// A pollable that is ready at a moment. Never ready if the moment cannot be represented.
struct Timer {
    due: Option<Instant>,
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        match self.due {
            // A guest that polls an expired timer in a loop must not starve the other tasks.
            Some(due) if due <= Instant::now() => tokio::task::yield_now().await,
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}
