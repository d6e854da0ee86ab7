//! `CustomResourceDefinition`s: each declares a kind.
//!
//! Every write, from a person or a guest, is validated before it is stored. A malformed definition, or one
//! that contradicts a declared kind, is refused. The kind is declared when the write returns. Definitions
//! that reach the store in another way are watched and declared a moment later.
//!
//! Each definition has a task of its own, and its newest version aborts the work for an older one. So a kind
//! whose resources are being migrated, or wait for finalizers, does not hold up other kinds.
//!
//! When a definition is deleted, its kind and its resources are deleted too. A finalizer on the definition
//! ensures that. The kind stays served while finalizers of its resources are pending, and a restarted host
//! continues.

mod ending;
mod establish;
mod reconciler;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use homeostat_store::schema::{Reason, Violation};
use homeostat_store::{Change, EventType, Kind, Precondition, Request, Resource, Store, Write, WriteResponse};
use serde_json::json;

use crate::error::found;
use crate::listing::for_each_listed;
use crate::{Error, KindInfo, Kinds};
pub(crate) use reconciler::run;

/// The wait before a failed definition is retried, and before resources with pending finalizers are checked
/// again.
const PAUSE: Duration = Duration::from_secs(1);

/// The finalizer that keeps a definition until the resources of its kind are gone. Source: Kubernetes has the
/// same.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const GROUP: &str = "apiextensions.k8s.io";
const NAME: &str = "CustomResourceDefinition";
/// Concurrent writes: they share the store's syncs.
const WRITES_MAX: usize = 64;

/// Validates a definition, stores it, and declares its kind.
///
/// A concurrent change of the same definition may make the stored document differ from the validated one.
/// Then it is stored, and its error is returned.
pub(crate) async fn write(store: &dyn Store, kinds: &Kinds, request: Request) -> Result<WriteResponse, Error> {
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?;
    if planned.change != Some(EventType::Deleted) {
        check_scope(store, &planned.resource).await?;
        kinds.check(&KindInfo::from_definition(planned.resource.document())?)?;
    }
    if request.dry_run {
        return Ok(planned);
    }
    let written = store.submit(request).await?;
    if written.change != Some(EventType::Deleted) {
        declare(store, kinds, &written.resource).await?;
        // The task that finalizes a deletion may have run before the kind was declared here.
        let now = found(store.get(written.resource.key()).await)?;
        if now.is_none_or(|now| now.uid() != written.resource.uid()) {
            kinds.remove_definition(&KindInfo::from_definition(written.resource.document())?);
        }
    }
    Ok(written)
}

/// Refuses another scope than that of the stored definition.
async fn check_scope(store: &dyn Store, planned: &Resource) -> Result<(), Error> {
    let Some(stored) = found(store.get(planned.key()).await)? else { return Ok(()) };
    let scope = |resource: &Resource| resource.document()["spec"]["scope"].clone();
    let (old, new) = (scope(&stored), scope(planned));
    if old == new || stored.uid() != planned.uid() {
        return Ok(());
    }
    let violation = Violation {
        path: "spec.scope".to_owned(),
        reason: Reason::Invalid,
        detail: format!("{new}: field is immutable"),
    };
    let what = format!("{NAME}.{GROUP} {:?}", planned.key().name());
    Err(homeostat_store::Error::InvalidFields { what, violations: vec![violation] }.into())
}

/// Declares the kind of a definition, unless a newer revision of the definition was declared. If the stored
/// version changes, all resources are migrated first.
///
/// *Cancel safety*: declaring the definition again finishes the migration.
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

/// Rewrites every resource of a kind in the kind's current storage version.
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

/// Returns the kind of definitions.
pub(crate) fn definitions() -> Kind {
    Kind::new(GROUP, "v1", NAME)
}

/// Returns whether a write may change the kind that a definition declares. Status writes do not; deletions
/// are watched instead.
///
/// # Errors
/// `Invalid` when the document does not name its kind.
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
