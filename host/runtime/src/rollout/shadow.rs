//! Shadows: a candidate gets the same keys and answers as the stable version, and none of its effects is
//! applied.
//!
//! While a shadow is on, the worker captures the effects and answers of each reconcile, within a bound.
//! Afterwards the shadow's task runs the candidate for the same key (`layer.rs`). Answers of the stable
//! version are replayed; other reads go to the store; writes, requests, events and follows are suppressed.
//! Both runs are compared (`compare.rs`) and counted (`ShadowReport`).
//!
//! One reconcile at a time runs as a shadow, as part of the controller's tenant, and one more waits; others
//! are skipped and counted. So a shadow never delays a key.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use homeostat_component::layers::{Headers, Recorder, World};
use homeostat_component::{CallSession, Effects, Fault, Needs, Outcome};
use homeostat_store::{Key, Kind, Revision, Scope, Store};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::CompareResult;
use crate::context::Context;
use crate::controller::Controller;
use crate::observations::DenialReporter;
use crate::slot::LoadedVersion;
use crate::{Definition, Error, effect_stack, stats};

mod compare;
mod layer;
mod replay_state;
mod run;

pub use super::{
    DifferenceCount, DifferenceLimit, ReconcileDifference, ShadowPlan, ShadowReport, ShadowVerdict, UnfitReason,
};

use layer::{NullSink, ShadowEffects};
use replay_state::{Before, ReplayState};
use run::{DenialCollector, Run};

/// Maximum bytes captured of one reconcile, counted like the limit `effect-bytes`.
const RECORDING_BYTES_MAX: u64 = 4 << 20;

/// A candidate that runs as a shadow of the stable version.
struct Shadow {
    /// The stable version.
    stable: Arc<LoadedVersion>,
    /// The layers that perform the stable version's effects.
    outside: Arc<Headers<World>>,
    candidate: Definition,
    inbox: mpsc::Sender<Box<CapturedReconcile>>,
    report: Mutex<ShadowReport>,
    /// Cancelled when the shadow ends.
    over: CancellationToken,
}

/// A captured reconcile of the stable version.
struct CapturedReconcile {
    key: Key,
    result: Result<Outcome, Fault>,
    denials: Arc<DenialCollector>,
    recorder: Arc<Recorder<Arc<Headers<World>>>>,
}

/// The capture of a running reconcile, with a reserved place in the shadow's queue.
pub(crate) struct Capture {
    permit: mpsc::OwnedPermit<Box<CapturedReconcile>>,
    denials: Arc<DenialCollector>,
    recorder: Arc<Recorder<Arc<Headers<World>>>>,
    effects: Arc<dyn Effects>,
}

impl Capture {
    /// Returns the effect layers of the stable version that capture.
    pub(crate) fn effects(&self) -> Arc<dyn Effects> {
        self.effects.clone()
    }

    /// Hands the capture to the shadow once the key is settled.
    pub(crate) fn settled(self, key: &Key, result: &Result<Outcome, Fault>) {
        let Self { permit, denials, recorder, effects: _ } = self;
        permit.send(Box::new(CapturedReconcile { key: key.clone(), result: result.clone(), denials, recorder }));
    }
}

/// The shadow of a controller, and the report of the last one.
#[derive(Default)]
pub(crate) struct ShadowSlot {
    running: ArcSwapOption<Shadow>,
    last: Mutex<Option<ShadowReport>>,
}

impl ShadowSlot {
    /// Starts a shadow in the slot of a controller.
    ///
    /// # Errors
    /// As [`Host::begin_shadow`](crate::Host::begin_shadow).
    pub(crate) async fn begin(controller: &Arc<Controller>, new: Definition) -> Result<(), Error> {
        controller.fits(&controller.slot.current(), &new).await?;
        controller.shadow.end();
        let (inbox, arrivals) = mpsc::channel(1);
        let old = controller.slot.current();
        let shadow = Arc::new(Shadow {
            outside: Arc::new(effect_stack::outside(
                &controller.context,
                &controller.follows,
                &controller.enqueued,
                &controller.slot.placement,
                &old.definition,
            )),
            stable: old,
            candidate: new,
            inbox,
            report: Mutex::default(),
            over: CancellationToken::new(),
        });
        controller.shadow.running.store(Some(shadow.clone()));
        let beside = controller.clone();
        controller.lifecycle.spawn(|_| async move { shadow.run(&beside, arrivals).await });
        Ok(())
    }

    /// Returns whether a shadow runs.
    pub(crate) fn is_on(&self) -> bool {
        self.running.load().is_some()
    }

    /// Returns the report of the running shadow, `None` without one.
    pub(crate) fn report(&self) -> Option<ShadowReport> {
        self.running.load().as_ref().map(|shadow| shadow.report())
    }

    /// Returns the report of the last shadow that ended.
    pub(crate) fn last_report(&self) -> Option<ShadowReport> {
        self.last.lock().clone()
    }

    /// Ends the shadow, if there is one.
    pub(crate) fn end(&self) {
        if let Some(shadow) = self.running.swap(None) {
            shadow.over.cancel();
            *self.last.lock() = Some(shadow.report());
        }
    }

    /// Starts the capture of a reconcile. Returns `None` if no shadow is on or it is busy.
    pub(crate) fn capture(&self, controller: &Controller, loaded: &Arc<LoadedVersion>) -> Option<Capture> {
        let shadow = self.running.load();
        let shadow = shadow.as_ref()?;
        if !Arc::ptr_eq(loaded, &shadow.stable) || shadow.is_over() {
            return None;
        }
        let (context, observations) = (&controller.context, &controller.telemetry.observations);
        let Ok(permit) = shadow.inbox.clone().try_reserve_owned() else {
            shadow.report.lock().skipped += 1;
            controller.telemetry.stats.shadowed(stats::ShadowOutcome::Skipped);
            return None;
        };
        let told = DenialReporter { context: context.clone(), observations: observations.clone() };
        let denials = DenialCollector::before(Some(Arc::new(told)));
        let recorder = Arc::new(Recorder::within(RECORDING_BYTES_MAX, shadow.outside.clone()));
        let (needs, definition) = (observations.needs.clone(), &loaded.definition);
        let effects = effect_stack::within(context, needs, denials.clone(), definition, recorder.clone());
        Some(Capture { permit, denials, recorder, effects })
    }
}

impl Shadow {
    /// Returns the report so far.
    fn report(&self) -> ShadowReport {
        self.report.lock().clone()
    }

    fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Compares captured reconciles one after the other.
    async fn run(&self, controller: &Controller, mut arrivals: mpsc::Receiver<Box<CapturedReconcile>>) {
        let compared = async {
            while let Some(recorded) = arrivals.recv().await {
                let compared = AssertUnwindSafe(self.compare(controller, *recorded)).catch_unwind().await;
                let compared = compared.unwrap_or_else(|_| {
                    controller.note_panic();
                    CompareResult::Unfit(UnfitReason::HostFailed)
                });
                controller.telemetry.stats.shadowed(compared.in_one_word());
                self.report.lock().note(compared);
            }
        };
        tokio::select! {
            biased;
            () = self.over.cancelled() => {}
            () = controller.feeders.stopped() => controller.shadow.end(),
            () = compared => {}
        }
    }

    /// Runs the candidate for a captured key and compares both runs.
    async fn compare(&self, controller: &Controller, recorded: CapturedReconcile) -> CompareResult {
        let CapturedReconcile { key, result, denials, recorder } = recorded;
        if !self.candidate.may_get(&key) {
            return CompareResult::Unfit(UnfitReason::NotGranted);
        }
        let Some(exchanges) = recorder.take() else { return CompareResult::Unfit(UnfitReason::TooLong) };
        if matches!(result, Err(Fault::Trap { .. } | Fault::Limit { .. })) {
            return CompareResult::Unfit(UnfitReason::OldStopped);
        }
        let context = &controller.context;
        let scene = match build_replay_state(&*context.store, &exchanges).await {
            Ok(scene) => scene,
            Err(unfit) => return CompareResult::Unfit(unfit),
        };
        let old = Run { exchanges, result, denials: denials.take() };
        match self.run_new(controller, &key, scene).await {
            Ok(new) => compared(&key, &old, &new),
            Err(unfit) => CompareResult::Unfit(unfit),
        }
    }

    /// Runs the candidate for a key in the state that the stable version found.
    async fn run_new(&self, controller: &Controller, key: &Key, scene: ReplayState) -> Result<Run, UnfitReason> {
        let context: &Context = &controller.context;
        let world = effect_stack::world(context, NullSink, &self.candidate);
        let shadowed = Arc::new(ShadowEffects::new(scene, context.store.clone(), world));
        let recorder = Arc::new(Recorder::new(shadowed.clone()));
        let denials = DenialCollector::before(None);
        let needs = Arc::<Needs>::default();
        let effects = effect_stack::within(context, needs, denials.clone(), &self.candidate, recorder.clone());
        let mut caller = CallSession::new(&controller.name);
        let report = self.candidate.component.reconcile(&mut caller, key, &self.candidate.limits, effects).await;
        if let Some(unfit) = shadowed.unfit() {
            return Err(unfit);
        }
        // The limits of the candidate bound its exchanges.
        let exchanges = recorder.take().ok_or(UnfitReason::TooLong)?;
        Ok(Run { exchanges, result: report.result, denials: denials.take() })
    }
}

/// Reads the state before the stable version's writes and builds the replay state.
async fn build_replay_state(
    store: &dyn Store,
    exchanges: &[homeostat_component::Exchange],
) -> Result<ReplayState, UnfitReason> {
    let mut before: Before = BTreeMap::new();
    for (kind, revision) in ReplayState::unobserved_changes(exchanges) {
        before.insert(revision, read_previous(store, kind, revision).await?);
    }
    ReplayState::set(exchanges.to_vec(), &before)
}

/// Reads from the store's history the version of a resource before this revision.
async fn read_previous(
    store: &dyn Store,
    kind: Kind,
    revision: Revision,
) -> Result<Option<Arc<homeostat_store::Resource>>, UnfitReason> {
    let from = Revision(revision.0.saturating_sub(1));
    let mut watch = store.watch(Scope::Kind(kind), from).await.map_err(|_| UnfitReason::PastIsGone)?;
    let event = watch.next().await.map_err(|_| UnfitReason::PastIsGone)?;
    if event.revision == revision { Ok(event.previous) } else { Err(UnfitReason::PastIsGone) }
}

fn compared(key: &Key, old: &Run, new: &Run) -> CompareResult {
    let differences = compare::differences(key, old, new);
    if differences.is_empty() {
        return CompareResult::Equal;
    }
    CompareResult::Differing { differences, failed_alone: old.result.is_ok() && new.result.is_err() }
}
