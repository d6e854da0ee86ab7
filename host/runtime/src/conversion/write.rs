//! A write in another version than the stored one: decided here, converted, and stored if nobody wrote meanwhile.

use std::sync::Arc;

use homeostat_store::schema::Schemas;
use homeostat_store::semantics::{Decision, Validation, WritePlan};
use homeostat_store::{
    Error, EventType, Key, Precondition, Request, Resource, Result, Store, Target, Write, WriteResponse,
};
use serde_json::Value;

use super::converter::KindConverter;
use super::converters::Converters;
use crate::error::found;
use crate::planning;

/// How often a write is decided, while others write the same resource or change its definition.
const TRIES_MAX: usize = 16;

/// Makes a write of a kind that has a converter.
///
/// *Cancel safety*: as [`Store::submit`].
///
/// # Errors
/// Those of [`Store::submit`]; `Conversion`, after which the write may have happened.
pub(super) async fn submit(inner: &dyn Store, converters: &Converters, request: Request) -> Result<WriteResponse> {
    let kind = request.write.target()?.kind;
    let mut overtaken = None;
    for _ in 0..TRIES_MAX {
        let Some(converter) = converters.of(&kind).filter(|converter| converter.knows(&kind.version)) else {
            return inner.submit(request).await;
        };
        let Some(schemas) = inner.schemas() else { return inner.submit(request).await };
        match attempt(inner, &converter, schemas, &request).await? {
            Attempt::Written(written) => return Ok(written),
            Attempt::Overtaken(error) => overtaken = Some(error),
        }
    }
    Err(overtaken.unwrap_or(Error::Closed))
}

enum Attempt {
    Written(WriteResponse),
    /// The resource or its definition changed meanwhile.
    Overtaken(Error),
}

async fn attempt(
    inner: &dyn Store,
    converter: &KindConverter,
    schemas: &Schemas,
    request: &Request,
) -> Result<Attempt> {
    let Target { kind, namespace, name } = request.write.target()?;
    let (version, stored) = (kind.version.as_str(), converter.stored());
    let current = match name {
        Some(name) => found(inner.get_live(&Key::new(kind.clone(), &namespace, &name)).await)?,
        None => None,
    };
    let shown = match &current {
        // A creation only needs to know that there is one.
        Some(current) if !matches!(request.write, Write::Create { .. }) => {
            converter.convert(version, vec![Arc::clone(current)]).await?.pop()
        }
        _ => current.clone(),
    };
    let schemas = schemas.in_version(&kind);
    let plan = planning::plan(schemas, request.clone(), shown, Validation::Complete).await?;
    let WritePlan { decision, previous, unknown_fields, .. } = plan;
    if let (Decision::Unchanged(resource), Some(current)) = (&decision, &current)
        && current.key().kind().version == stored
    {
        let resource = Arc::clone(resource);
        return Ok(Attempt::Written(WriteResponse { resource, change: None, previous, unknown_fields }));
    }
    let decided = decision.resource();
    let document = converter.convert_document(stored, without_revision(decided.document().clone())).await?;
    let write = match &current {
        Some(current) => {
            let (uid, revision) = (Some(current.uid().to_owned()), Some(current.revision()));
            Write::Update { document, precondition: Precondition { uid, revision } }
        }
        None => Write::Create { document },
    };
    let written = match inner.submit(planning::planned(request, write)).await {
        Err(
            error @ (Error::Conflict { .. }
            | Error::AlreadyExists { .. }
            | Error::NotFound { .. }
            | Error::OtherVersion { .. }),
        ) => return Ok(Attempt::Overtaken(error)),
        written => written?,
    };
    let WriteResponse { resource, change, previous: _, unknown_fields: _ } = written;
    let resource = match change {
        // It is gone, and nobody reads it again.
        Some(EventType::Deleted) => decided.at(resource.revision()),
        _ if request.dry_run => {
            let document = converter.convert_document(version, resource.document().clone()).await?;
            Arc::new(Resource::from_document(document)?)
        }
        _ => converter.convert(version, vec![Arc::clone(&resource)]).await?.pop().unwrap_or(resource),
    };
    Ok(Attempt::Written(WriteResponse { resource, change, previous, unknown_fields }))
}

/// Stores a write that was decided before, in a version that may be another than the stored one.
///
/// *Cancel safety*: as [`Store::submit`].
///
/// # Errors
/// Those of [`Store::submit`]; `Conversion`, after which the write may have happened.
pub(super) async fn submit_planned(
    inner: &dyn Store,
    converter: &KindConverter,
    request: Request,
) -> Result<WriteResponse> {
    let (version, stored) = (request.write.target()?.kind.version, converter.stored());
    if version == stored {
        return inner.submit(request).await;
    }
    let write = match request.write.clone() {
        Write::Create { document } => Write::Create { document: converter.convert_document(stored, document).await? },
        Write::Update { document, precondition } => {
            Write::Update { document: converter.convert_document(stored, document).await?, precondition }
        }
        other => other,
    };
    let written = inner.submit(Request { write, ..request }).await?;
    let document = converter.convert_document(&version, written.resource.document().clone()).await?;
    Ok(WriteResponse { resource: Arc::new(Resource::from_document(document)?), ..written })
}

fn without_revision(mut document: Value) -> Value {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    document
}
