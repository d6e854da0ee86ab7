//! `CustomResourceDefinition`s: each declares a kind, whoever writes it.
//!
//! A write is looked at before it is stored, whoever makes it, a person or a guest, so that one that is malformed or contradicts what is
//! declared is refused; its kind is declared when the write is answered. What got into the store in another way is followed, and declared a
//! moment later.
//!
//! Each definition is followed in a task of its own, and the newest word of it ends what an older one has begun: a kind whose resources are brought
//! into another version, or wait for their finalizers, holds up no other.
//!
//! When a definition goes, so do its kind and the resources of it. A definition that is followed has a finalizer for that, so that a host that
//! ends in between goes on when it starts again, and so that the kind is there for those who have to see the last of a resource.

mod checked;
mod ending;
mod establish;
mod follow;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use homeostat_store::{Change, EventType, Kind, Precondition, Request, Resource, Store, Write, WriteResponse};
use serde_json::json;

use crate::context::for_each_listed;
use crate::{Error, KindInfo, Kinds};
pub(crate) use checked::ValidatingStore;
pub(crate) use follow::follow;

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
pub(crate) async fn write(store: &dyn Store, kinds: &Kinds, request: Request) -> Result<WriteResponse, Error> {
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
        // Who follows its deletion may have been faster, and has taken back what was not there yet.
        let now = found(store.get(written.resource.key()).await)?;
        if now.is_none_or(|now| now.uid() != written.resource.uid()) {
            kinds.remove_definition(&KindInfo::from_definition(written.resource.document())?);
        }
    }
    Ok(written)
}

/// Declares the kind of a definition, unless a newer word of the definition was heard. When another version is stored from now on, all
/// resources are brought into it first.
///
/// *Cancel safety*: what is left is done when the definition is declared again.
///
/// # Errors
/// [`Error::BadDocument`] and [`Error::KindDiffers`]; [`Error::Store`].
pub(crate) async fn declare(store: &dyn Store, kinds: &Kinds, definition: &Resource) -> Result<(), Error> {
    let info = KindInfo::from_definition(definition.document())?;
    if definition.status()["storedVersions"] != json!([info.kind.version]) {
        kinds.prepare(&info)?;
        migrate(store, &info.kind).await?;
    }
    kinds.declare(info)
}

/// Stores every resource of a kind in the version that its kind is stored in now.
pub(crate) async fn migrate(store: &dyn Store, kind: &Kind) -> homeostat_store::Result<()> {
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

/// Returns whether a write may change what a definition declares: not one of its status, and no deletion, which is followed.
///
/// # Errors
/// `Invalid` when the document does not say of which kind it is.
pub(crate) fn declares(write: &Write) -> homeostat_store::Result<bool> {
    match write {
        Write::Create { .. } | Write::Update { .. } | Write::Patch { .. } | Write::Apply { .. } => {
            let kind = write.target()?.kind;
            Ok(kind.group == GROUP && kind.name == NAME)
        }
        Write::UpdateStatus { .. } | Write::PatchStatus { .. } | Write::ApplyStatus { .. } | Write::Delete { .. } => {
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests;
