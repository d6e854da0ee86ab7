//! The resources that a container may use, and those that it asks for.

use std::collections::BTreeSet;

use homeostat_store::schema::quantity_in_nanos;
use serde_json::Value;

use super::Pod;
use crate::rules::amounts::{NANOS, NANOS_PER_MILLI, rounded_up};
use crate::rules::report::{Report, items, text};
use crate::rules::resource_names::{HUGE_PAGES, check_container_resource, is_counted, is_native};

/// Checks the resources of a container.
pub(super) fn check(report: &mut Report<'_>, pod: &Pod<'_>, resources: &Value, path: &str) {
    check_amounts(report, resources, path);
    check_claims(report, pod, &resources["claims"], &format!("{path}.claims"));
}

/// Checks limits and requests.
pub(in crate::rules) fn check_amounts(report: &mut Report<'_>, resources: &Value, path: &str) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources[list].as_object().into_iter().flatten() {
            let item = format!("{path}.{list}[{name}]");
            check_container_resource(report, name, &item);
            check_amount(report, name, amount, &item);
            if list == "requests" {
                check_request(report, name, amount, &resources["limits"][name.as_str()], path);
            }
        }
    }
    let named = || ["limits", "requests"].into_iter().flat_map(|list| resources[list].as_object()).flatten();
    let has_compute = named().any(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
    if !has_compute && named().any(|(name, _)| name.starts_with(HUGE_PAGES)) {
        report.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Checks an amount of a node, or of a container.
pub(in crate::rules) fn check_quantity(report: &mut Report<'_>, name: &str, amount: &Value, path: &str) {
    let Some(nanos) = quantity_in_nanos(amount) else { return };
    if nanos < 0 {
        report.invalid(path, amount, "must be greater than or equal to 0");
    }
    if is_counted(name) && rounded_up(nanos, NANOS_PER_MILLI) % 1000 != 0 {
        report.invalid(path, amount, "must be an integer");
    }
}

fn check_amount(report: &mut Report<'_>, name: &str, amount: &Value, path: &str) {
    check_quantity(report, name, amount, path);
    let Some(nanos) = quantity_in_nanos(amount) else { return };
    if let Some(size) = name.strip_prefix(HUGE_PAGES)
        && !is_multiple(nanos, size)
    {
        let detail = format!("{} is not positive integer multiple of {name}", text(amount));
        report.invalid(path, amount, &detail);
    }
}

/// Returns whether an amount is a multiple of the size of a page, which is a whole number.
fn is_multiple(nanos: i128, size: &str) -> bool {
    let Some(size) = quantity_in_nanos(&size.into()).filter(|size| *size > 0) else { return false };
    rounded_up(size, NANOS_PER_MILLI) % 1000 == 0 && rounded_up(nanos, NANOS) % rounded_up(size, NANOS) == 0
}

/// Checks that a container asks for no more than it may use.
fn check_request(report: &mut Report<'_>, name: &str, request: &Value, limit: &Value, path: &str) {
    // Only the resources of Kubernetes can be promised more than once.
    let is_exclusive = !is_native(name) || name.starts_with(HUGE_PAGES);
    let Some((asked, allowed)) = quantity_in_nanos(request).zip(quantity_in_nanos(limit)) else {
        if is_exclusive {
            report.required(format!("{path}.limits"), "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let relation = match is_exclusive {
        true if asked != allowed => "equal to",
        false if asked > allowed => "less than or equal to",
        _ => return,
    };
    let detail = format!("must be {relation} {name} limit of {}", text(limit));
    report.invalid(format!("{path}.requests"), request, &detail);
}

/// Checks the resource claims of a container, which are some of its pod.
fn check_claims(report: &mut Report<'_>, pod: &Pod<'_>, claims: &Value, path: &str) {
    let of_pod = items(&pod.spec["resourceClaims"]).iter().map(|claim| text(&claim["name"]));
    let of_pod: BTreeSet<&str> = of_pod.filter(|name| !name.is_empty()).collect();
    let mut known = BTreeSet::new();
    for (at, claim) in items(claims).iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = text(&claim["name"]);
        if name.is_empty() {
            report.required(path, "");
            continue;
        }
        check_use(report, name, claim, &mut known, &path);
        check_claim_exists(report, &of_pod, name, &path);
    }
}

/// Checks that a claim, or a request of it, is used once. `known` are the earlier ones, as `claim` or `claim/request`.
fn check_use(report: &mut Report<'_>, name: &str, claim: &Value, known: &mut BTreeSet<String>, path: &str) {
    let request = text(&claim["request"]);
    if known.contains(name) {
        return report.duplicate(path, &name.into());
    }
    if request.is_empty() {
        let count = known.iter().filter(|key| key.split_once('/').is_some_and(|(claim, _)| claim == name)).count();
        (0..count).for_each(|_| report.duplicate(path, &name.into()));
        known.insert(name.to_owned());
        return;
    }
    report.label(format!("{path}.request"), &request.into());
    let key = format!("{name}/{request}");
    if known.contains(&key) {
        report.duplicate(path, &key.as_str().into());
    }
    known.insert(key);
}

fn check_claim_exists(report: &mut Report<'_>, names: &BTreeSet<&str>, name: &str, path: &str) {
    if names.contains(name) {
        return;
    }
    let listed = names.iter().copied().collect::<Vec<_>>().join(", ");
    let which = if listed.is_empty() { " which is empty".to_owned() } else { format!(": {listed}") };
    let detail = format!("must be one of the names in pod.spec.resourceClaims{which}");
    report.not_found_with(path, &name.into(), &detail);
}
