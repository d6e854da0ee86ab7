//! How a definition converts resources from version to version.

use homeostat_builtin::check_conversion_webhook;
use homeostat_store::schema::{Reason, Violation};
use serde_json::Value;

use super::{text, violation};

/// Checks `spec.conversion`. Kubernetes names its fields as those of an older version.
pub(super) fn check(conversion: &Value, violations: &mut Vec<Violation>) {
    if !conversion.is_object() {
        return;
    }
    let webhook = &conversion["webhook"];
    match text(&conversion["strategy"]) {
        "Webhook" => return violations.extend(check_conversion_webhook(webhook)),
        "None" => {}
        "" => violations.push(violation("spec.conversion.strategy", Reason::Required, "")),
        other => {
            let detail = format!("{other:?}: supported values: \"None\", \"Webhook\"");
            violations.push(violation("spec.conversion.strategy", Reason::Unsupported, detail));
        }
    }
    let words = "should not be set when strategy is not set to Webhook";
    if webhook["clientConfig"].is_object() {
        violations.push(violation("spec.conversion.webhookClientConfig", Reason::Forbidden, words));
    }
    if webhook["conversionReviewVersions"].as_array().is_some_and(|versions| !versions.is_empty()) {
        violations.push(violation("spec.conversion.conversionReviewVersions", Reason::Forbidden, words));
    }
}
