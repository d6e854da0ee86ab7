//! The error of a failed conversion.

use homeostat_store::Error;
use serde_json::Value;

/// Returns the error of a conversion of this document, in the words of Kubernetes. `reason` is the rest of the sentence.
pub(super) fn failure(original: &Value, reason: &str) -> Error {
    let text = |name: &str| original[name].as_str().unwrap_or_default();
    let reason = format!("conversion webhook for {}, Kind={} {reason}", text("apiVersion"), text("kind"));
    Error::Conversion { reason }
}
