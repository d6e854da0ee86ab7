//! A new version beside the one that runs: it gets the same keys and the same answers, and nothing of what it does is applied.
//!
//! While a shadow is on, the worker that reconciles a key keeps what passes, within a bound. When the key is settled, the shadow's own task
//! runs the new version for the same key: what the old one was answered answers it, a read of its own goes to the store, and a write, a
//! request, an event or a follow is held back (`layer.rs`). Then both are compared (`compare.rs`) and counted (`report.rs`).
//!
//! One reconcile runs as a shadow at a time, in the controller's turns, and one more waits; whatever else ends meanwhile is skipped, and
//! counted. So the shadow is never in the way of a key.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use homeostat_component::layers::{Headers, Recorder, World};
use homeostat_component::{CallSession, Effects, Fault, Needs, Outcome};
use homeostat_store::{Key, Kind, Revision, Scope, Store};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::controller::Controller;
use crate::observations::DenialReporter;
use crate::slot::LoadedVersion;
use crate::{Definition, Error, Host, sink, stats};

mod compare;
mod layer;
mod report;
mod run;
mod scene;

pub use compare::ReconcileDifference;
pub use report::{DifferenceCount, DifferenceLimit, ShadowPlan, ShadowReport, ShadowVerdict, UnfitReason};

use layer::{NullSink, ShadowEffects};
use report::CompareResult;
use run::{DenialCollector, Run};
use scene::{Before, ReplayState};

/// What may be kept of one reconcile, in bytes as the limit `effect-bytes` counts them.
const RECORDING_BYTES_MAX: u64 = 4 << 20;

/// A new version that is tried beside the one that runs.
pub(crate) struct Shadow {
    /// The version that runs.
    stable: Arc<LoadedVersion>,
    /// Where what the old one asks for is done.
    outside: Arc<Headers<World>>,
    candidate: Definition,
    inbox: mpsc::Sender<Box<CapturedReconcile>>,
    report: Mutex<ShadowReport>,
    /// Cancelled when nothing is compared any more.
    over: CancellationToken,
}

/// A reconcile of the old version that is over.
struct CapturedReconcile {
    key: Key,
    result: Result<Outcome, Fault>,
    denials: Arc<DenialCollector>,
    recorder: Arc<Recorder<Arc<Headers<World>>>>,
}

/// A place in the line of a shadow, for a reconcile that runs.
pub(crate) struct Capture {
    permit: mpsc::OwnedPermit<Box<CapturedReconcile>>,
    denials: Arc<DenialCollector>,
    recorder: Arc<Recorder<Arc<Headers<World>>>>,
    effects: Arc<dyn Effects>,
}

impl Capture {
    /// Returns the way out of the old version's sandbox on which what passes is kept.
    pub(crate) fn effects(&self) -> Arc<dyn Effects> {
        self.effects.clone()
    }

    /// Hands over what was kept, once the key is settled.
    pub(crate) fn settled(self, key: &Key, result: &Result<Outcome, Fault>) {
        let Self { permit, denials, recorder, effects: _ } = self;
        permit.send(Box::new(CapturedReconcile { key: key.clone(), result: result.clone(), denials, recorder }));
    }
}

impl Host {
    /// Begins to try a definition beside the one that the controller of its name runs, instead of any that is tried now: it gets the same keys
    /// and the same answers, and nothing of what it does is applied. Its start hook does not run. A swap, a change, a removal and a
    /// suspension end it.
    ///
    /// # Errors
    /// [`Error::UnknownController`], [`Error::ManagesAnother`], [`Error::Refused`], [`Error::KindDiffers`].
    pub async fn begin_shadow(&self, definition: Definition) -> Result<(), Error> {
        self.controller(&definition.name)?.begin_shadow(definition).await
    }

    /// Ends what is tried beside the version that a controller runs, if there is something.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn end_shadow(&self, name: &str) -> Result<(), Error> {
        self.controller(name)?.end_shadow();
        Ok(())
    }

    /// Returns what came of trying a definition beside the one that a controller runs: of the one that is tried, else of the last one.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn shadow_report(&self, name: &str) -> Result<Option<ShadowReport>, Error> {
        let controller = self.controller(name)?;
        Ok(controller.shadow_report().or_else(|| controller.last_shadow.lock().clone()))
    }
}

impl Controller {
    /// Begins to try another definition beside the one that runs.
    ///
    /// # Errors
    /// As [`Host::begin_shadow`].
    pub(crate) async fn begin_shadow(self: &Arc<Self>, new: Definition) -> Result<(), Error> {
        self.fits(&self.slot.current(), &new).await?;
        self.end_shadow();
        let (inbox, arrivals) = mpsc::channel(1);
        let old = self.slot.current();
        let shadow = Arc::new(Shadow {
            outside: Arc::new(sink::outside(&self.context, &self.follows, &old.definition)),
            stable: old,
            candidate: new,
            inbox,
            report: Mutex::default(),
            over: CancellationToken::new(),
        });
        self.shadow.store(Some(shadow.clone()));
        let (controller, beside) = (self.clone(), shadow.clone());
        self.spawn_in_turns(async move { beside.run(&controller, arrivals).await });
        Ok(())
    }

    /// Returns what came so far of what is tried beside the version that runs; `None`: nothing is.
    pub(crate) fn shadow_report(&self) -> Option<ShadowReport> {
        self.shadow.load().as_ref().map(|shadow| shadow.report())
    }

    /// Ends what is tried beside the version that runs, if there is something.
    pub(crate) fn end_shadow(&self) {
        if let Some(shadow) = self.shadow.swap(None) {
            shadow.over.cancel();
            *self.last_shadow.lock() = Some(shadow.report());
        }
    }

    /// Returns a place in the line of the shadow, for a reconcile that begins; `None`: none is on, or it has no time for this one.
    pub(crate) fn start_capture(&self, loaded: &Arc<LoadedVersion>) -> Option<Capture> {
        let shadow = self.shadow.load();
        let shadow = shadow.as_ref()?;
        if !Arc::ptr_eq(loaded, &shadow.stable) || shadow.is_over() {
            return None;
        }
        let Ok(permit) = shadow.inbox.clone().try_reserve_owned() else {
            shadow.report.lock().skipped += 1;
            self.stats.shadowed(stats::ShadowOutcome::Skipped);
            return None;
        };
        let told = DenialReporter { context: self.context.clone(), observations: self.observations.clone() };
        let denials = DenialCollector::before(Some(Arc::new(told)));
        let recorder = Arc::new(Recorder::within(RECORDING_BYTES_MAX, shadow.outside.clone()));
        let (needs, definition) = (self.observations.needs.clone(), &loaded.definition);
        let effects = sink::within(&self.context, needs, denials.clone(), definition, recorder.clone());
        Some(Capture { permit, denials, recorder, effects })
    }
}

impl Shadow {
    /// Returns what it came to so far.
    pub(crate) fn report(&self) -> ShadowReport {
        self.report.lock().clone()
    }

    fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Compares one reconcile after the other.
    async fn run(&self, controller: &Controller, mut arrivals: mpsc::Receiver<Box<CapturedReconcile>>) {
        let compared = async {
            while let Some(recorded) = arrivals.recv().await {
                let compared = AssertUnwindSafe(self.compare(controller, *recorded)).catch_unwind().await;
                let compared = compared.unwrap_or_else(|_| {
                    controller.note_panic();
                    CompareResult::Unfit(UnfitReason::HostFailed)
                });
                controller.stats.shadowed(compared.in_one_word());
                self.report.lock().note(compared);
            }
        };
        tokio::select! {
            biased;
            () = self.over.cancelled() => {}
            () = controller.feeders.stopped() => controller.end_shadow(),
            () = compared => {}
        }
    }

    /// Runs the new version for a key that the old one has settled, and compares the two.
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

    /// Runs the new version for a key, with the world as the old one found it.
    async fn run_new(&self, controller: &Controller, key: &Key, scene: ReplayState) -> Result<Run, UnfitReason> {
        let context: &Context = &controller.context;
        let world = sink::world(context, NullSink, &self.candidate);
        let shadowed = Arc::new(ShadowEffects::new(scene, context.store.clone(), world));
        let recorder = Arc::new(Recorder::new(shadowed.clone()));
        let denials = DenialCollector::before(None);
        let needs = Arc::<Needs>::default();
        let effects = sink::within(context, needs, denials.clone(), &self.candidate, recorder.clone());
        let mut caller = CallSession::new(&controller.name);
        let report = self.candidate.component.reconcile(&mut caller, key, &self.candidate.limits, effects).await;
        if let Some(unfit) = shadowed.unfit() {
            return Err(unfit);
        }
        // Its limits bound what it does.
        let exchanges = recorder.take().ok_or(UnfitReason::TooLong)?;
        Ok(Run { exchanges, result: report.result, denials: denials.take() })
    }
}

/// Finds out what was there before the old version wrote, and sets the scene.
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

/// Reads in the store's history what a resource was before the change that made a revision.
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
