//! Writes of events in the group `events.k8s.io`, which keeps most fields of an event. Events of the core group may change.

use std::sync::Arc;

use axum::response::Response;
use homeostat_runtime::Error as HostError;
use homeostat_store::schema::Violation;
use homeostat_store::{Error, FieldValidation, Key, Precondition, Request, Resource, Revision, Write, WriteResponse};
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
    /// The revision of the event before the write; `None` if there was none.
    revision: Option<Revision>,
}

/// Writes an event, unless its group forbids that, and responds with it.
///
/// The write relies on the event that was checked. If others change it meanwhile, the check is repeated, unless the client names
/// a revision.
pub(crate) async fn write(request: &ResourceRequest<'_>, write: Write) -> Result<Response, Failure> {
    let mut tries = PATCH_TRIES;
    loop {
        let planned = plan(request, &write).await?;
        let Some(PlannedWrite { violations, name, revision }) = planned else {
            return carry_out(request, write).await;
        };
        if !violations.is_empty() {
            let what = format!("{}.{} {name:?}", request.info.kind.name, event_versions::GROUP);
            let error = HostError::Store(Error::invalid_fields(what, violations));
            request.http.warnings.add(write_warnings::of_refusal(request, &error).await);
            return Err(Failure::from(error).named(&name));
        }
        tries -= 1;
        let (bound, is_ours) = at_revision(write.clone(), revision);
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
    let (document, previous) = match host.write_unreviewed(asked).await {
        Ok(WriteResponse { resource, previous, .. }) => (resource.document().clone(), previous),
        // The group may name more causes than the store.
        Err(HostError::Store(Error::InvalidFields { .. } | Error::AlreadyExists { .. })) => {
            let (mut document, previous) = attempted(request, write).await?;
            let schema = host.store().schemas().and_then(|schemas| schemas.of(&request.info.kind).schema);
            if let Some(schema) = schema {
                schema.prune(&mut document);
            }
            (document, previous)
        }
        Err(_) => return Ok(None),
    };
    let violations = match &previous {
        Some(previous) => homeostat_builtin::check_changed_event(&document, previous.document()),
        None => homeostat_builtin::check_new_event(&document),
    };
    let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(Some(PlannedWrite { violations, name, revision: previous.map(|previous| previous.revision()) }))
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
    fields.for_each(|(name, value)| event[name] = value.clone());
    event
}

/// Returns a write that relies on a revision, unless it names one itself, and whether it does not.
fn at_revision(mut write: Write, relied: Option<Revision>) -> (Write, bool) {
    let precondition = match &mut write {
        Write::Update { document, precondition } => {
            let named = document["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            if !named.is_empty() {
                return (write, false);
            }
            precondition
        }
        Write::Patch { precondition, .. } => precondition,
        _ => return (write, false),
    };
    let is_ours = precondition.revision.is_none();
    *precondition = Precondition { revision: precondition.revision.or(relied), ..precondition.clone() };
    (write, is_ours)
}
