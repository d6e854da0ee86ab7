//! An applied document is in the result, regardless of the previous `managedFields`. Applying it again
//! changes nothing.

use homeostat_store::schema::Schema;
use homeostat_store::{MANAGED_FIELDS_BYTES_MAX, Store, Write};
use serde_json::{Value, json};

use crate::target::{Acceptance, Outcome, bytes, must, pair, same};
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Some((live, applied)) = pair(input, "live", "applied") else { return Ok(Acceptance::Rejected) };
    let free = once(&live, &applied, None)?;
    let by_schema = once(&live, &applied, Some(schema()?))?;
    Ok(if free == Acceptance::Accepted { free } else { by_schema })
}

fn once(live: &Value, applied: &Value, schema: Option<Schema>) -> Outcome {
    let store = test_store::store();
    store
        .schemas()
        .expect("the host validates")
        .set(&test_store::kind(), schema.map(|schema| ("v1".to_owned(), Some(schema))));
    // If this is refused, the document is applied to nothing.
    let _refused = test_store::submit(&store, Write::Create { document: live.clone() }, false).is_err();
    let apply = |force| Write::Apply { document: applied.clone(), manager: "fuzz".to_owned(), force };
    // Without force a conflict is allowed.
    let _conflict = test_store::submit(&store, apply(false), true).is_err();
    let Ok(first) = test_store::submit(&store, apply(true), false) else { return Ok(Acceptance::Rejected) };
    let managers = first.resource.document().pointer("/metadata/managedFields").unwrap_or(&Value::Null);
    must("managedFields are bounded", bytes(managers) as u64 <= MANAGED_FIELDS_BYTES_MAX)?;
    let again = test_store::submit(&store, apply(true), false).map_err(|error| format!("the second time: {error}"))?;
    let (one, two) = (first.resource.document(), again.resource.document());
    same("applying twice leaves the document unchanged", one, two)?;
    same("applying twice is no change", &again.change, &None)?;
    let unforced =
        test_store::submit(&store, apply(false), false).map_err(|error| format!("without force: {error}"))?;
    same("applying again needs no force", &unforced.change, &None)?;
    Ok(Acceptance::Accepted)
}

/// Lists and maps of each type, and a key with a default.
fn schema() -> Result<Schema, String> {
    let item = json!({"type": "object", "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "note": {"type": "string"},
    }});
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": item},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "limits": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"x-kubernetes-int-or-string": true}},
        "size": {"type": "integer", "default": 1},
    }});
    Schema::parse(&json!({"type": "object", "properties": {"spec": spec}})).map_err(|error| error.to_string())
}
