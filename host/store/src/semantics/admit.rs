//! Admission: applies the schema of a kind to a written document.

use serde_json::Value;

use super::{fields, set};
use crate::path::Path;
use crate::schema::{Reason, Schema, Violation};
use crate::{Error, Result};

/// The written part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentPart {
    /// All but `status`, which stays unchanged.
    Specification,
    /// Only `status`.
    Status,
}

/// Prunes, defaults and validates a part of a document, which is an object. Without a schema the document
/// stays unchanged.
///
/// `metadata` and the other part stay unchanged.
///
/// # Errors
/// `InvalidFields`; `TooLarge` when the defaults are too large.
pub(super) fn admit(schema: Option<&Schema>, document: &mut Value, part: DocumentPart) -> Result<()> {
    let Some(schema) = schema else { return Ok(()) };
    let status = fields(document).remove("status");
    let (violations, status) = match part {
        DocumentPart::Specification => {
            let mut violations = schema.admit(document, &Path::ROOT, true)?;
            // This write cannot set a status, so a required status does not apply.
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

/// Admits a status; drops one that the schema does not know.
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
