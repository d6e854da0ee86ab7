//! The effect layers of a controller's sandboxes, and the sink for events, log lines, follows and keys of guests.

use std::sync::Arc;

use homeostat_component::layers::{
    DenialObserver, EnqueuedKey, FollowTarget, Granted, GuestEvent, GuestLogLine, Headers, Observed, Roles, Sink, World,
};
use homeostat_component::{Call, Effects, Needs, StoreError};

use crate::Definition;
use crate::clock::now;
use crate::context::Context;
use crate::created_controllers::{CreatedControllers, Creator};
use crate::events::{EventSource, NewEvent};
use crate::fleet::Placement;
use crate::follows::{Follows, Target};
use crate::guest_queue::GuestQueue;
use crate::known_kinds::{KnownKinds, ValidatingStore};
use crate::logs::LogLine;
use crate::observations::{DenialReporter, Observations};

/// Builds all layers of a definition: roles, observation, grants, secrets, world.
pub(crate) fn build(
    context: &Arc<Context>,
    follows: &Arc<Follows>,
    enqueued: &Arc<GuestQueue>,
    placement: &Arc<Placement>,
    observations: &Arc<Observations>,
    definition: &Definition,
) -> Arc<dyn Effects> {
    let witness = Arc::new(DenialReporter { context: context.clone(), observations: observations.clone() });
    let world = outside(context, follows, enqueued, placement, definition);
    within(context, observations.needs.clone(), witness, definition, world)
}

/// Puts the checking layers around an inner one: roles, observation, created controllers, grants, known kinds.
pub(crate) fn within(
    context: &Context,
    needs: Arc<Needs>,
    witness: Arc<dyn DenialObserver>,
    definition: &Definition,
    inner: impl Effects,
) -> Arc<dyn Effects> {
    let (grants, inner) = (Arc::new(definition.grants.clone()), Arc::new(inner));
    let granted = Granted::new(grants, KnownKinds::new(context.kinds.clone(), inner.clone()));
    let Definition { name, grants, limits, .. } = definition;
    let creator = Creator { name, grants, limits };
    let created = CreatedControllers::new(&creator, context.store.clone(), granted, inner);
    let observed = Observed::new(needs, witness.clone(), created);
    Arc::new(Roles::new(definition.component.describe(), witness, observed))
}

/// Builds the layers that perform effects: secrets and world.
pub(crate) fn outside(
    context: &Arc<Context>,
    follows: &Arc<Follows>,
    enqueued: &Arc<GuestQueue>,
    placement: &Arc<Placement>,
    definition: &Definition,
) -> Headers<World> {
    let sink = ToHost { context: context.clone(), follows: follows.clone(), enqueued: enqueued.clone() };
    let world = world(context, sink, definition);
    let world = if placement.is_leased() { world.under(placement.clone()) } else { world };
    Headers::new(Arc::new(definition.grants.clone()), context.secrets.clone(), world)
}

/// Returns the world of a definition, which passes events, log lines, follows and keys to `sink`.
pub(crate) fn world(context: &Context, sink: impl Sink, definition: &Definition) -> World {
    let config = Arc::new(definition.config.clone());
    let http = context.http.within(Arc::new(definition.grants.clone()));
    let store = ValidatingStore {
        store: context.converting.clone(),
        kinds: context.kinds.clone(),
        admission: context.admission.clone(),
    };
    World::new(Arc::new(store), Arc::new(sink), config, http)
}

/// Passes events, log lines, follows and keys to the parts of the host that store them.
struct ToHost {
    context: Arc<Context>,
    follows: Arc<Follows>,
    enqueued: Arc<GuestQueue>,
}

impl Sink for ToHost {
    fn event(&self, call: &Call, event: GuestEvent) {
        let GuestEvent { severity, reason, message, regarding } = &event;
        let key = regarding.as_ref().or(call.key.as_ref()).cloned();
        let (controller, source) = (&call.controller, EventSource::Guest);
        self.context.record(NewEvent { controller, source, key, severity: *severity, reason, message });
    }

    fn line(&self, call: &Call, line: GuestLogLine) {
        let GuestLogLine { level, message, fields } = line;
        let (controller, key) = (call.controller.clone(), call.key.clone());
        self.context.logs.write(LogLine { sequence: 0, time: now(), controller, key, level, message, fields });
    }

    fn follow(&self, call: &Call, followed: FollowTarget) -> Result<(), StoreError> {
        let target = match followed {
            FollowTarget::Key(key) => Target::One(key),
            FollowTarget::All(kind, selector) => Target::All(kind, selector),
        };
        // Outside of a reconcile there is no key to requeue.
        let fits = call.key.as_ref().is_none_or(|follower| self.follows.gather(follower, target));
        let refused =
            || StoreError::TooLarge("limit follows: the keys of this controller already follow the maximum".into());
        fits.then_some(()).ok_or_else(refused)
    }

    fn enqueue(&self, _: &Call, enqueued: EnqueuedKey) -> Result<(), StoreError> {
        self.enqueued.add(enqueued)
    }
}
