//! The effects of a candidate that runs as a shadow: replayed answers, reads, and no side effects.
//!
//! Lies inside the candidate's own grants and around a world that it only reads from. Writes, requests,
//! events, log lines, follows and enqueued keys are answered here and never reach the world.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::layers::{EnqueuedKey, FollowTarget, GuestEvent, GuestLogLine, Sink, World};
use homeostat_component::{Answer, Call, Effect, Effects, HttpError, StoreError, WriteData};
use homeostat_store::schema::Schemas;
use homeostat_store::{Key, Query, Revision, Store, View, Write};
use parking_lot::Mutex;

use super::UnfitReason;
use super::replay_state::{ReplayAnswer, ReplayState};

/// The effects of one reconcile.
pub(super) struct ShadowEffects {
    scene: Mutex<ReplayState>,
    /// Why the run cannot be compared.
    unfit: Mutex<Option<UnfitReason>>,
    store: Arc<dyn Store>,
    world: World,
}

impl ShadowEffects {
    /// `world` has the store and the configuration of the candidate.
    pub(super) fn new(scene: ReplayState, store: Arc<dyn Store>, world: World) -> Self {
        Self { scene: Mutex::new(scene), unfit: Mutex::default(), store, world }
    }

    /// Returns why the run cannot be compared.
    pub(super) fn unfit(&self) -> Option<UnfitReason> {
        *self.unfit.lock()
    }

    fn spoil(&self, why: UnfitReason) {
        self.unfit.lock().get_or_insert(why);
    }

    async fn get(&self, call: &Call, key: Key, view: View, live: bool) -> Answer {
        let known = self.scene.lock().get(&key, view);
        match known {
            ReplayAnswer::Answer(answer) => answer,
            ReplayAnswer::ReadStore => self.world.perform(call, Effect::Get { key, view, live }).await,
        }
    }

    async fn list(&self, call: &Call, query: Query, view: View) -> Answer {
        let known = self.scene.lock().list(&query, view);
        if let ReplayAnswer::Answer(answer) = known {
            return answer;
        }
        let answer = self.world.perform(call, Effect::List { query: query.clone(), view }).await;
        let Answer::Page(Ok(page)) = answer else { return answer };
        Answer::Page(self.scene.lock().overlay(&query, view, page).map_err(|why| {
            self.spoil(why);
            StoreError::Unavailable("a shadow cannot list resources that have changed meanwhile".to_owned())
        }))
    }

    async fn write(&self, call: &Call, write: Write) -> Result<WriteData, StoreError> {
        let known = self.scene.lock().rewrite(&write);
        if let Some(answer) = known {
            return answer;
        }
        let current = self.current(&write).await?;
        let revision = current.as_ref().map_or(Revision(1), |current| current.revision().next());
        let undeclared = Schemas::default();
        let schemas = self.store.schemas().unwrap_or(&undeclared);
        self.scene.lock().write(write, &call.controller, schemas, revision, current)
    }

    /// Returns the resource of a write as the candidate sees it.
    async fn current(&self, write: &Write) -> Result<Option<Arc<homeostat_store::Resource>>, StoreError> {
        // A resource with a generated name does not exist yet.
        let target = write.target()?;
        let Some(name) = target.name else { return Ok(None) };
        let key = Key::new(target.kind, &target.namespace, &name);
        let known = self.scene.lock().current(&key);
        if let Some(current) = known {
            return Ok(current);
        }
        match self.store.get(&key).await {
            Ok(resource) => Ok(Some(resource)),
            Err(homeostat_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => {
                self.spoil(UnfitReason::StoreFailed);
                Err(error.into())
            }
        }
    }
}

#[async_trait]
impl Effects for ShadowEffects {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let known = match effect {
            Effect::Get { key, view, live } => return self.get(call, key, view, live).await,
            Effect::List { query, view } => return self.list(call, query, view).await,
            Effect::Write(write) => return Answer::Written(self.write(call, write).await),
            Effect::Follow { .. } | Effect::FollowAll { .. } | Effect::Enqueue { .. } => return Answer::Done(Ok(())),
            Effect::Emit { .. } | Effect::Log { .. } => return Answer::Unit,
            Effect::Http(_) => {
                let answer = self.scene.lock().resend(&effect);
                return answer.unwrap_or_else(|| {
                    Answer::Http(Err(HttpError::Unreachable("a shadow sends no request of its own".to_owned())))
                });
            }
            Effect::WallClock | Effect::MonotonicClock => self.scene.lock().clock(&effect),
            Effect::Random { bytes } => self.scene.lock().random(bytes),
            Effect::Config { .. } | Effect::Reach(_) => None,
        };
        match known {
            Some(answer) => answer,
            None => self.world.perform(call, effect).await,
        }
    }
}

/// A sink that drops everything. [`ShadowEffects`] lets nothing through to it.
pub(super) struct NullSink;

impl Sink for NullSink {
    fn event(&self, _: &Call, _: GuestEvent) {}

    fn line(&self, _: &Call, _: GuestLogLine) {}

    fn follow(&self, _: &Call, _: FollowTarget) -> Result<(), StoreError> {
        Ok(())
    }

    fn enqueue(&self, _: &Call, _: EnqueuedKey) -> Result<(), StoreError> {
        Ok(())
    }
}
