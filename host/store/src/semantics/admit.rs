//! What the schema of a kind makes of a document that is written.

use serde_json::Value;

use super::{fields, set};
use crate::path::Path;
use crate::schema::{Reason, Schema, Violation};
use crate::{Error, Result};

/// What of a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentPart {
    /// Everything but `status`, which stays as it is.
    Specification,
    /// `status` alone.
    Status,
}

/// Prunes, fills in and checks a part of a document, which is an object; without a schema it stays as it is.
///
/// `metadata` and the other part are left alone.
///
/// # Errors
/// `InvalidFields`; `TooLarge` when the defaults come to too much.
pub(super) fn admit(schema: Option<&Schema>, document: &mut Value, part: DocumentPart) -> Result<()> {
    let Some(schema) = schema else { return Ok(()) };
    let status = fields(document).remove("status");
    let (violations, status) = match part {
        DocumentPart::Specification => {
            let mut violations = schema.admit(document, &Path::ROOT, true)?;
            // Nobody can write a status here, so nobody can be asked for one.
            violations.retain(|violation| !(violation.path == "status" && violation.reason == Reason::Required));
            (violations, status)
        }
        DocumentPart::Status => admit_status(schema, status)?,
    };
    set(fields(document), "status", status);
    if violations.is_empty() {
        return Ok(());
    }
    Err(Error::InvalidFields { what: what(document), violations })
}

/// Admits a status; one of which the schema knows nothing is left out.
fn admit_status(schema: &Schema, status: Option<Value>) -> Result<(Vec<Violation>, Option<Value>)> {
    let Some(mut status) = status else { return Ok((Vec::new(), None)) };
    match schema.field("status") {
        Some(schema) => {
            let violations = schema.admit(&mut status, &Path::ROOT.field("status"), false)?;
            Ok((violations, Some(status)))
        }
        None => Ok((Vec::new(), Some(status).filter(|_| schema.keeps_unknown()))),
    }
}

/// Names a resource for a person, as `Widget.demo.dev "a"`.
fn what(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let kind = text(&document["kind"]);
    let name = text(&document["metadata"]["name"]);
    match text(&document["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group} {name:?}"),
        None => format!("{kind} {name:?}"),
    }
}
