//! Reconciles definitions, each in a task of its own.

use std::collections::HashMap;
use std::sync::Arc;

use homeostat_component::Severity;
use homeostat_store::{Event, Resource, Scope};
use homeostat_workqueue::Next;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ending::{clean_up_deleted, finalize};
use super::establish::establish;
use super::{CONVERSION_PAUSE, PAUSE, definitions, found, is_migrated, migrate_converted};
use crate::context::Context;
use crate::native_controller::{self, NativeReconciler};

/// Reconciles definitions until the host ends.
pub(crate) async fn run(context: Arc<Context>, end: CancellationToken) {
    let (store, queue) = (context.store.clone(), native_controller::queue(PAUSE, PAUSE, None));
    let reconciler = DefinitionReconciler { context, known: Mutex::default() };
    native_controller::run(Arc::new(reconciler), store, queue, None, end).await;
}

struct DefinitionReconciler {
    context: Arc<Context>,
    /// Definitions that exist or still have resources, by name.
    known: Mutex<HashMap<Arc<str>, KnownDefinition>>,
}

struct KnownDefinition {
    /// The newest state. A later one aborts the reconcile of an earlier one.
    newest: watch::Sender<Arc<Resource>>,
    /// The uid of the definition that was declared as ending.
    ending: Option<String>,
}

impl NativeReconciler for DefinitionReconciler {
    /// The name of a definition.
    type Item = Arc<str>;
    const NAME: &'static str = "definitions";
    /// No definition waits for another one.
    const CONCURRENCY_MAX: usize = usize::MAX;

    fn scope(&self) -> Option<Scope> {
        Some(Scope::Kind(definitions()))
    }

    fn items(&self, event: &Event) -> Vec<Arc<str>> {
        let (name, definition) = (Arc::<str>::from(event.resource.key().name()), &event.resource);
        let mut known = self.known.lock();
        let known = known.entry(Arc::clone(&name)).or_insert_with(|| {
            let newest = watch::Sender::new(Arc::clone(definition));
            KnownDefinition { newest, ending: None }
        });
        known.newest.send_if_modified(|newest| {
            let is_news = newest.revision() < definition.revision();
            if is_news {
                *newest = Arc::clone(definition);
            }
            is_news
        });
        vec![name]
    }

    fn tracked(&self) -> Vec<Arc<str>> {
        self.known.lock().keys().cloned().collect()
    }

    async fn reconcile(&self, name: &Arc<str>) -> Result<Next, String> {
        let Some(mut newest) = self.known.lock().get(name).map(|known| known.newest.subscribe()) else {
            return Ok(Next::Done);
        };
        let last = Arc::clone(&newest.borrow_and_update());
        let synced = tokio::select! {
            biased;
            _ = newest.changed() => Ok(Next::Again),
            synced = self.sync(name, &last) => synced,
        };
        synced.map_err(|error| {
            tracing::warn!(%error, definition = &**name, "cannot reconcile the definition, it is retried");
            error.to_string()
        })
    }
}

impl DefinitionReconciler {
    /// Reconciles a definition; `last` is its last known state, from which a deleted one is cleaned up.
    async fn sync(&self, name: &Arc<str>, last: &Arc<Resource>) -> homeostat_store::Result<Next> {
        let context = &*self.context;
        // Taken before the read, so that a definition created later is newer.
        let seen = context.store.revision(&Scope::Kind(last.key().kind().clone())).await?;
        let Some(definition) = found(context.store.get(last.key()).await)? else {
            let is_gone = clean_up_deleted(context, last, seen).await?;
            if is_gone {
                self.forget(name, last);
            }
            return Ok(next(is_gone));
        };
        if !definition.is_deleting() {
            if !context.declare_definition(&definition).await? {
                return Ok(Next::Done);
            }
            let is_migrated = is_migrated(&definition);
            establish(context, &definition, is_migrated).await?;
            if is_migrated {
                return Ok(Next::Done);
            }
            let migrated = migrate_converted(&*context.store, &*context.converting, &definition).await;
            let Err(error) = migrated else {
                establish(context, &definition, true).await?;
                return Ok(Next::Done);
            };
            let message = format!("resources stay in an older version, and are tried again: {error}");
            let key = Some(definition.key().clone());
            context.event(&"homeostat".into(), key, Severity::Warning, "ConversionFailed", &message);
            return Ok(Next::After(CONVERSION_PAUSE));
        }
        // Declared only once, as ending: the kind must not come back after it was removed.
        let uid = Some(definition.uid());
        if self.known.lock().get(name).is_some_and(|known| known.ending.as_deref() != uid) {
            context.declare_definition(&definition).await?;
            if let Some(known) = self.known.lock().get_mut(name) {
                known.ending = uid.map(str::to_owned);
            }
        }
        finalize(context, &definition).await.map(next)
    }

    /// Forgets a definition, unless it has changed since.
    fn forget(&self, name: &str, last: &Arc<Resource>) {
        let mut known = self.known.lock();
        if known.get(name).is_some_and(|known| Arc::ptr_eq(&known.newest.borrow(), last)) {
            known.remove(name);
        }
    }
}

/// Resources with pending finalizers are checked again after a while.
fn next(is_gone: bool) -> Next {
    if is_gone { Next::Done } else { Next::After(PAUSE) }
}

#[cfg(test)]
mod tests;
