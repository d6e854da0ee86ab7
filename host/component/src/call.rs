//! One call of a guest, from the permit to the report.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use homeostat_store::{Key, Resource, View};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};
use wasmtime::component::{Instance, InstancePre, ResourceTableError};
use wasmtime::{Store, Trap, format_err};

use crate::bindings::types;
use crate::call_context::{CallContext, State};
use crate::code::{Code, LinkedCode, ReloadError, ResidentCode};
use crate::component::{Component, LoadedComponent};
use crate::contract::CONVERTER;
use crate::effect::{Call, Effects, EntryPoint, ResourceData};
use crate::imports::store::{from_key, to_key, to_resource};
use crate::instances::{CallSession, ExecutionPermit, Machine};
use crate::layers::{LimitHit, SealedWorld};
use crate::limits::LimitName;
use crate::limits::{Limits, STACK_BYTES_MAX, contract, cut};
use crate::link::link;
use crate::millis;
use crate::outcome::{CallReport, Cost, Fault, Outcome, Retry};
use crate::warm_instances::{WarmInstance, WarmInstances};

mod trap;

/// wasmtime's message for a store with too many memories.
const TOO_MANY_MEMORIES: &str = "memory count too high";
/// The time that the last lines of a stopped guest may take to reach the log.
const LAST_LINES_WAIT_MAX: Duration = Duration::from_millis(100);

impl Component {
    /// Brings the world one step closer to the desired state of the resource `key`, in a fresh instance.
    ///
    /// *Cancel safety*: dropping the future stops the guest at once. Effects performed so far remain.
    pub async fn reconcile(
        &self,
        caller: &mut CallSession,
        key: &Key,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Outcome> {
        self.reconcile_with(caller, None, key, limits, effects).await
    }

    /// As [`Component::reconcile`], in one of the kept instances if there are some, and keeps the instance of a call that
    /// succeeds.
    ///
    /// *Cancel safety*: as `reconcile`; the instance ends.
    pub async fn reconcile_with(
        &self,
        caller: &mut CallSession,
        warm: Option<&WarmInstances>,
        key: &Key,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Outcome> {
        let call = new_call(caller.controller(), EntryPoint::Reconcile, Some(key.clone()));
        let report = {
            let (leave, hand) = caller.acquire(&self.0.code, &self.0.engine.0.instances).await;
            let sandbox = Sandbox::new(leave, call, limits, effects);
            let key = to_key(key);
            // Pinned here: the future is large, and this call must be fast.
            let guest = pin!(async {
                let (code, ready) = hand.ready(self.0.engine.codes())?;
                if let Some(mut kept) = warm.and_then(|warm| warm.take(code, &sandbox.context)) {
                    let result = kept.guest.call_reconcile(&mut kept.store, &key).await?;
                    keep(warm, &result, || kept);
                    return Ok(result);
                }
                let LinkedCode { pre, entries } = self.0.linked(code, ready)?;
                let (mut store, instance) = sandbox.open(pre).await?;
                let guest = entries.reconciler.load(&mut store, &instance)?;
                let result = guest.call_reconcile(&mut store, &key).await?;
                keep(warm, &result, || WarmInstance::new(code, store, guest));
                Ok(result)
            });
            sandbox.run(guest).await
        };
        caller.yield_permit();
        CallReport { result: report.result.map(outcome), cost: report.cost }
    }

    /// Returns the keys that the change of `changed`, seen by the watch of this name, affects. They may be of
    /// any kind.
    ///
    /// A component without a mapper returns none. At most 10 000 keys, otherwise `Fault::Limit`.
    /// *Cancel safety*: as `reconcile`.
    pub async fn map(
        &self,
        controller: &Arc<str>,
        watch: &str,
        changed: &Resource,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Vec<Key>> {
        if !self.0.exports.mapper {
            return CallReport::empty(Vec::new());
        }
        let call = new_call(controller, EntryPoint::Map, None);
        let code = self.0.code.current();
        let leave = self.0.permit(&code, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let changed = to_resource(ResourceData::new(changed, View::Whole));
        let report = sandbox.run(async {
            let ready = code.ready(self.0.engine.codes())?;
            let LinkedCode { pre, entries } = self.0.linked(&code, &ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let mapper = entries.mapper.as_ref().ok_or(ReloadError)?;
            let guest = mapper.load(&mut store, &instance)?;
            let answer = guest.call_map(&mut store, watch, &changed).await?;
            keys(&store.data().context, answer, contract::MAP_KEYS_MAX)
        });
        report.await
    }

    /// Returns the keys to reconcile now, from the guest's poller.
    ///
    /// A component without a poller returns none. At most 100 000 keys, otherwise `Fault::Limit`.
    /// *Cancel safety*: as `reconcile`.
    pub async fn poll(
        &self,
        controller: &Arc<str>,
        limits: &Limits,
        effects: Arc<dyn Effects>,
    ) -> CallReport<Vec<Key>> {
        if !self.0.exports.poller {
            return CallReport::empty(Vec::new());
        }
        let call = new_call(controller, EntryPoint::Poll, None);
        let code = self.0.code.current();
        let leave = self.0.permit(&code, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = code.ready(self.0.engine.codes())?;
            let LinkedCode { pre, entries } = self.0.linked(&code, &ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let poller = entries.poller.as_ref().ok_or(ReloadError)?;
            let guest = poller.load(&mut store, &instance)?;
            let answer = guest.call_poll(&mut store).await?;
            keys(&store.data().context, answer, contract::POLL_KEYS_MAX)
        });
        report.await
    }

    /// Calls `lifecycle.start`, which runs before the first reconcile. No-op for a component without this
    /// export.
    ///
    /// *Cancel safety*: as `reconcile`.
    pub async fn start(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> CallReport<()> {
        if !self.0.exports.lifecycle {
            return CallReport::empty(());
        }
        let call = new_call(controller, EntryPoint::Start, None);
        let code = self.0.code.current();
        let leave = self.0.permit(&code, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = code.ready(self.0.engine.codes())?;
            let LinkedCode { pre, entries } = self.0.linked(&code, &ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let lifecycle = entries.lifecycle.as_ref().ok_or(ReloadError)?;
            let guest = lifecycle.load(&mut store, &instance)?;
            guest.call_start(&mut store).await
        });
        report.await
    }

    /// Calls `lifecycle.stop`, which runs after the last reconcile. No-op for a component without this
    /// export.
    ///
    /// *Cancel safety*: as `reconcile`.
    pub async fn stop(&self, controller: &Arc<str>, limits: &Limits, effects: Arc<dyn Effects>) -> CallReport<()> {
        if !self.0.exports.lifecycle {
            return CallReport::empty(());
        }
        let call = new_call(controller, EntryPoint::Stop, None);
        let code = self.0.code.current();
        let leave = self.0.permit(&code, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, effects);
        let report = sandbox.run(async {
            let ready = code.ready(self.0.engine.codes())?;
            let LinkedCode { pre, entries } = self.0.linked(&code, &ready)?;
            let (mut store, instance) = sandbox.open(pre).await?;
            let lifecycle = entries.lifecycle.as_ref().ok_or(ReloadError)?;
            let guest = lifecycle.load(&mut store, &instance)?;
            guest.call_stop(&mut store).await.map(Ok)
        });
        report.await
    }

    /// Returns documents in the `apiVersion` `desired`, unchecked. The guest has no settings, and no effects.
    ///
    /// A component without this export fails.
    /// *Cancel safety*: as `reconcile`.
    pub async fn convert(
        &self,
        controller: &Arc<str>,
        desired: &str,
        documents: &[String],
        limits: &Limits,
    ) -> CallReport<Vec<String>> {
        let call = new_call(controller, EntryPoint::Convert, None);
        let code = self.0.code.current();
        let leave = ExecutionPermit::acquire(&code.machine, &self.0.engine.0.conversions, controller).await;
        let sandbox = Sandbox::new(&leave, call, limits, Arc::new(SealedWorld::default()));
        let report = sandbox.run(async {
            let ready = code.ready(self.0.engine.codes())?;
            let LinkedCode { pre, entries } = self.0.linked(&code, &ready)?;
            let Some(converter) = entries.converter.as_ref() else {
                return Ok(Err(never(format!("the component has no export {}", CONVERTER))));
            };
            let (mut store, instance) = sandbox.open(pre).await?;
            let guest = converter.load(&mut store, &instance)?;
            let answer = guest.call_convert(&mut store, desired, documents).await?;
            texts(&store.data().context, answer)
        });
        report.await
    }
}

impl LoadedComponent {
    /// Waits for a permit to call the component once, on this code.
    async fn permit(&self, code: &Code, controller: &Arc<str>) -> ExecutionPermit {
        ExecutionPermit::acquire(&code.machine, &self.engine.0.instances, controller).await
    }

    fn linked<'a>(&self, code: &Code, ready: &'a ResidentCode) -> Result<&'a LinkedCode, ReloadError> {
        // The component was linked when it was loaded, so linking it again cannot fail for another reason.
        ready.linked(|component| link(&code.machine, component, self.exports).map_err(|_| ReloadError))
    }
}

/// Keeps the instance of a successful call.
fn keep<T>(warm: Option<&WarmInstances>, result: &Result<T, types::Failure>, instance: impl FnOnce() -> WarmInstance) {
    if let (Some(warm), Ok(_)) = (warm, result) {
        warm.keep(instance());
    }
}

fn outcome(outcome: types::Outcome) -> Outcome {
    match outcome {
        types::Outcome::Settled => Outcome::Settled,
        types::Outcome::AgainAfter(delay_ms) => Outcome::AgainAfter(delay(delay_ms)),
    }
}

/// The sandbox of one call.
pub(crate) struct Sandbox<'a> {
    machine: &'a Machine,
    context: Arc<CallContext>,
}

/// The deadline has passed.
struct TooLate;

impl<'a> Sandbox<'a> {
    /// Creates the sandbox of one call, under a permit to run it.
    pub(crate) fn new(leave: &'a ExecutionPermit, call: Call, limits: &Limits, effects: Arc<dyn Effects>) -> Self {
        Self { machine: leave.machine(), context: Arc::new(CallContext::new(call, limits, effects)) }
    }

    /// Creates a fresh instance with every limit in place.
    pub(crate) async fn open(&self, pre: &InstancePre<State>) -> wasmtime::Result<(Store<State>, Instance)> {
        let mut store = State::store(&self.machine.engine, Arc::clone(&self.context));
        let instance = pre.instantiate_async(&mut store).await?;
        Ok((store, instance))
    }

    /// Runs `guest` within the deadline, and returns its result and its cost.
    pub(crate) async fn run<T>(
        &self,
        guest: impl Future<Output = wasmtime::Result<Result<T, types::Failure>>>,
    ) -> CallReport<T> {
        let deadline = self.context.limits.deadline;
        // Pinned in place: they are large, and moving them costs more than polling them.
        let guest = pin!(guest);
        let work = pin!(async {
            let result = guest.await?;
            self.context.finish_output().await?;
            Ok(result)
        });
        let ended = within(deadline, self.context.meter.measure(work)).await;
        let cost = self.context.cost();
        let result = match (ended, self.context.first_hit()) {
            // A limit that was hit is the cause of all later errors.
            (_, Some(LimitHit { limit, message })) => Err(Fault::Limit { limit, message }),
            (Ok(Ok(Ok(value))), None) => return CallReport { result: Ok(value), cost },
            (Ok(Ok(Err(failed))), None) => Err(failure(failed)),
            (Ok(Err(error)), None) => Err(self.fault(&error)),
            (Err(TooLate), None) => {
                let message = format!("the call did not end within {deadline:?}");
                Err(Fault::Limit { limit: LimitName::Deadline, message })
            }
        };
        // The last lines before a guest was stopped are the most valuable ones. A log that does not accept
        // them in time loses them.
        drop(within(LAST_LINES_WAIT_MAX, self.context.finish_output()).await);
        CallReport { result, cost }
    }

    /// Returns the reason why wasmtime stopped the guest.
    fn fault(&self, error: &wasmtime::Error) -> Fault {
        let Limits { transfer_bytes_max, handles_max, memories_max, .. } = self.context.limits;
        if let Some(lost) = error.downcast_ref::<ReloadError>() {
            return Fault::Failure { message: lost.to_string(), retry: Retry::Backoff };
        }
        let root = error.root_cause().to_string();
        if root.contains("fuel allocated for hostcalls") {
            let message = format!("the guest passed more than {transfer_bytes_max} bytes in one call");
            return Fault::Limit { limit: LimitName::Transfer, message };
        }
        if matches!(error.downcast_ref(), Some(ResourceTableError::Full))
            || root.contains("store handle limit exceeded")
        {
            let message = format!("the guest holds more than {handles_max} handles");
            return Fault::Limit { limit: LimitName::Handles, message };
        }
        if root.contains(TOO_MANY_MEMORIES) {
            let message = format!("the component has more than {memories_max} memories");
            return Fault::Limit { limit: LimitName::Memories, message };
        }
        let message = trap::message(error, &self.context.last_words());
        if matches!(error.downcast_ref(), Some(Trap::StackOverflow)) {
            let message = format!("more than {STACK_BYTES_MAX} bytes of stack: {message}");
            return Fault::Limit { limit: LimitName::Stack, message };
        }
        Fault::Trap { message }
    }
}

/// Waits for `work` until the deadline. Most calls end with the first poll: for these no timer is created, so
/// they do not touch the clock that all tasks share.
async fn within<T>(deadline: Duration, work: impl Future<Output = T>) -> Result<T, TooLate> {
    let (mut work, began) = (pin!(work), Instant::now());
    let mut timer: Option<Pin<Box<_>>> = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        // Without `unconstrained`, work that has used up its task's budget would also delay the timer.
        let timer = timer.get_or_insert_with(|| Box::pin(unconstrained(sleep_until(began + deadline))));
        timer.as_mut().poll(context).map(|()| Err(TooLate))
    })
    .await
}

impl<T> CallReport<T> {
    /// Returns the report of a call that was not necessary.
    pub(crate) fn empty(value: T) -> Self {
        Self { result: Ok(value), cost: Cost::default() }
    }
}

/// Converts the keys that a guest returned, at most `keys_max`.
///
/// # Errors
/// There are too many keys, their total size is too large, or one is malformed: the guest broke the contract.
/// The error is a trap.
pub(crate) fn keys(
    port: &CallContext,
    answer: Result<Vec<types::Key>, types::Failure>,
    keys_max: usize,
) -> wasmtime::Result<Result<Vec<Key>, types::Failure>> {
    let keys = match answer {
        Ok(keys) => keys,
        Err(failure) => return Ok(Err(failure)),
    };
    if keys.len() > keys_max {
        return Err(port.hit(LimitName::Result, format!("{} keys returned, {keys_max} allowed", keys.len())));
    }
    let (bytes, bytes_max) = (keys.iter().map(key_bytes).sum::<u64>(), port.limits.result_bytes_max);
    if bytes > bytes_max {
        return Err(port.hit(LimitName::Result, format!("keys of {bytes} bytes returned, {bytes_max} allowed")));
    }
    let keys = keys.into_iter().enumerate();
    let keys = keys.map(|(at, key)| from_key(key).map_err(|error| format_err!("key {at} of the answer: {error}")));
    keys.collect::<wasmtime::Result<_>>().map(Ok)
}

/// Checks the size of the texts that a guest returned.
///
/// # Errors
/// Their total size is too large.
fn texts(
    port: &CallContext,
    answer: Result<Vec<String>, String>,
) -> wasmtime::Result<Result<Vec<String>, types::Failure>> {
    let texts = match answer {
        Ok(texts) => texts,
        Err(message) => return Ok(Err(never(message))),
    };
    let (bytes, bytes_max) = (texts.iter().map(|text| text.len() as u64).sum::<u64>(), port.limits.result_bytes_max);
    if bytes > bytes_max {
        return Err(port.hit(LimitName::Result, format!("documents of {bytes} bytes returned, {bytes_max} allowed")));
    }
    Ok(Ok(texts))
}

fn never(message: String) -> types::Failure {
    types::Failure { message, retry: types::Retry::Never }
}

fn key_bytes(key: &types::Key) -> u64 {
    let types::Key { kind: types::Kind { group, version, name: kind }, namespace, name } = key;
    [group, version, kind, namespace, name].iter().map(|text| text.len() as u64).sum()
}

/// Returns a requested delay, cut at the maximum.
pub(crate) fn delay(delay_ms: u64) -> Duration {
    let delay = Duration::from_millis(delay_ms);
    if delay > Outcome::DELAY_MAX {
        tracing::warn!(delay_ms, delay_ms_max = millis::of(Outcome::DELAY_MAX), "cut the delay that a guest asked for");
    }
    delay.min(Outcome::DELAY_MAX)
}

fn failure(failure: types::Failure) -> Fault {
    let types::Failure { message, retry } = failure;
    let retry = match retry {
        types::Retry::Backoff => Retry::Backoff,
        types::Retry::After(delay_ms) => Retry::After(delay(delay_ms)),
        types::Retry::Never => Retry::Never,
    };
    Fault::Failure { message: cut(message, contract::FAILURE_MESSAGE_BYTES_MAX), retry }
}

/// Call numbers that a thread reserves at a time, so that threads do not contend for the counter at each
/// call.
const NUMBERS: u64 = 1024;

/// Returns a call with a unique number.
pub(crate) fn new_call(controller: &Arc<str>, entry: EntryPoint, key: Option<Key>) -> Call {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static LAST: Cell<u64> = const { Cell::new(0) };
    }
    let last = match LAST.get() {
        last if last.is_multiple_of(NUMBERS) => TAKEN.fetch_add(NUMBERS, Ordering::Relaxed),
        last => last,
    };
    LAST.set(last + 1);
    Call { id: last + 1, controller: Arc::clone(controller), entry, key }
}

#[cfg(test)]
mod tests;
