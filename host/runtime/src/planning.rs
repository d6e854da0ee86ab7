//! Writes that are decided on this side of the store, and stored if nobody wrote meanwhile.

use std::sync::Arc;

use homeostat_store::schema::Schemas;
use homeostat_store::semantics::{self, Validation, WritePlan};
use homeostat_store::{
    ClockAndIds, Error, FieldValidation, Key, Request, Resource, Result, Revision, SystemClockAndIds, Write,
    needs_rules,
};
use serde_json::Value;

/// Decides a write. Rules in CEL are evaluated on a thread that may block, because they can take a second.
///
/// # Errors
/// Those of the write.
pub(crate) async fn plan(
    schemas: Schemas,
    request: Request,
    current: Option<Arc<Resource>>,
    validation: Validation,
) -> Result<WritePlan> {
    let is_long = validation == Validation::Complete && needs_rules(&schemas, &request);
    let plan = move || {
        // The store numbers the change; until then the resource keeps its revision.
        let revision = current.as_ref().map_or(Revision::ZERO, |current| current.revision());
        let lookup = |_: &Key| Ok(current.clone());
        semantics::plan_write(&SystemClockAndIds, &schemas, request, revision, validation, lookup)
    };
    if is_long { tokio::task::spawn_blocking(plan).await.map_err(Error::unavailable)? } else { plan() }
}

/// Decides the write of a draft with a changed document, as [`semantics::plan_draft`].
///
/// # Errors
/// Those of the write.
pub(crate) async fn plan_draft(
    schemas: Schemas,
    request: &Request,
    draft: WritePlan,
    document: Value,
) -> Result<WritePlan> {
    let is_long = needs_rules(&schemas, request);
    let part = request.written_part();
    let plan = move || semantics::plan_draft(SystemClockAndIds.now(), &schemas, &draft, part, document);
    if is_long { tokio::task::spawn_blocking(plan).await.map_err(Error::unavailable)? } else { plan() }
}

/// Returns the request that stores a decided write in place of the requested one.
pub(crate) fn planned(request: &Request, write: Write) -> Request {
    Request { write, is_planned: true, field_validation: FieldValidation::Ignore, ..request.clone() }
}
