//! A merge patch follows its standard and changes nothing when applied again. No patch makes a document
//! larger than the old document and the patch together.

use homeostat_store::{Change, Precondition, Write};
use serde_json::{Map, Value};

use crate::target::{Acceptance, Outcome, bytes, is_shallow, must, pair, same};
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Some((document, patch)) = pair(input, "document", "patch") else { return Ok(Acceptance::Rejected) };
    if !is_shallow(&document) {
        return Ok(Acceptance::Rejected);
    }
    let bytes_max = bytes(&document) + bytes(&patch) + 16;
    let mut held = Acceptance::Rejected;
    for change in [Change::Merge(patch.clone()), Change::Strategic(patch)] {
        let Ok(changed) = change.apply(&document) else { continue };
        held = Acceptance::Accepted;
        must("a patch makes no more than the document and itself", bytes(&changed) <= bytes_max)?;
        must("a patch does not make a document too deep", is_shallow(&changed))?;
        if let Change::Merge(patch) = &change {
            same("a merge patch follows its standard", &changed, &merged(document.clone(), patch))?;
            same("a merge patch changes nothing the second time", &change.apply(&changed).as_ref(), &Ok(&changed))?;
        }
        // In a store, with all its checks.
        let store = test_store::store();
        let create = Write::Create { document: document.clone() };
        let Ok(created) = test_store::submit(&store, create, false) else { continue };
        let key = created.resource.key().clone();
        let status = Write::PatchStatus { key: key.clone(), change: change.clone() };
        let patch = Write::Patch { key, change, precondition: Precondition::default() };
        for write in [patch, status] {
            if let Ok(written) = test_store::submit(&store, write, false) {
                must("a patch does not make another resource", written.resource.key() == created.resource.key())?;
                must("a patch does not change a uid", written.resource.uid() == created.resource.uid())?;
            }
        }
    }
    Ok(held)
}

/// The function of RFC 7396, copied literally.
fn merged(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut fields = if let Value::Object(fields) = target { fields } else { Map::new() };
    for (name, value) in patch {
        let was = fields.remove(name).unwrap_or_default();
        if !value.is_null() {
            fields.insert(name.clone(), merged(was, value));
        }
    }
    Value::Object(fields)
}
