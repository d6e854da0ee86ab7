//! `CustomResourceDefinition`s: each declares a kind, whoever writes it.
//!
//! A person's write is looked at before it is stored, so that one that is malformed or contradicts what is declared is refused; its kind is
//! declared when the write is answered. What guests and others write is followed, and declared a moment later. When a definition goes, so
//! do its kind and the resources of it.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::{
    Event, EventType, Kind, Precondition, Propagation, Request, Resource, Revision, Scope, Store, Write, Written,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, for_each_listed, now};
use crate::{Error, KindInfo, Kinds};

/// The wait before a watch that failed is opened again.
const PAUSE: Duration = Duration::from_secs(1);

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
        kinds.declare(KindInfo::from_definition(written.resource.document())?)?;
    }
    Ok(written)
}

/// Follows what is written of definitions from a revision on, until the host ends.
pub(crate) async fn follow(context: Arc<Context>, mut from: Revision, end: CancellationToken) {
    let followed = async {
        loop {
            match through(&context, &mut from).await {
                homeostat_store::Error::Closed => return,
                homeostat_store::Error::Expired { .. } => match context.declare_stored().await {
                    Ok(revision) => from = revision,
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

/// Follows definitions for as long as their watch lasts, and returns why it ended.
async fn through(context: &Context, from: &mut Revision) -> homeostat_store::Error {
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
                if context.declare_definition(&resource)
                    && let Err(error) = establish(context, &resource).await
                {
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
    if says_so.next().is_some() && definition.status()["acceptedNames"] == names {
        return Ok(());
    }
    let condition = |name: &str, reason: &str, message: &str| json!({ "type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now() });
    let versions = document.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let stored: Vec<&Value> =
        versions.filter(|version| version["storage"] == true).map(|version| &version["name"]).collect();
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

/// Takes a kind back, and deletes its resources.
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
    let mut left = Vec::new();
    for_each_listed(&*context.store, &info.kind, |resource| left.push(Arc::clone(resource))).await?;
    for resource in left {
        let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: None };
        let (key, propagation) = (resource.key().clone(), Propagation::Background);
        match context.store.write(Write::Delete { key, precondition, propagation }).await {
            Ok(_) | Err(homeostat_store::Error::NotFound { .. } | homeostat_store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    context.kinds.take_back(&info);
    let message = format!("the kind {} and its resources went with their definition", info.kind);
    context.event(&"homeostat".into(), Some(definition.key().clone()), Severity::Normal, "KindRemoved", &message);
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
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}
