//! Claims of volumes.

use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Map, Value, json};

use super::check_modes;
use crate::rules::defaults::object_at;
use crate::rules::report::{Report, text, without};

/// Sets the source of a claim under both of its names. A source that is no claim and no snapshot has the newer name alone.
pub(in crate::rules) fn claim_defaults(claim: &mut Value, old: Option<&Value>) {
    let had_source =
        old.is_some_and(|old| ["dataSource", "dataSourceRef"].iter().any(|name| old["spec"][*name].is_object()));
    let Some(spec) = object_at(claim, "/spec") else { return };
    if !had_source && !spec.contains_key("dataSourceRef") && !spec.get("dataSource").is_some_and(is_claim_or_snapshot) {
        spec.remove("dataSource");
    }
    let is_elsewhere = spec.get("dataSourceRef").is_some_and(|source| !text(&source["namespace"]).is_empty());
    if is_elsewhere {
        return;
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) => {
            let known = ["apiGroup", "kind", "name"].into_iter();
            let fields: Map<String, Value> =
                known.filter_map(|name| Some((name.to_owned(), source.get(name)?.clone()))).collect();
            spec.insert("dataSource".to_owned(), fields.into());
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (text(&source["apiGroup"]), text(&source["kind"])),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

/// Checks the specification of a claim at a JSON pointer to the claim.
pub(in crate::rules) fn check_claim(report: &mut Report<'_>, pointer: &str, path: &str) {
    check_claim_spec(report, report.at(&format!("{pointer}/spec")), path);
}

/// Checks the specification of a claim.
pub(in crate::rules) fn check_claim_spec(report: &mut Report<'_>, spec: &Value, path: &str) {
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        report.required(format!("{path}.accessModes"), "at least 1 access mode is required");
    }
    check_modes(report, &spec["accessModes"], &format!("{path}.accessModes"));
    report.selector(&format!("{path}.selector"), &spec["selector"]);
    let storage = &spec["resources"]["requests"]["storage"];
    if storage.is_null() {
        report.required(format!("{path}.resources[storage]"), "");
    } else if quantity_in_nanos(storage).is_some_and(|amount| amount <= 0) {
        report.invalid(format!("{path}.resources[storage]"), storage, "must be greater than zero");
    }
    for name in ["storageClassName", "volumeAttributesClassName"].iter().filter(|name| !text(&spec[**name]).is_empty())
    {
        report.subdomain(format!("{path}.{name}"), &spec[*name]);
    }
    check_sources(report, spec, path);
}

pub(in crate::rules) fn check_persistent_volume_claim(report: &mut Report<'_>) {
    check_claim(report, "", "spec");
    let Some(old) = report.old else { return };
    let is_bound = old["status"]["phase"] == "Bound";
    let resources = if is_bound { "resources" } else { "" };
    let fixed = |spec: &Value| without(spec, &["volumeName", "volumeAttributesClassName", resources]);
    // One of a former version has its source under one name.
    let mut completed = old.clone();
    claim_defaults(&mut completed, Some(old));
    let amount = |claim: &Value, pointer: &str| claim.pointer(pointer).and_then(quantity_in_nanos).unwrap_or(0);
    let size = amount(report.resource, "/spec/resources/requests/storage");
    if fixed(report.at("/spec")) != fixed(&completed["spec"]) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
            claims";
        report.forbidden("spec", detail);
    }
    if size < amount(old, "/spec/resources/requests/storage") && size <= amount(old, "/status/capacity/storage") {
        let detail = "field can not be less than status.capacity";
        report.forbidden("spec.resources.requests.storage", detail);
    }
}

/// Checks from where a volume gets its content. Both names of the source say the same.
fn check_sources(report: &mut Report<'_>, spec: &Value, path: &str) {
    let [source, reference] = ["dataSource", "dataSourceRef"].map(|name| &spec[name]);
    for (name, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if source.is_object() {
            check_source(report, source, &format!("{path}.{name}"));
        }
    }
    if !source.is_object() || !reference.is_object() {
        return;
    }
    let is_same = ["apiGroup", "kind", "name"].iter().all(|name| source[*name] == reference[*name]);
    // As there.
    let shown = json!({});
    if !text(&reference["namespace"]).is_empty() {
        report.invalid(path, &shown, "may not be specified when dataSourceRef.namespace is specified");
    } else if !is_same {
        report.invalid(path, &shown, "must match dataSourceRef");
    }
}

fn check_source(report: &mut Report<'_>, source: &Value, path: &str) {
    for name in ["name", "kind"].iter().filter(|name| text(&source[**name]).is_empty()) {
        report.required(format!("{path}.{name}"), "");
    }
    match (text(&source["apiGroup"]), text(&source["kind"])) {
        ("", "PersistentVolumeClaim") => {}
        ("", kind) => {
            report.invalid(path, &kind.into(), "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
        }
        _ => report.subdomain(format!("{path}.apiGroup"), &source["apiGroup"]),
    }
    if !text(&source["namespace"]).is_empty() {
        report.label(format!("{path}.namespace"), &source["namespace"]);
    }
}
