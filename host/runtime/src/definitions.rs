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
use homeostat_store::schema::{VIOLATIONS_MAX, Violation};
use homeostat_store::{Change, EventType, Key, Kind, Precondition, Request, Resource, Store, Write, WriteResponse};
use serde_json::json;

use crate::error::found;
use crate::listing::for_each_listed;
use crate::{Error, KindInfo, Kinds, definition_rules};
pub(crate) use reconciler::run;

/// The wait before a failed definition is retried, and before resources with pending finalizers are checked
/// again.
const PAUSE: Duration = Duration::from_secs(1);

/// The wait before resources that could not be converted into a new storage version are tried again.
const CONVERSION_PAUSE: Duration = Duration::from_secs(10);

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
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await;
    let planned = planned.map_err(|error| refusal(error, &request.write))?;
    if planned.change != Some(EventType::Deleted) {
        check_rules(store, &planned.resource).await?;
        let info = KindInfo::from_definition(planned.resource.document())?;
        kinds.check(&info)?;
        if info.converts() {
            // Nothing would convert the resources of a version that is gone.
            refuse(&planned.resource, definition_rules::missing_versions(planned.resource.document()))?;
        }
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

/// Returns the refusal of a write. That of a new definition has the causes of the rules, which an API server looks for before
/// it looks for another definition of the name.
fn refusal(error: homeostat_store::Error, write: &Write) -> Error {
    use homeostat_store::Error::{AlreadyExists, InvalidFields};
    let Write::Create { document } = write else { return error.into() };
    let causes = || definition_rules::violations(&definition_rules::with_defaults(document), None);
    match error {
        InvalidFields { what, mut violations } => {
            violations.extend(causes());
            violations.truncate(VIOLATIONS_MAX);
            InvalidFields { what, violations }.into()
        }
        AlreadyExists { .. } => match causes() {
            causes if causes.is_empty() => error.into(),
            causes => homeostat_store::Error::invalid_fields(
                what(document["metadata"]["name"].as_str().unwrap_or_default()),
                causes,
            )
            .into(),
        },
        error => error.into(),
    }
}

/// Refuses a definition that violates the rules. They are checked here, because a schema can have many rules to compile, and
/// meanwhile a store with one writer for all would write nothing.
async fn check_rules(store: &dyn Store, planned: &Resource) -> Result<(), Error> {
    let stored = found(store.get(planned.key()).await)?.filter(|stored| stored.uid() == planned.uid());
    let violations = definition_rules::violations(planned.document(), stored.as_ref().map(|stored| stored.document()));
    refuse(planned, violations)
}

/// Refuses a definition that has violations.
fn refuse(planned: &Resource, violations: Vec<Violation>) -> Result<(), Error> {
    if violations.is_empty() {
        return Ok(());
    }
    Err(homeostat_store::Error::invalid_fields(what(planned.key().name()), violations).into())
}

/// Names a definition for a person.
fn what(name: &str) -> String {
    format!("{NAME}.{GROUP} {name:?}")
}

/// Declares the kind of a definition, unless a newer revision of the definition was declared. If the stored
/// version changes, all resources are migrated first. Those of a kind with a conversion are migrated later, by
/// [`migrate_converted`]: meanwhile they are converted when they are read.
///
/// *Cancel safety*: declaring the definition again finishes the migration.
///
/// # Errors
/// [`Error::BadDocument`] and [`Error::KindDiffers`]; [`Error::Store`].
pub(crate) async fn declare(store: &dyn Store, kinds: &Kinds, definition: &Resource) -> Result<(), Error> {
    let info = KindInfo::from_definition(definition.document())?;
    if !info.converts() && definition.status()["storedVersions"] != json!([info.kind.version]) {
        kinds.prepare(&info)?;
        migrate(store, &info.kind).await?;
    }
    kinds.declare(info)
}

/// Returns whether no resource can be stored in another version than the storage version: the kind has no conversion, or
/// the status of the definition names no other version.
pub(crate) fn is_migrated(definition: &Resource) -> bool {
    let Ok(info) = KindInfo::from_definition(definition.document()) else { return true };
    !info.converts() || definition.status()["storedVersions"] == json!([info.kind.version])
}

/// Rewrites every resource of a declared kind with a conversion in the storage version. `store` shows what is stored, and
/// `converting` takes the writes.
///
/// *Cancel safety*: as [`declare`].
///
/// # Errors
/// Those of the store, and `Conversion`.
pub(crate) async fn migrate_converted(
    store: &dyn Store,
    converting: &dyn Store,
    definition: &Resource,
) -> homeostat_store::Result<()> {
    let Ok(info) = KindInfo::from_definition(definition.document()) else { return Ok(()) };
    rewrite(converting, older(store, &info.kind).await?).await
}

/// Rewrites every resource of a kind in the kind's current storage version.
pub(crate) async fn migrate(store: &dyn Store, kind: &Kind) -> homeostat_store::Result<()> {
    rewrite(store, older(store, kind).await?).await
}

/// Returns the keys, in the storage version, of all resources that are stored in another one.
async fn older(store: &dyn Store, kind: &Kind) -> homeostat_store::Result<Vec<Key>> {
    let mut old = Vec::new();
    let note = |resource: &Arc<Resource>| {
        let key = resource.key();
        old.extend((key.kind() != kind).then(|| Key::new(kind.clone(), key.namespace(), key.name())));
    };
    for_each_listed(store, kind, note).await?;
    Ok(old)
}

/// Writes resources as they are, which brings them into the storage version.
async fn rewrite(store: &dyn Store, old: Vec<Key>) -> homeostat_store::Result<()> {
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
