//! The names of a kind, its group and its scope.

use homeostat_cel::names::{DNS_1035_LABEL, DNS_1123_SUBDOMAIN};
use homeostat_store::schema::{Reason, Violation};
use serde_json::Value;

use crate::conditions::holds;

use super::{form, invalid, text, violation};

/// The names that each kind has.
const REQUIRED: [&str; 4] = ["plural", "singular", "kind", "listKind"];

/// Checks the name of a new definition.
pub(super) fn check_definition_name(definition: &Value, violations: &mut Vec<Violation>) {
    let spec = &definition["spec"];
    let wanted = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    let name = &definition["metadata"]["name"];
    if *name != wanted {
        let detail = format!("{name}: must be spec.names.plural+\".\"+spec.group");
        violations.push(invalid("metadata.name", detail));
    }
}

/// Checks the group and the scope of a kind.
pub(super) fn check_place(spec: &Value, violations: &mut Vec<Violation>) {
    let group = text(&spec["group"]);
    let faults = DNS_1123_SUBDOMAIN.faults(group);
    if group.is_empty() {
        violations.push(violation("spec.group", Reason::Required, ""));
    } else if !faults.is_empty() {
        violations.push(invalid("spec.group", format!("{group:?}: {}", faults.join(","))));
    } else if !group.contains('.') {
        violations.push(invalid("spec.group", format!("{group:?}: should be a domain with at least one dot")));
    }
    match text(&spec["scope"]) {
        "" => violations.push(violation("spec.scope", Reason::Required, "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let detail = format!("{other:?}: supported values: \"Cluster\", \"Namespaced\"");
            violations.push(violation("spec.scope", Reason::Unsupported, detail));
        }
    }
}

/// Checks the names of a kind.
pub(super) fn check_names(names: &Value, violations: &mut Vec<Violation>) {
    let path = |name: &str| format!("spec.names.{name}");
    for name in REQUIRED.into_iter().filter(|name| text(&names[*name]).is_empty()) {
        violations.push(violation(path(name), Reason::Required, ""));
    }
    for name in ["plural", "singular"].into_iter().filter(|name| !text(&names[*name]).is_empty()) {
        form(path(name), &names[name], &DNS_1035_LABEL, violations);
    }
    for name in ["kind", "listKind"].into_iter().filter(|name| !text(&names[*name]).is_empty()) {
        let given = text(&names[name]);
        let faults = DNS_1035_LABEL.faults(&given.to_lowercase());
        if !faults.is_empty() {
            let faults = faults.join(",");
            let detail = format!("{given:?}: may have mixed case, but should otherwise match: {faults}");
            violations.push(invalid(path(name), detail));
        }
    }
    let mut each = |list: &str| {
        for (at, name) in names[list].as_array().into_iter().flatten().enumerate() {
            form(format!("spec.names.{list}[{at}]"), name, &DNS_1035_LABEL, violations);
        }
    };
    each("shortNames");
    each("categories");
    let kind = text(&names["kind"]);
    if !kind.is_empty() && names["listKind"] == kind {
        violations.push(invalid(path("listKind"), format!("{kind:?}: kind and listKind may not be the same")));
    }
}

/// Checks that what identifies a kind stays.
pub(super) fn check_unchanged(spec: &Value, old: &Value, violations: &mut Vec<Violation>) {
    let kept: &[&str] = if holds(&old["status"], "Established") {
        &["/scope", "/names/kind", "/group", "/names/plural"]
    } else {
        &["/scope", "/group", "/names/plural"]
    };
    for pointer in kept {
        let (new, old) = (spec.pointer(pointer), old["spec"].pointer(pointer));
        if new != old {
            let (path, new) = (pointer.replace('/', "."), new.unwrap_or(&Value::Null));
            violations.push(invalid(format!("spec{path}"), format!("{new}: field is immutable")));
        }
    }
}
