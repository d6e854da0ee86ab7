//! Watches definitions: one task for each, which reconciles the newest revision of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use homeostat_store::{Error, Event, EventType, Resource, Result, Revision, Scope};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ending::{clean_up_deleted, finalize};
use super::establish::establish;
use super::{PAUSE, definitions};
use crate::context::Context;
use crate::listing::for_each_listed;

/// Watches definitions until the host ends.
pub(crate) async fn follow(context: Arc<Context>, end: CancellationToken) {
    let followed = async {
        let mut followers = DefinitionTasks::default();
        let mut from = None;
        loop {
            let error = match listed(&context, &mut followers, from).await {
                Ok(revision) => watch_once(&context, from.insert(revision), &mut followers).await,
                Err(error) => error,
            };
            match error {
                Error::Closed => return,
                // Deletions meanwhile were not reported, so all definitions are listed again.
                Error::Expired { .. } => from = None,
                error => tracing::warn!(%error, "cannot watch the definitions"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        () = followed => {}
    }
}

/// Returns the revision to watch from: `from`, or the revision of a new list, whose definitions are all
/// passed to their tasks.
async fn listed(context: &Arc<Context>, followers: &mut DefinitionTasks, from: Option<Revision>) -> Result<Revision> {
    if let Some(from) = from {
        return Ok(from);
    }
    let mut there = Vec::new();
    let revision =
        for_each_listed(&*context.store, &definitions(), |definition| there.push(Arc::clone(definition))).await?;
    let names: HashSet<_> = there.iter().map(|definition| definition.key().name()).collect();
    followers.tell_gone(&names, revision);
    for definition in &there {
        let word =
            DefinitionUpdate { definition: Arc::clone(definition), revision: definition.revision(), is_gone: false };
        followers.notify(context, word);
    }
    Ok(revision)
}

/// Passes changes to the tasks until the watch fails, and returns its error.
async fn watch_once(context: &Arc<Context>, from: &mut Revision, followers: &mut DefinitionTasks) -> Error {
    let mut watch = match context.store.watch(Scope::Kind(definitions()), *from).await {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    loop {
        tokio::select! {
            biased;
            Some(ended) = followers.tasks.join_next(), if !followers.tasks.is_empty() => match ended {
                Ok((name, words)) => followers.ended(context, name, words),
                Err(error) => tracing::error!(%error, "the task of a definition panicked"),
            },
            event = watch.next() => match event {
                Ok(Event { kind, resource, revision, .. }) => {
                    let is_gone = kind == EventType::Deleted;
                    followers.notify(context, DefinitionUpdate { definition: resource, revision, is_gone });
                    *from = revision;
                }
                Err(error) => return error,
            },
        }
    }
}

/// The newest known revision of a definition.
#[derive(Clone, Debug)]
struct DefinitionUpdate {
    definition: Arc<Resource>,
    /// The revision of the write or deletion.
    revision: Revision,
    is_gone: bool,
}

/// Definitions that exist or still have resources, each with its task. Dropping this ends the tasks.
#[derive(Default)]
struct DefinitionTasks {
    tasks: JoinSet<(String, watch::Receiver<DefinitionUpdate>)>,
    /// By name.
    words: HashMap<String, watch::Sender<DefinitionUpdate>>,
}

impl DefinitionTasks {
    /// Passes a change to the definition's task, or starts one. Ignores changes older than the last one.
    fn notify(&mut self, context: &Arc<Context>, word: DefinitionUpdate) {
        let name = word.definition.key().name().to_owned();
        if let Some(words) = self.words.get(&name).filter(|words| !words.is_closed()) {
            words.send_if_modified(|known| {
                let is_news = known.revision < word.revision;
                if is_news {
                    *known = word;
                }
                is_news
            });
            return;
        }
        let (sender, words) = watch::channel(word);
        self.words.insert(name.clone(), sender);
        self.tasks.spawn(run_definition(Arc::clone(context), name, words));
    }

    /// Reports definitions as deleted that a list at this revision does not contain.
    fn tell_gone(&self, there: &HashSet<&str>, revision: Revision) {
        for (_, words) in self.words.iter().filter(|(name, _)| !there.contains(name.as_str())) {
            words.send_if_modified(|word| {
                let is_news = word.revision < revision && !word.is_gone;
                if is_news {
                    (word.revision, word.is_gone) = (revision, true);
                }
                is_news
            });
        }
    }

    /// Forgets a definition whose task has ended, unless a newer change is waiting.
    fn ended(&mut self, context: &Arc<Context>, name: String, words: watch::Receiver<DefinitionUpdate>) {
        if words.has_changed().unwrap_or(false) {
            self.tasks.spawn(run_definition(Arc::clone(context), name, words));
        } else {
            self.words.remove(&name);
        }
    }
}

/// Reconciles one definition until it is gone. A newer revision aborts the work for an older one.
///
/// The kind of a definition that is being deleted is declared only once, as ending; it must not come back
/// after it was removed.
async fn run_definition(
    context: Arc<Context>,
    name: String,
    mut words: watch::Receiver<DefinitionUpdate>,
) -> (String, watch::Receiver<DefinitionUpdate>) {
    let mut ending = None;
    loop {
        let word = words.borrow_and_update().clone();
        let done = tokio::select! {
            biased;
            changed = words.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return (name, words),
            },
            done = reconcile(&context, &word, &mut ending) => done,
        };
        match done {
            Ok(()) if word.is_gone => return (name, words),
            Ok(()) => {
                if words.changed().await.is_err() {
                    return (name, words);
                }
            }
            Err(Error::Closed) => return (name, words),
            Err(error) => {
                tracing::warn!(%error, definition = name, "cannot reconcile the definition, it is retried");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn reconcile(context: &Arc<Context>, word: &DefinitionUpdate, ending: &mut Option<String>) -> Result<()> {
    let DefinitionUpdate { definition, revision, is_gone } = word;
    if *is_gone {
        return clean_up_deleted(context, definition, *revision).await;
    }
    if !definition.is_deleting() {
        let is_declared = context.declare_definition(definition).await?;
        return if is_declared { establish(context, definition).await } else { Ok(()) };
    }
    if ending.as_deref() != Some(definition.uid()) {
        context.declare_definition(definition).await?;
        *ending = Some(definition.uid().to_owned());
    }
    finalize(context, definition).await
}

#[cfg(test)]
mod tests;
