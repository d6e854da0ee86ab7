//! The keywords of OpenAPI that Kubernetes does not have, and the values of those that it adds.

use homeostat_store::schema::{Path, Reason, Violation, rule_keyword_violations};
use serde_json::Value;

use super::structure::conversion_fault;
use super::{Report, entries, given, has_entries, is_true, list, part, text};

pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// The fields that every resource has.
pub(super) const HEAD: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Returns the violations of the keywords of a schema and of all its parts, and the paths of the parts that have them. Some
/// parts of a schema with a `fault` cannot be converted to their structural forms.
pub(super) fn violations(schema: &Value, root: &Path<'_>, has_fault: bool) -> (Vec<Violation>, Vec<String>) {
    let (mut report, mut refused) = (Report::default(), Vec::new());
    let place = Place { is_root: true, is_in_head: false, forbids_defaults: None, has_fault };
    check(schema, root, &place, &mut report, &mut refused);
    (report.found, refused)
}

/// Where a part is.
#[derive(Clone)]
struct Place {
    is_root: bool,
    /// Whether the part belongs to the metadata, the kind or the version of a resource.
    is_in_head: bool,
    /// Where the part is, if defaults are forbidden there.
    forbids_defaults: Option<String>,
    has_fault: bool,
}

fn check(schema: &Value, path: &Path<'_>, place: &Place, report: &mut Report, refused: &mut Vec<String>) {
    if report.is_full() {
        return;
    }
    let before = report.found.len();
    check_supported(schema, path, place, report);
    if is_true(schema, "uniqueItems") {
        let words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        report.forbid(&path.field("uniqueItems"), words);
    }
    if has_entries(schema, "properties") && given(schema, "additionalProperties").is_some_and(|of| *of != true) {
        let words = "additionalProperties and properties are mutual exclusive";
        report.forbid(&path.field("additionalProperties"), words);
    }
    let mut is_refused = report.found.len() > before;
    check_parts(schema, path, (&Place { is_root: false, ..place.clone() }, place.is_root), report, refused);
    let before = report.found.len();
    check_extensions(schema, path, report);
    if has_entries(schema, "x-kubernetes-validations") {
        let is_well_formed = !place.has_fault || conversion_fault(schema).is_none();
        report.extend(rule_keyword_violations(schema, path, is_well_formed));
    }
    is_refused |= report.found.len() > before;
    if is_refused {
        refused.push(path.to_string());
    }
}

fn check_extensions(schema: &Value, path: &Path<'_>, report: &mut Report) {
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let name = "x-kubernetes-preserve-unknown-fields";
        report.invalid(&path.field(name), &schema[name], "must be true or undefined");
    }
    check_type_of(schema, "x-kubernetes-map-type", "object", path, report);
    check_values(schema, "x-kubernetes-map-type", &["atomic", "granular"], path, report);
    check_type_of(schema, "x-kubernetes-list-type", "array", path, report);
    check_items_of_set(schema, path, report);
    check_values(schema, "x-kubernetes-list-type", &["atomic", "set", "map"], path, report);
    check_list_map(schema, path, report);
    check_identities(schema, path, report);
}

fn check_supported(schema: &Value, path: &Path<'_>, place: &Place, report: &mut Report) {
    let of_type = text(schema, "type");
    if !of_type.is_empty() && !TYPES.contains(&of_type) {
        unsupported(&path.field("type"), of_type, &TYPES, report);
    }
    if let Some(reason) = place.forbids_defaults.as_ref().filter(|_| given(schema, "default").is_some()) {
        report.forbid(&path.field("default"), &format!("must not be set {reason}"));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let is_there = match name {
            "id" => !text(schema, name).is_empty(),
            "patternProperties" | "definitions" => has_entries(schema, name),
            _ => given(schema, name).is_some(),
        };
        if is_there {
            report.forbid(&path.field(name), &format!("{name} is not supported"));
        }
    }
    if of_type == "null" {
        report.forbid(&path.field("type"), "type cannot be set to null, use nullable as an alternative");
    }
    if !list(schema, "items").is_empty() {
        report.forbid(&path.field("items"), "items must be a schema object and not an array");
    }
    let embedded = "x-kubernetes-embedded-resource";
    if place.is_in_head && is_true(schema, embedded) {
        report.forbid(&path.field(embedded), "must not be used inside of resource meta");
    }
}

/// Checks the parts of a schema, which have the same place but for the exceptions here.
fn check_parts(
    schema: &Value,
    path: &Path<'_>,
    (place, is_root): (&Place, bool),
    report: &mut Report,
    refused: &mut Vec<String>,
) {
    let at = path.field("additionalProperties");
    if let Some(values) = part(schema, "additionalProperties") {
        let reason = || "inside additionalProperties applying to object metadata".to_owned();
        let forbids_defaults = place.is_in_head.then(reason).or_else(|| place.forbids_defaults.clone());
        check(values, &at, &Place { forbids_defaults, ..place.clone() }, report, refused);
    }
    let at = path.field("properties");
    for (name, property) in entries(schema, "properties") {
        let is_head = (is_root || is_true(schema, "x-kubernetes-embedded-resource")) && HEAD.contains(&name.as_str());
        let reason = (is_head && is_root).then(|| format!("in top-level {name}"));
        let forbids_defaults = reason.or_else(|| place.forbids_defaults.clone());
        let place = Place { is_in_head: place.is_in_head || is_head, forbids_defaults, ..place.clone() };
        check(property, &at.key(name), &place, report, refused);
    }
    if let Some(condition) = part(schema, "not") {
        check(condition, &path.field("not"), place, report, refused);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let at_name = path.field(name);
        for (at, condition) in list(schema, name).iter().enumerate() {
            check(condition, &at_name.item(at), place, report, refused);
        }
    }
    let at = path.field("definitions");
    for (name, definition) in entries(schema, "definitions") {
        check(definition, &at.key(name), place, report, refused);
    }
    let at_items = path.field("items");
    if let Some(items) = part(schema, "items") {
        check(items, &at_items, place, report, refused);
    }
    for (at, items) in list(schema, "items").iter().enumerate() {
        check(items, &at_items.item(at), place, report, refused);
    }
    let at = path.field("dependencies");
    for (name, dependency) in entries(schema, "dependencies").filter(|(_, dependency)| dependency.is_object()) {
        check(dependency, &at.key(name), place, report, refused);
    }
}

fn unsupported(path: &Path<'_>, value: &str, known: &[&str], report: &mut Report) {
    let known: Vec<_> = known.iter().map(|known| format!("{known:?}")).collect();
    report.add(path, Reason::Unsupported, format!("{value:?}: supported values: {}", known.join(", ")));
}

/// Checks that a part with a keyword has the type that the keyword is for.
fn check_type_of(schema: &Value, keyword: &str, of_type: &str, path: &Path<'_>, report: &mut Report) {
    if given(schema, keyword).is_none() || text(schema, "type") == of_type {
        return;
    }
    let words = format!("must be {of_type} if {keyword} is specified");
    if text(schema, "type").is_empty() {
        report.require(&path.field("type"), &words);
    } else {
        report.invalid(&path.field("type"), &schema["type"], &words);
    }
}

fn check_values(schema: &Value, keyword: &str, known: &[&str], path: &Path<'_>, report: &mut Report) {
    if let Some(value) = schema[keyword].as_str().filter(|value| !known.contains(value)) {
        unsupported(&path.field(keyword), value, known, report);
    }
}

/// Checks that the items of a set are single values.
fn check_items_of_set(schema: &Value, path: &Path<'_>, report: &mut Report) {
    let Some(items) = part(schema, "items").filter(|_| schema["x-kubernetes-list-type"] == "set") else { return };
    let keyword = match text(items, "type") {
        _ if schema["type"] != "array" => return,
        "array" if given(items, "x-kubernetes-list-type").is_some() => "x-kubernetes-list-type",
        "object" => "x-kubernetes-map-type",
        _ => return,
    };
    if items[keyword] != "atomic" {
        let words = "must be atomic as item of a list with x-kubernetes-list-type=set";
        report.invalid(&path.field("items").field(keyword), &items["x-kubernetes-list-type"], words);
    }
}

/// Checks a list whose items are identified by their keys.
fn check_list_map(schema: &Value, path: &Path<'_>, report: &mut Report) {
    const TYPE: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let keys = list(schema, KEYS);
    let is_map = schema[TYPE] == "map";
    if !keys.is_empty() && !is_map {
        let words = "must be map if x-kubernetes-list-map-keys is non-empty";
        match given(schema, TYPE) {
            None => report.require(&path.field(TYPE), words),
            Some(other) => report.invalid(&path.field(TYPE), other, words),
        }
    }
    if !is_map {
        return;
    }
    if keys.is_empty() {
        report.require(&path.field(KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    let at = path.field("items");
    let Some(items) = part(schema, "items") else {
        return match given(schema, "items") {
            None => report.require(&at, "must have a schema if x-kubernetes-list-type is map"),
            Some(items) => {
                report.invalid(&at, items, "must only have a single schema if x-kubernetes-list-type is map")
            }
        };
    };
    if text(items, "type") != "object" {
        let words = "must be object if parent array's x-kubernetes-list-type is map";
        return report.invalid(&at.field("type"), &Value::from(text(items, "type")), words);
    }
    let at = at.field("properties");
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items["properties"].get(name) {
            Some(property) if ["array", "object"].contains(&text(property, "type")) => {
                let words = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                report.invalid(&at.key(name).field("type"), &items["type"], words);
            }
            Some(_) => {}
            None => report.invalid(&path.field(KEYS), &schema[KEYS], "entries must all be names of item properties"),
        }
        if keys[..index].contains(key) {
            report.invalid(&path.field(KEYS), &schema[KEYS], "must not contain duplicate entries");
        }
    }
}

/// Checks that the items of a list have identities.
fn check_identities(schema: &Value, path: &Path<'_>, report: &mut Report) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let Some(items) = part(schema, "items").filter(|_| ["set", "map"].contains(&list_type)) else { return };
    let at = path.field("items");
    if is_true(items, "nullable") {
        report.forbid(&at.field("nullable"), &format!("cannot be nullable when x-kubernetes-list-type is {list_type}"));
    }
    if list_type != "map" {
        return;
    }
    let at = at.field("properties");
    for key in list(schema, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items["properties"].get(name) else { continue };
        let path = at.key(name);
        if !list(items, "required").contains(key) && given(property, "default").is_none() {
            let words =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            report.require(&path.field("default"), words);
        }
        if is_true(property, "nullable") {
            let words = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            report.forbid(&path.field("nullable"), words);
        }
    }
}
