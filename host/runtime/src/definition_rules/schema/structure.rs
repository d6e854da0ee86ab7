//! Whether a schema is structural: its shape is defined apart from `allOf`, `anyOf`, `oneOf` and `not`, with a type at every
//! level.

use homeostat_cel::Pattern;
use homeostat_store::schema::{Path, Violation};
use serde_json::Value;

use super::{Report, entries, given, has_entries, is_true, list, part, text};

/// Keywords with several schemas.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Keywords that are pointers or lists in Go: an empty one is not absent.
const POINTERS: [&str; 18] = [
    "additionalProperties",
    "example",
    "externalDocs",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "required",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Returns why Kubernetes cannot convert a schema to its structural form; `None` if it can.
pub(super) fn conversion_fault(schema: &Value) -> Option<String> {
    let is_there = |name: &str| match name {
        "id" | "$schema" | "$ref" => !text(schema, name).is_empty(),
        "additionalItems" => given(schema, name).is_some(),
        _ => has_entries(schema, name),
    };
    let unsupported = ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    if let Some(name) = unsupported.iter().find(|name| is_there(name)) {
        return Some(format!(
            "OpenAPIV3Schema '{}' is not supported",
            if *name == "$schema" { "schema" } else { name }
        ));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
    }
    if !list(schema, "items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let parts = ["items", "additionalProperties", "not"].into_iter().filter_map(|name| part(schema, name));
    let parts = parts.chain(entries(schema, "properties").map(|(_, part)| part));
    let mut parts = parts.chain(LISTS.into_iter().flat_map(|name| list(schema, name)));
    parts.find_map(conversion_fault)
}

/// Returns the violations of a schema that is not structural, sorted by their texts.
pub(super) fn violations(schema: &Value, root: &Path<'_>) -> Vec<Violation> {
    let mut report = Report::default();
    check_shape(schema, Level::Root, root, &mut report);
    check_conditions_are_complete(schema, Some(schema), (root, root), &mut report);
    report.found.sort_by_key(Violation::to_string);
    report.found
}

/// Where a part of the shape is.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

fn check_shape(schema: &Value, level: Level, path: &Path<'_>, report: &mut Report) {
    if report.is_full() {
        return;
    }
    if schema["type"] == "array" && part(schema, "items").is_none() {
        report.require(&path.field("items"), "must be specified");
    }
    if let Some(items) = part(schema, "items") {
        check_shape(items, Level::Item, &path.field("items"), report);
    }
    let properties = path.field("properties");
    for (name, property) in entries(schema, "properties") {
        check_shape(property, Level::Field, &properties.key(name), report);
    }
    let additional = path.field("additionalProperties");
    if given(schema, "additionalProperties").is_some() && level == Level::Root {
        report.forbid(&additional, "must not be used at the root");
    }
    if let Some(values) = part(schema, "additionalProperties") {
        check_shape(values, Level::Field, &additional, report);
    }
    check_integer_or_string(schema, path, report);
    check_conditions(schema, is_either(list(schema, "anyOf")), first_is_either(schema), path, report);
    check_type(schema, level, path, report);
    check_resource(schema, level, path, report);
}

fn check_integer_or_string(schema: &Value, path: &Path<'_>, report: &mut Report) {
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if is_true(schema, "x-kubernetes-int-or-string") && is_true(schema, name) {
            report.invalid(&path.field(name), &schema[name], "must be false if x-kubernetes-int-or-string is true");
        }
    }
}

fn check_type(schema: &Value, level: Level, path: &Path<'_>, report: &mut Report) {
    let (of_type, at) = (text(schema, "type"), path.field("type"));
    let has_none =
        !is_true(schema, "x-kubernetes-int-or-string") && !is_true(schema, "x-kubernetes-preserve-unknown-fields");
    if is_true(schema, "x-kubernetes-embedded-resource") && of_type != "object" {
        let words = "must be object if x-kubernetes-embedded-resource is true";
        if of_type.is_empty() {
            report.require(&at, words);
        } else {
            report.invalid(&at, &schema["type"], words);
        }
    } else if of_type.is_empty() && has_none {
        report.require(
            &at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if level == Level::Root && !of_type.is_empty() && of_type != "object" {
        report.invalid(&at, &schema["type"], "must be object at the root");
    }
}

/// Checks what a schema says of the fields that every resource has.
fn check_resource(schema: &Value, level: Level, path: &Path<'_>, report: &mut Report) {
    let is_embedded = is_true(schema, "x-kubernetes-embedded-resource");
    let is_resource = level == Level::Root || is_embedded;
    if is_embedded && given(schema, "additionalProperties").is_some() {
        report.forbid(&path.field("additionalProperties"), "must not be used if x-kubernetes-embedded-resource is set");
    }
    let properties = path.field("properties");
    for (name, of_type) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(property) = schema["properties"].get(name).filter(|_| is_resource)
            && text(property, "type") != of_type
        {
            let written = Value::from(text(property, "type"));
            report.invalid(&properties.key(name).field("type"), &written, &format!("must be {of_type}"));
        }
    }
    let metadata = schema["properties"].get("metadata").filter(|_| level == Level::Root);
    if metadata.is_some_and(|metadata| !is_plain(metadata)) {
        report.forbid(
            &properties.key("metadata"),
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        );
    }
    let keeps_unknown = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    if is_embedded && !keeps_unknown && !has_entries(schema, "properties") {
        report.require(
            &properties,
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

/// Returns whether a schema of metadata has no keyword but the type, a default, and the properties `name` and
/// `generateName`.
fn is_plain(metadata: &Value) -> bool {
    metadata.as_object().into_iter().flatten().all(|(name, value)| match name.as_str() {
        "properties" => entries(metadata, name).all(|(name, _)| ["name", "generateName"].contains(&name.as_str())),
        "enum" | "allOf" | "anyOf" | "oneOf" | "x-kubernetes-validations" => list(metadata, name).is_empty(),
        "format" | "pattern" | "title" | "description" => text(metadata, name).is_empty(),
        "nullable"
        | "exclusiveMaximum"
        | "exclusiveMinimum"
        | "uniqueItems"
        | "x-kubernetes-embedded-resource"
        | "x-kubernetes-int-or-string"
        | "x-kubernetes-preserve-unknown-fields" => *value != true,
        _ => value.is_null() || !POINTERS.contains(&name.as_str()),
    })
}

/// Returns whether conditions are exactly those of an integer or a string. Kubernetes allows them to have types.
fn is_either(conditions: &[Value]) -> bool {
    let is_empty = |value: &Value| value.is_null() || *value == false || *value == "";
    let is_only = |condition: &Value, of_type: &str| {
        let mut fields = condition.as_object().into_iter().flatten();
        condition["type"] == of_type && fields.all(|(name, value)| name == "type" || is_empty(value))
    };
    matches!(conditions, [integer, string] if is_only(integer, "integer") && is_only(string, "string"))
}

/// Returns whether the first schema of `allOf` has exactly those conditions.
fn first_is_either(schema: &Value) -> bool {
    list(schema, "allOf").first().is_some_and(|first| is_either(list(first, "anyOf")))
}

/// Checks the conditions of a part, which has them allowed where `is_either`, or in the first schema of `allOf`.
fn check_conditions(schema: &Value, is_either: bool, first_is_either: bool, path: &Path<'_>, report: &mut Report) {
    for name in ["anyOf", "allOf", "oneOf"] {
        let at_name = path.field(name);
        for (at, condition) in list(schema, name).iter().enumerate().filter(|_| name != "anyOf" || !is_either) {
            let is_first = name == "allOf" && at == 0 && first_is_either;
            check_condition(condition, is_first, &at_name.item(at), report);
        }
    }
    if let Some(condition) = part(schema, "not") {
        check_condition(condition, false, &path.field("not"), report);
    }
    let pattern = text(schema, "pattern");
    if let Some(Err(fault)) = Some(pattern).filter(|pattern| !pattern.is_empty()).map(Pattern::new) {
        let words = format!("must be a valid regular expression, but isn't: {fault}");
        report.invalid(&path.field("pattern"), &schema["pattern"], &words);
    }
}

/// Checks that a condition does not define a shape.
fn check_condition(schema: &Value, is_either: bool, path: &Path<'_>, report: &mut Report) {
    if report.is_full() {
        return;
    }
    check_conditions(schema, is_either, false, path, report);
    if let Some(items) = part(schema, "items") {
        check_condition(items, false, &path.field("items"), report);
    }
    let properties = path.field("properties");
    for (name, property) in entries(schema, "properties") {
        check_condition(property, false, &properties.key(name), report);
    }
    let mut forbid = |is_there: bool, name: &str, words: &str| {
        if is_there {
            report.forbid(&path.field(name), words);
        }
    };
    let has_values = given(schema, "additionalProperties").is_some_and(|values| *values != false);
    forbid(!text(schema, "type").is_empty(), "type", "must be empty to be structural");
    forbid(has_values, "additionalProperties", "must be undefined to be structural");
    forbid(given(schema, "default").is_some(), "default", "must be undefined to be structural");
    for name in ["title", "description"] {
        forbid(!text(schema, name).is_empty(), name, "must be empty to be structural");
    }
    for name in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(is_true(schema, name), name, "must be false to be structural");
    }
    for name in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        forbid(has_entries(schema, name), name, "must be empty to be structural");
    }
    for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        forbid(given(schema, name).is_some(), name, "must be undefined to be structural");
    }
    if schema["properties"].get("metadata").is_some() {
        report.forbid(&properties.key("metadata"), "must not be specified in a nested context");
    }
}

/// Checks that the conditions of the root are about parts that the shape has. Kubernetes does not check the conditions of
/// other parts.
fn check_conditions_are_complete(
    condition: &Value,
    shape: Option<&Value>,
    (shape_path, path): (&Path<'_>, &Path<'_>),
    report: &mut Report,
) {
    if report.is_full() {
        return;
    }
    let Some(shape) = shape else {
        return report.require(shape_path, &format!("because it is defined in {path}"));
    };
    if let Some(condition) = part(condition, "not") {
        let path = path.field("not");
        check_condition_is_complete(condition, shape, (shape_path, &path), report);
    }
    for name in LISTS {
        let path = path.field(name);
        for (at, condition) in list(condition, name).iter().enumerate() {
            check_condition_is_complete(condition, shape, (shape_path, &path.item(at)), report);
        }
    }
}

fn check_condition_is_complete(
    condition: &Value,
    shape: &Value,
    (shape_path, path): (&Path<'_>, &Path<'_>),
    report: &mut Report,
) {
    check_conditions_are_complete(condition, Some(shape), (shape_path, path), report);
    if let Some(items) = part(condition, "items") {
        let paths = (&shape_path.field("items"), &path.field("items"));
        check_below(items, part(shape, "items"), paths, report);
    }
    let (shape_properties, properties) = (shape_path.field("properties"), path.field("properties"));
    for (name, property) in entries(condition, "properties") {
        let paths = (&shape_properties.key(name), &properties.key(name));
        check_below(property, shape["properties"].get(name), paths, report);
    }
}

fn check_below(
    condition: &Value,
    shape: Option<&Value>,
    (shape_path, path): (&Path<'_>, &Path<'_>),
    report: &mut Report,
) {
    match shape {
        Some(shape) => check_condition_is_complete(condition, shape, (shape_path, path), report),
        None => report.require(shape_path, &format!("because it is defined in {path}")),
    }
}
