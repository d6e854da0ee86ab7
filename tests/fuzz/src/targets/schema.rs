//! A schema reads back as it was written. Defaulting and pruning are idempotent, and their results stay
//! valid.

use homeostat_store::schema::{Schema, VIOLATIONS_MAX};
use homeostat_store::{DOCUMENT_BYTES_MAX, Store, Write};
use serde_json::Value;

use crate::target::{Acceptance, Outcome, bytes, is_shallow, must, pair, same};
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Some((source, document)) = pair(input, "schema", "document") else { return Ok(Acceptance::Rejected) };
    let Ok(schema) = Schema::parse(&source) else { return Ok(Acceptance::Rejected) };
    same("a schema returns its source", &schema.source(), &Some(&source))?;
    same("a schema reads as it was written", &Schema::parse(&source).as_ref(), &Ok(&schema))?;
    if !is_shallow(&document) {
        return Ok(Acceptance::Rejected);
    }
    fits(&schema, document)
}

/// Defaults, prunes and validates a document, directly and in a store.
pub(crate) fn fits(schema: &Schema, document: Value) -> Outcome {
    let mut made = document.clone();
    must("few pruned fields are told", schema.prune(&mut made).len() <= VIOLATIONS_MAX)?;
    must("pruning makes nothing", bytes(&made) <= bytes(&document))?;
    same("a pruned document has nothing to prune", &schema.prune(&mut made.clone()), &Vec::new())?;
    if schema.set_defaults(&mut made).is_err() {
        return Ok(Acceptance::Rejected);
    }
    let bytes_max = bytes(&document) + 2 * DOCUMENT_BYTES_MAX as usize;
    must("defaults have a bound", bytes(&made) <= bytes_max)?;
    let mut again = made.clone();
    same("defaulting can be repeated", &schema.set_defaults(&mut again).is_ok(), &true)?;
    same("defaulting is idempotent", &again, &made)?;
    same("a defaulted document has nothing to prune", &schema.prune(&mut again), &Vec::new())?;
    let violations = schema.check(&made);
    must("few violations are told", violations.len() <= VIOLATIONS_MAX)?;
    must("violations have a bound", violations.iter().all(|violation| violation.to_string().len() <= 64 << 10))?;
    same("the same document has the same violations", &schema.check(&made), &violations)?;
    let store = test_store::store();
    store.schemas().expect("the host validates").set(&test_store::kind(), [("v1".to_owned(), Some(schema.clone()))]);
    let Ok(created) = test_store::submit(&store, Write::Create { document }, false) else {
        return Ok(Acceptance::Accepted);
    };
    if created.resource.key().kind() == &test_store::kind() {
        let stored = created.resource.document();
        same("a stored document is valid", &schema.check(stored), &Vec::new())?;
        same("a stored document has nothing to prune", &schema.prune(&mut stored.clone()), &Vec::new())?;
    }
    Ok(Acceptance::Accepted)
}
