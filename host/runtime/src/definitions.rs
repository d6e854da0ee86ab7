//! `CustomResourceDefinition`s: each declares a kind, whoever writes it.
//!
//! A person's write is looked at before it is stored, so that one that is malformed or contradicts what is declared is refused; its kind is
//! declared when the write is answered. What guests and others write is followed, and declared a moment later.
//!
//! When a definition goes, so do its kind and the resources of it. A definition that is followed has a finalizer for that, so that a host that
//! ends in between goes on when it starts again, and so that the kind is there for those who have to see the last of a resource.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use homeostat_component::Severity;
use homeostat_store::{
    Change, Event, EventType, Kind, Precondition, Propagation, Request, Resource, Revision, Scope, Store, Write,
    Written,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, for_each_listed, now};
use crate::{Error, KindInfo, Kinds};

/// The wait before a watch that failed is opened again, and before resources that wait for their finalizers are looked at again.
const PAUSE: Duration = Duration::from_secs(1);

/// What keeps a definition until the resources of its kind are gone. Source: Kubernetes has the same.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const GROUP: &str = "apiextensions.k8s.io";
const NAME: &str = "CustomResourceDefinition";
/// Writes under way at a time: they share the store's syncs.
const WRITES_MAX: usize = 64;

/// Stores a definition, and declares its kind.
///
/// When somebody else changes the same definition at the same time, the store may get another document than the one that was looked at:
/// then it is stored, and what is wrong with it is answered.
pub(crate) async fn write(store: &dyn Store, kinds: &Kinds, request: Request) -> Result<Written, Error> {
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?;
    if planned.change != Some(EventType::Deleted) {
        kinds.check(&KindInfo::from_definition(planned.resource.document())?)?;
    }
    if request.dry_run {
        return Ok(planned);
    }
    let written = store.submit(request).await?;
    if written.change != Some(EventType::Deleted) {
        declare(store, kinds, &written.resource).await?;
    }
    Ok(written)
}

/// Declares the kind of a definition. When another version is stored from now on, all resources are brought into it first.
///
/// *Cancel safety*: what is left is done when the definition is declared again.
///
/// # Errors
/// [`Error::BadDocument`] and [`Error::KindDiffers`]; [`Error::Store`].
pub(crate) async fn declare(store: &dyn Store, kinds: &Kinds, definition: &Resource) -> Result<(), Error> {
    let info = KindInfo::from_definition(definition.document())?;
    if definition.status()["storedVersions"] != json!([info.kind.version]) {
        kinds.prepare(&info)?;
        restore(store, &info.kind).await?;
    }
    kinds.declare(info)
}

/// Stores every resource of a kind in the version that its kind is stored in now.
async fn restore(store: &dyn Store, kind: &Kind) -> homeostat_store::Result<()> {
    let mut old = Vec::new();
    let note = |resource: &Arc<Resource>| old.extend((resource.key().kind() != kind).then(|| resource.key().clone()));
    for_each_listed(store, kind, note).await?;
    let mut rewritten = stream::iter(old)
        .map(|key| {
            let change = Change::Merge(json!({}));
            store.write(Write::Patch { key, change, precondition: Precondition::default() })
        })
        .buffer_unordered(WRITES_MAX);
    while let Some(written) = rewritten.next().await {
        found(written)?;
    }
    Ok(())
}

/// Follows what is written of definitions from a revision on, until the host ends.
pub(crate) async fn follow(context: Arc<Context>, mut from: Revision, end: CancellationToken) {
    let followed = async {
        let mut endings = Endings::default();
        let mut is_new = true;
        loop {
            let error = match if is_new { found_before(&context, &mut endings).await } else { Ok(()) } {
                Ok(()) => {
                    is_new = false;
                    through(&context, &mut from, &mut endings).await
                }
                Err(error) => error,
            };
            match error {
                homeostat_store::Error::Closed => return,
                homeostat_store::Error::Expired { .. } => match context.declare_stored().await {
                    Ok(revision) => (from, is_new) = (revision, true),
                    Err(error) => tracing::warn!(%error, "the definitions cannot be listed"),
                },
                error => tracing::warn!(%error, "the definitions cannot be followed"),
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

/// Looks at the definitions that nobody has followed yet: those of a process before, above all.
async fn found_before(context: &Arc<Context>, endings: &mut Endings) -> homeostat_store::Result<()> {
    let mut found = Vec::new();
    for_each_listed(&*context.store, &definitions(), |definition| found.push(Arc::clone(definition))).await?;
    for definition in found {
        look_at(context, &definition, endings).await?;
    }
    Ok(())
}

/// Declares the kind of a definition, or begins to take it back.
async fn look_at(
    context: &Arc<Context>,
    definition: &Arc<Resource>,
    endings: &mut Endings,
) -> homeostat_store::Result<()> {
    if definition.is_deleting() {
        return endings.begin(context, definition).await;
    }
    if context.declare_definition(definition).await? { establish(context, definition).await } else { Ok(()) }
}

/// Looks at a definition as it was written, unless it has changed since then: that is told of as well, and must not be undone meanwhile.
async fn look_at_now(
    context: &Arc<Context>,
    definition: &Arc<Resource>,
    endings: &mut Endings,
) -> homeostat_store::Result<()> {
    match found(context.store.get(definition.key()).await)? {
        Some(now) if now.revision() == definition.revision() => look_at(context, definition, endings).await,
        _ => Ok(()),
    }
}

/// Follows definitions for as long as their watch lasts, and returns why it ended.
async fn through(context: &Arc<Context>, from: &mut Revision, endings: &mut Endings) -> homeostat_store::Error {
    let mut watch = match context.store.watch(Scope::Kind(definitions()), *from).await {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    loop {
        match watch.next().await {
            Ok(Event { kind: EventType::Deleted, resource, revision, .. }) => {
                if let Err(error) = gone(context, &resource).await {
                    return error;
                }
                *from = revision;
            }
            Ok(Event { resource, revision, .. }) => {
                if let Err(error) = look_at_now(context, &resource, endings).await {
                    return error;
                }
                *from = revision;
            }
            Err(error) => return error,
        }
    }
}

/// Says in a definition's status that its kind is there, as clients wait for it. One that says so already stays as it is.
async fn establish(context: &Context, definition: &Resource) -> homeostat_store::Result<()> {
    let says_so = definition.status().get("conditions").and_then(Value::as_array).into_iter().flatten();
    let mut says_so = says_so.filter(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let document = definition.document();
    let names = document.pointer("/spec/names").cloned().unwrap_or_default();
    let versions = document.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let stored: Value =
        versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect();
    let has_cleanup = definition.finalizers().any(|name| name == CLEANUP);
    let status = definition.status();
    let is_up_to_date = status["acceptedNames"] == names && status["storedVersions"] == stored;
    if has_cleanup && says_so.next().is_some() && is_up_to_date {
        return Ok(());
    }
    if !has_cleanup {
        let finalizers: Vec<&str> = definition.finalizers().chain([CLEANUP]).collect();
        // It is followed next, and established then.
        return set_finalizers(context, definition, &finalizers).await.map(drop);
    }
    let status = json!({
        "acceptedNames": names, "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "nothing else has these names"),
            condition("Established", "InitialNamesAccepted", "the kind is served"),
        ],
    });
    let precondition = Precondition { uid: Some(definition.uid().to_owned()), revision: Some(definition.revision()) };
    let write = Write::UpdateStatus { key: definition.key().clone(), status, precondition };
    match context.store.write(write).await {
        // Whoever came between is followed next.
        Ok(_) | Err(homeostat_store::Error::NotFound { .. } | homeostat_store::Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn condition(name: &str, reason: &str, message: &str) -> Value {
    json!({ "type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now() })
}

/// Sets the finalizers of a definition; returns whether nobody came between.
async fn set_finalizers(context: &Context, definition: &Resource, names: &[&str]) -> homeostat_store::Result<bool> {
    let precondition = Precondition { uid: Some(definition.uid().to_owned()), revision: Some(definition.revision()) };
    let change = Change::Merge(json!({ "metadata": { "finalizers": names } }));
    match context.store.write(Write::Patch { key: definition.key().clone(), change, precondition }).await {
        Ok(_) => Ok(true),
        Err(homeostat_store::Error::NotFound { .. } | homeostat_store::Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The definitions whose kinds are being taken back, each in a task of its own: their resources may wait for long. They end with this.
#[derive(Default)]
struct Endings {
    tasks: JoinSet<()>,
    /// Those that were begun, by uid.
    begun: HashSet<String>,
}

impl Endings {
    async fn begin(&mut self, context: &Arc<Context>, definition: &Arc<Resource>) -> homeostat_store::Result<()> {
        while self.tasks.try_join_next().is_some() {}
        if !self.begun.contains(definition.uid()) {
            // As one that is ending, once: it is not to come back when it was taken back.
            context.declare_definition(definition).await?;
            self.begun.insert(definition.uid().to_owned());
            let (context, definition) = (Arc::clone(context), Arc::clone(definition));
            self.tasks.spawn(async move {
                while let Err(error) = end(&context, &definition).await {
                    if error == homeostat_store::Error::Closed {
                        return;
                    }
                    tracing::warn!(%error, definition = definition.key().name(), "its resources cannot be deleted");
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Ok(())
    }
}

/// Deletes the resources of a definition that is being deleted, waits until they are gone, and lets the definition go.
async fn end(context: &Context, definition: &Resource) -> homeostat_store::Result<()> {
    say_terminating(context, definition).await?;
    let info = KindInfo::from_definition(definition.document()).ok().filter(|info| context.kinds.goes_with(info));
    if let Some(info) = &info {
        while delete_resources(context, &info.kind).await? > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        context.kinds.take_back(info);
        // Who was faster than this has lost.
        delete_resources(context, &info.kind).await?;
        tell_removed(context, definition, info);
    }
    while let Some(current) = found(context.store.get(definition.key()).await)? {
        let finalizers: Vec<&str> = current.finalizers().filter(|name| *name != CLEANUP).collect();
        let is_other = current.uid() != definition.uid() || finalizers.len() == current.finalizers().count();
        if is_other || set_finalizers(context, &current, &finalizers).await? {
            break;
        }
    }
    Ok(())
}

/// Says in the status of a definition that it is going.
async fn say_terminating(context: &Context, definition: &Resource) -> homeostat_store::Result<()> {
    let mut status = definition.status().clone();
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    let others = conditions.filter(|condition| condition["type"] != "Terminating").cloned();
    let terminating = condition("Terminating", "InstanceDeletionInProgress", "the resources of the kind are deleted");
    let conditions: Vec<Value> = others.chain([terminating]).collect();
    if !status.is_object() {
        status = json!({});
    }
    status["conditions"] = conditions.into();
    let precondition = Precondition { uid: Some(definition.uid().to_owned()), revision: None };
    let key = definition.key().clone();
    found(context.store.write(Write::UpdateStatus { key, status, precondition }).await).map(drop)
}

/// Deletes the resources of a kind; returns how many are left, because of their finalizers.
async fn delete_resources(context: &Context, kind: &Kind) -> homeostat_store::Result<usize> {
    let mut there = Vec::new();
    let about = |resource: &Arc<Resource>| {
        there.push((resource.key().clone(), resource.uid().to_owned(), resource.is_deleting()));
    };
    for_each_listed(&*context.store, kind, about).await?;
    let mut left = 0;
    for (key, uid, is_deleting) in there {
        if is_deleting {
            left += 1;
            continue;
        }
        let (precondition, propagation) = (Precondition { uid: Some(uid), revision: None }, Propagation::Background);
        match context.store.write(Write::Delete { key, precondition, propagation }).await {
            Ok(written) => left += usize::from(written.change != Some(EventType::Deleted)),
            Err(homeostat_store::Error::NotFound { .. } | homeostat_store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

fn tell_removed(context: &Context, definition: &Resource, info: &KindInfo) {
    let message = format!("the kind {} and its resources went with their definition", info.kind);
    context.event(&"homeostat".into(), Some(definition.key().clone()), Severity::Normal, "KindRemoved", &message);
}

/// Takes a kind back, and deletes its resources, where a definition went without its finalizer.
async fn gone(context: &Context, definition: &Resource) -> homeostat_store::Result<()> {
    let Ok(info) = KindInfo::from_definition(definition.document()) else { return Ok(()) };
    // Its name may have been used again meanwhile.
    if found(context.store.get(definition.key()).await)?.is_some() {
        return Ok(());
    }
    if !context.kinds.goes_with(&info) {
        context.kinds.take_back(&info);
        return Ok(());
    }
    delete_resources(context, &info.kind).await?;
    context.kinds.take_back(&info);
    tell_removed(context, definition, &info);
    Ok(())
}

fn found<R>(read: homeostat_store::Result<R>) -> homeostat_store::Result<Option<R>> {
    match read {
        Ok(resource) => Ok(Some(resource)),
        Err(homeostat_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the kind of definitions.
pub(crate) fn definitions() -> Kind {
    Kind::new(GROUP, "v1", NAME)
}

/// Returns whether resources of this kind declare kinds, whatever its version.
pub(crate) fn is_definition(kind: &Kind) -> bool {
    kind.group == GROUP && kind.name == NAME
}

#[cfg(test)]
mod tests;
