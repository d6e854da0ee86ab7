//! The annotations of pods that have a meaning.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Report;

/// The annotation of a pod that a node made of a file.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation that says which pods of a set go first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The beginning of the annotations of AppArmor, one for each container.
pub(in crate::rules) const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Checks the annotations of a pod, or of the template at a pointer. `path` is that of the annotations.
pub(super) fn check(report: &mut Report<'_>, pointer: &str, path: &str) {
    let annotations = &report.at(&format!("{pointer}/metadata"))["annotations"];
    let path = |name: &str| format!("{path}[{name}]");
    let old = report.old.and_then(|old| old.pointer(&format!("{pointer}/metadata/annotations")));
    let before = |name: &str| old.and_then(|old| old.get(name));
    // A write of the status can have added it.
    if let Some(mirror) = annotations.get(MIRROR).filter(|mirror| before(MIRROR) != Some(*mirror))
        && report.at(&format!("{pointer}/spec"))["nodeName"].as_str().is_none_or(str::is_empty)
    {
        report.invalid(path(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = annotations.get(DELETION_COST);
    let was_invalid = before(DELETION_COST).is_some_and(|before| !is_cost(before));
    if let Some(cost) = cost.filter(|cost| !is_cost(cost) && !was_invalid) {
        report.invalid(path(DELETION_COST), cost, "must be a 32bit integer");
    }
}

/// Refuses changes of the annotations that a pod has for ever.
pub(super) fn check_change(report: &mut Report<'_>, old: &Value) {
    let of = |document: &Value| document["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let (now, before) = (of(report.at("")), of(old));
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    for name in names.into_iter().filter(|name| now.get(*name) != before.get(*name)) {
        let what = match name.as_str() {
            MIRROR => "mirror pod annotation",
            name if name.starts_with(APP_ARMOR_PREFIX) => "AppArmor annotations",
            _ => continue,
        };
        let verb = if before.contains_key(name) { "remove or update" } else { "add" };
        report.forbidden(format!("metadata.annotations[{name}]"), &format!("may not {verb} {what}"));
    }
}

/// Returns whether an annotation is a whole number of 32 bits without a plus and without leading zeros.
fn is_cost(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let has_sign_or_zero = text.starts_with('+') || (text.starts_with('0') && text != "0");
    !has_sign_or_zero && text.parse::<i32>().is_ok()
}
