//! A JSON patch is applied as a whole or not at all, and makes no document that is much larger or too deep.

use homeostat_store::{Change, DOCUMENT_BYTES_MAX};
use serde_json::json;

use crate::target::{Acceptance, Outcome, bytes, is_shallow, must, pair, same};

/// The limit of `copy` and `move` together, and the text around it.
const CARRIED_BYTES_MAX: usize = 5 * DOCUMENT_BYTES_MAX as usize;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Some((document, patch)) = pair(input, "document", "patch") else { return Ok(Acceptance::Rejected) };
    if !is_shallow(&document) {
        return Ok(Acceptance::Rejected);
    }
    let bytes_max = bytes(&document) + bytes(&patch) + CARRIED_BYTES_MAX;
    let change = Change::Json(patch);
    let changed = change.apply(&document);
    same("the same patch makes the same", &change.apply(&document), &changed)?;
    let Ok(changed) = changed else { return Ok(Acceptance::Rejected) };
    must("a patch does not make a document too deep", is_shallow(&changed))?;
    must("a patch makes a document no larger than it carries", bytes(&changed) <= bytes_max)?;
    let whole = |op: &str| json!([{"op": op, "path": "", "value": changed}]);
    // A value inside a patch has a smaller limit than a document.
    if is_shallow(&whole("test")) && bytes(&whole("replace")) as u64 <= DOCUMENT_BYTES_MAX {
        let tested = Change::Json(whole("test")).apply(&changed);
        same("a test of the whole document passes", &tested.as_ref(), &Ok(&changed))?;
        let replaced = Change::Json(whole("replace")).apply(&document);
        same("a document can be replaced as a whole", &replaced.as_ref(), &Ok(&changed))?;
    }
    Ok(Acceptance::Accepted)
}
