//! A sequence of writes. Each reads back as it was written. A dry run predicts the result of the write, and
//! changes nothing.

use homeostat_store::{Store, Write};
use serde_json::Value;

use crate::target::{Acceptance, Outcome, must, same};
use crate::test_store;

/// Maximum writes of one input.
const WRITES_MAX: usize = 12;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Ok(Value::Array(values)) = serde_json::from_slice::<Value>(input) else { return Ok(Acceptance::Rejected) };
    let store = test_store::store();
    let mut held = Acceptance::Rejected;
    for value in values.into_iter().take(WRITES_MAX) {
        let Ok(write) = serde_json::from_value::<Write>(value) else { continue };
        let text = serde_json::to_string(&write).map_err(|error| error.to_string())?;
        same("a write reads as it was written", &serde_json::from_str(&text).ok().as_ref(), &Some(&write))?;
        let before = test_store::revision(&store);
        let tried = test_store::submit(&store, write.clone(), true).map(|tried| tried.change);
        same("a dry run changes nothing", &test_store::revision(&store), &before)?;
        let written = test_store::submit(&store, write, false).map(|written| written.change);
        same("a dry run predicts the result", &tried, &written)?;
        let change = matches!(written, Ok(Some(_)));
        let revision = if change { before.next() } else { before };
        same("a revision is made for each change, and for nothing else", &test_store::revision(&store), &revision)?;
        if written.is_ok() {
            held = Acceptance::Accepted;
        }
    }
    let kinds = test_store::wait(store.kinds()).map_err(|error| error.to_string())?;
    must("there are no more kinds than writes", kinds.len() <= WRITES_MAX)?;
    Ok(held)
}
