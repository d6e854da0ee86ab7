//! Writes of events in the group `events.k8s.io`, which keeps most fields of an event. Events of the core group may change.

use std::sync::Arc;

use axum::response::Response;
use homeostat_runtime::Error as HostError;
use homeostat_store::schema::Violation;
use homeostat_store::{Error, FieldValidation, Key, Request, Resource, Write, WriteResponse};
use serde_json::Value;

use crate::path::Target;
use crate::request::ResourceRequest;
use crate::resources::{PATCH_TRIES, carry_out};
use crate::status::Failure;
use crate::{event_versions, write_warnings};

/// The result of the dry run of a write.
struct PlannedWrite {
    violations: Vec<Violation>,
    /// The name of the event.
    name: String,
    /// The event before the write; `None` if there was none.
    previous: Option<Arc<Resource>>,
}

/// Writes an event, unless its group forbids that, and responds with it.
///
/// A change relies on the event that was checked. If others change it meanwhile, the check is repeated, unless the client names
/// a revision.
pub(crate) async fn write(request: &ResourceRequest<'_>, write: Write) -> Result<Response, Failure> {
    let duplicates = request.duplicates()?;
    let is_strict = matches!(request.params.unknown(), Ok(FieldValidation::Strict));
    // Events are created often, and need no dry run for that.
    let is_right =
        matches!(&write, Write::Create { document } if homeostat_builtin::check_new_event(document).is_empty());
    // A body with duplicate fields is refused before its content.
    let is_plain = is_right || (is_strict && !duplicates.is_empty());
    if is_plain {
        return carry_out(request, write).await;
    }
    let mut tries = PATCH_TRIES;
    loop {
        let planned = plan(request, &write).await?;
        let Some(PlannedWrite { violations, name, previous }) = planned else {
            return carry_out(request, write).await;
        };
        if !violations.is_empty() {
            let what = format!("{}.{} {name:?}", request.info.kind.name, event_versions::GROUP);
            let error = HostError::Store(Error::invalid_fields(what, violations));
            request.http.warnings.add(duplicates.iter().map(|path| write_warnings::duplicate_field(path)));
            request.http.warnings.add(write_warnings::of_refusal(request, &error).await);
            return Err(Failure::from(error).named(&name));
        }
        tries -= 1;
        let (mut bound, is_ours) = (write.clone(), !names_revision(&write));
        if let Some(previous) = previous {
            bound.require(previous.revision());
        }
        match carry_out(request, bound).await {
            Err(failure) if failure.is_conflict() && is_ours && tries > 0 => {}
            answer => return answer,
        }
    }
}

/// Checks a write; returns `None` for one that the store refuses in its own words.
async fn plan(request: &ResourceRequest<'_>, write: &Write) -> Result<Option<PlannedWrite>, Failure> {
    let host = &request.http.api.host;
    let mut asked = Request { dry_run: true, ..request.write(write.clone())? };
    if request.http.applies() {
        asked.field_validation = FieldValidation::Strict;
    }
    let (document, previous, mut violations) = match host.write_unreviewed(asked).await {
        Ok(WriteResponse { resource, previous, .. }) => (resource.document().clone(), previous, Vec::new()),
        // The group may name more causes than the store.
        Err(HostError::Store(error @ (Error::InvalidFields { .. } | Error::AlreadyExists { .. }))) => {
            let (mut document, previous) = attempted(request, write).await?;
            let schema = host.store().schemas().and_then(|schemas| schemas.of(&request.info.kind).schema);
            if let Some(schema) = schema {
                schema.prune(&mut document);
            }
            (document, previous, of_metadata(error))
        }
        Err(_) => return Ok(None),
    };
    violations.extend(match &previous {
        Some(previous) => homeostat_builtin::check_changed_event(&document, previous.document()),
        None => homeostat_builtin::check_new_event(&document),
    });
    let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(Some(PlannedWrite { violations, name, previous }))
}

/// Returns the causes that the metadata has, and that come first. The group repeats those of the other fields.
fn of_metadata(error: Error) -> Vec<Violation> {
    let Error::InvalidFields { violations, .. } = error else { return Vec::new() };
    violations.into_iter().filter(|violation| violation.path.starts_with("metadata")).collect()
}

/// Returns the event that a write would store, and the one before it.
async fn attempted(request: &ResourceRequest<'_>, write: &Write) -> Result<(Value, Option<Arc<Resource>>), Failure> {
    let store = request.http.api.host.store();
    let Target { namespace, name, .. } = request.http.target;
    let key = Key::new(request.info.kind.clone(), namespace.unwrap_or_default(), name.unwrap_or_default());
    Ok(match write {
        Write::Update { document, .. } => (document.clone(), Some(store.get_live(&key).await?)),
        Write::Patch { change, .. } => {
            let current = store.get_live(&key).await?;
            (change.apply(current.document())?, Some(current))
        }
        Write::Apply { document, .. } => match store.get_live(&key).await {
            Ok(current) => (applied(document, current.document()), Some(current)),
            Err(_) => (document.clone(), None),
        },
        Write::Create { document } => (document.clone(), None),
        _ => (Value::Null, None),
    })
}

/// Returns an event with the applied fields. Those that the manager no longer applies stay.
fn applied(document: &Value, current: &Value) -> Value {
    let mut event = current.clone();
    let fields = document.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata");
    for (name, value) in fields {
        match (event.get_mut(name), value) {
            // References are applied as a whole.
            (Some(Value::Object(merged)), Value::Object(fields)) if ["series", "source"].contains(&name.as_str()) => {
                merged.extend(fields.clone());
            }
            _ => event[name] = value.clone(),
        }
    }
    event
}

/// Returns whether a client names the revision of the event that it replaces or applies.
fn names_revision(write: &Write) -> bool {
    let (Write::Update { document, .. } | Write::Apply { document, .. }) = write else { return false };
    document["metadata"]["resourceVersion"].as_str().is_some_and(|revision| !revision.is_empty())
}
