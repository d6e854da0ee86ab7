//! The rules of definitions: their defaults, and what they must hold when they are written, beyond what their kinds need. A
//! definition that was stored without them is served all the same.
//!
//! Source: `pkg/apis/apiextensions` of `k8s.io/apiextensions-apiserver`.

use homeostat_store::schema::{KindRules, Reason, Schema, Violation};
use homeostat_store::{Kind, Subresource};
use serde_json::{Map, Value, json};

/// The annotation that names the approval of a definition in a group of Kubernetes.
const APPROVAL: &str = "api-approved.kubernetes.io";
/// The formats of a printer column.
const COLUMN_FORMATS: [&str; 8] = ["int32", "int64", "float", "double", "byte", "date", "date-time", "password"];
/// The keywords at the root of a schema whose kind has the status subresource.
const ROOT_KEYWORDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Returns the schema of definitions: any fields, with these rules.
pub(crate) fn schema(_: &Kind) -> Option<Schema> {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Schema::parse_with_rules(&open, &DefinitionRules).ok()
}

struct DefinitionRules;

impl KindRules for DefinitionRules {
    fn set_defaults(&self, definition: &mut Value, _old: Option<&Value>) {
        let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
        let set = |fields: &mut Map<String, Value>, name: &str, value: Value| {
            if fields.get(name).is_none_or(|given| given.is_null() || given == "") {
                fields.insert(name.to_owned(), value);
            }
        };
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
            && let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned)
            && !kind.is_empty()
        {
            set(names, "singular", kind.to_lowercase().into());
            set(names, "listKind", format!("{kind}List").into());
        }
        set(spec, "conversion", json!({ "strategy": "None" }));
    }

    fn check(&self, definition: &Value, old: Option<&Value>, subresource: Option<Subresource>) -> Vec<Violation> {
        if subresource.is_some() {
            return Vec::new();
        }
        let mut violations = Vec::from_iter(unapproved(definition, old));
        let spec = &definition["spec"];
        if old.is_some_and(|old| old["spec"] == *spec) {
            return violations;
        }
        violations.extend(old.and_then(|old| other_scope(&spec["scope"], &old["spec"]["scope"])));
        if let Some(group) = spec["group"].as_str().filter(|group| !group.is_empty() && !group.contains('.')) {
            let detail = format!("{group:?}: should be a domain with at least one dot");
            violations.push(invalid("spec.group", detail));
        }
        for (at, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
            check_version(version, &format!("spec.versions[{at}]"), &mut violations);
        }
        violations
    }

    fn first_status(&self, _definition: &Value) -> Value {
        Value::Null
    }
}

fn violation(path: impl Into<String>, reason: Reason, detail: impl Into<String>) -> Violation {
    Violation { path: path.into(), reason, detail: detail.into() }
}

fn invalid(path: impl Into<String>, detail: impl Into<String>) -> Violation {
    violation(path, Reason::Invalid, detail)
}

/// What the annotation says of the approval of a definition.
#[derive(PartialEq)]
enum Approval {
    Missing,
    Given,
    Bypassed,
    Invalid,
}

impl Approval {
    fn of(definition: &Value) -> Self {
        match definition["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default() {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            text if has_host(text) => Self::Given,
            _ => Self::Invalid,
        }
    }
}

/// Returns whether a text is a URL with a scheme and a host.
fn has_host(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        !scheme.is_empty() && scheme.bytes().all(is_name) && !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
    })
}

/// Returns the violation of a definition in a group of Kubernetes that nobody approved. It may stay as it is.
fn unapproved(definition: &Value, old: Option<&Value>) -> Option<Violation> {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let is_in = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let approval = Approval::of(definition);
    if !(is_in("k8s.io") || is_in("kubernetes.io")) || old.is_some_and(|old| Approval::of(old) == approval) {
        return None;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    let needed = format!("groups of Kubernetes need the annotation {APPROVAL:?}");
    match approval {
        Approval::Given | Approval::Bypassed => None,
        Approval::Missing => Some(violation(path, Reason::Required, needed)),
        Approval::Invalid => {
            let given = &definition["metadata"]["annotations"][APPROVAL];
            let detail = format!("{given}: {needed} with a URL, or with a reason that begins with \"unapproved\"");
            Some(invalid(path, detail))
        }
    }
}

fn other_scope(new: &Value, old: &Value) -> Option<Violation> {
    (new != old).then(|| invalid("spec.scope", format!("{new}: field is immutable")))
}

fn check_version(version: &Value, path: &str, violations: &mut Vec<Violation>) {
    let (schema, below) = (&version["schema"]["openAPIV3Schema"], format!("{path}.schema.openAPIV3Schema"));
    if schema.is_null() {
        violations.push(violation(&below, Reason::Required, ""));
    }
    if version["subresources"]["status"].is_object() {
        check_root(schema, &below, violations);
    }
    if schema["nullable"] == true {
        violations.push(violation(
            format!("{below}.nullable"),
            Reason::Forbidden,
            "nullable cannot be true at the root",
        ));
    }
    check_keywords(schema, &below, violations);
    for (at, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        let format = column["format"].as_str().unwrap_or_default();
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("{format:?}: must be one of {}", COLUMN_FORMATS.join(","));
            violations.push(invalid(format!("{path}.additionalPrinterColumns[{at}].format"), detail));
        }
    }
    check_selectable_fields(version, path, violations);
}

/// Checks the root of a schema whose property `status` is used alone for the status.
fn check_root(schema: &Value, path: &str, violations: &mut Vec<Violation>) {
    let is_set = |value: &Value| !is_zero(value);
    let mut keywords = schema.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    let has_other_type = schema["type"].as_str().is_some_and(|of_type| !of_type.is_empty() && of_type != "object");
    if has_other_type {
        let detail = format!(
            "{}: only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
            schema["type"]
        );
        violations.push(invalid(format!("{path}.type"), detail));
    }
    if let Some((other, _)) = keywords.find(|(name, _)| !ROOT_KEYWORDS.contains(&name.as_str()) && *name != "nullable")
    {
        let detail = format!("{other:?}: not allowed at the root of the schema if the status subresource is enabled");
        violations.push(invalid(path, detail));
    }
}

/// Returns whether Go reads a value as that of an absent field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Checks the keywords of a schema and of all its parts. The depth of a document is bounded.
fn check_keywords(schema: &Value, path: &str, violations: &mut Vec<Violation>) {
    let Some(fields) = schema.as_object() else { return };
    let mut forbid = |name: &str, detail: &str| {
        violations.push(violation(format!("{path}.{name}"), Reason::Forbidden, detail));
    };
    if schema["uniqueItems"] == true {
        forbid("uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    if schema["id"].as_str().is_some_and(|id| !id.is_empty()) {
        forbid("id", "id is not supported");
    }
    for name in ["items", "additionalProperties", "not"] {
        if let Some(part) = fields.get(name) {
            check_keywords(part, &format!("{path}.{name}"), violations);
        }
    }
    for (name, part) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_keywords(part, &format!("{path}.properties[{name}]"), violations);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, part) in fields.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
            check_keywords(part, &format!("{path}.{name}[{at}]"), violations);
        }
    }
}

/// Checks that a schema has the fields by which a kind is selected, and that their values are scalars.
fn check_selectable_fields(version: &Value, path: &str, violations: &mut Vec<Violation>) {
    let mut known = Vec::new();
    for (at, field) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let text = field["jsonPath"].as_str().unwrap_or_default();
        let names: Vec<&str> = text.split('.').skip(1).collect();
        let fault = match part_of(&version["schema"]["openAPIV3Schema"], &names) {
            None => Some("is an invalid path: does not refer to a valid field"),
            Some(_) if names.first() == Some(&"metadata") => Some("must not point to fields in metadata"),
            Some(part) if !["string", "boolean", "integer"].iter().any(|scalar| part["type"] == *scalar) => {
                Some("must point to a field of type string, boolean or integer")
            }
            Some(_) => None,
        };
        let path = format!("{path}.selectableFields[{at}].jsonPath");
        match fault {
            Some(fault) => violations.push(invalid(path, format!("{text:?}: {fault}"))),
            None if known.contains(&text) => violations.push(violation(path, Reason::Duplicate, format!("{text:?}"))),
            None => known.push(text),
        }
    }
}

/// Returns the part of a schema that names lead to.
fn part_of<'s>(schema: &'s Value, names: &[&str]) -> Option<&'s Value> {
    names.iter().try_fold(schema, |part, name| match part.get("properties") {
        Some(properties) => properties.get(name),
        None => part.get("additionalProperties").filter(|part| part.is_object()),
    })
}

#[cfg(test)]
mod tests;
