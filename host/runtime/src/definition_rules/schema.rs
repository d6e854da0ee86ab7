//! What the schema of a definition must hold when the definition is written.
//!
//! The causes are those of Kubernetes: the same fields with the same reasons. One check hides another as there. The defaults
//! of a schema that is not structural are not checked, and rules in CEL are compiled only if the schema and its defaults are
//! valid.
//!
//! A keyword of the wrong type counts as absent: the parser of definitions refuses it.
//!
//! Source: `pkg/apis/apiextensions/validation` and `pkg/apiserver/schema` of `k8s.io/apiextensions-apiserver`.

mod defaults;
mod embedded;
mod keywords;
mod structure;

use homeostat_store::schema::{Draft, Path, Reason, VIOLATIONS_MAX, Violation};
use serde_json::{Map, Value};

/// The keywords at the root of a schema whose kind has the status subresource, in the order in which Kubernetes looks at
/// them. The flag says whether it allows them.
const ROOT_KEYWORDS: [(&str, bool); 44] = [
    ("id", false),
    ("$schema", false),
    ("$ref", false),
    ("description", true),
    ("type", true),
    ("nullable", false),
    ("format", true),
    ("title", true),
    ("default", false),
    ("maximum", true),
    ("exclusiveMaximum", true),
    ("minimum", true),
    ("exclusiveMinimum", true),
    ("maxLength", true),
    ("minLength", true),
    ("pattern", true),
    ("maxItems", true),
    ("minItems", true),
    ("uniqueItems", true),
    ("multipleOf", true),
    ("enum", false),
    ("maxProperties", false),
    ("minProperties", false),
    ("required", true),
    ("items", true),
    ("allOf", false),
    ("oneOf", false),
    ("anyOf", false),
    ("not", false),
    ("properties", true),
    ("additionalProperties", false),
    ("patternProperties", false),
    ("dependencies", false),
    ("additionalItems", false),
    ("definitions", false),
    ("externalDocs", true),
    ("example", true),
    ("x-kubernetes-preserve-unknown-fields", true),
    ("x-kubernetes-embedded-resource", false),
    ("x-kubernetes-int-or-string", false),
    ("x-kubernetes-list-map-keys", false),
    ("x-kubernetes-list-type", false),
    ("x-kubernetes-map-type", false),
    ("x-kubernetes-validations", true),
];
/// Characters of a value in a violation.
const VALUE_CHARS_MAX: usize = 1024;

/// Returns the first [`VIOLATIONS_MAX`] violations of the `openAPIV3Schema` at `path`. A schema that is absent has none.
pub(super) fn violations(schema: &Value, path: &str, has_status: bool) -> Vec<Violation> {
    let mut report = Report::default();
    if schema.is_null() {
        return report.found;
    }
    let root = Path::ROOT.field(path);
    if has_status {
        check_root_with_status(schema, &root, &mut report);
    }
    if is_true(schema, "nullable") {
        report.forbid(&root.field("nullable"), "nullable cannot be true at the root");
    }
    let fault = structure::conversion_fault(schema);
    let (keywords, refused) = keywords::violations(schema, &root, fault.is_some());
    let mut by_rules = Vec::new();
    if fault.is_none() {
        let structural = structure::violations(schema, &root);
        let is_structural = structural.is_empty();
        report.extend(structural);
        if is_structural {
            // A schema above a bound of the store has no draft. Its parser refuses it.
            let draft = Draft::parse(schema, path, &refused).ok();
            let by_defaults = defaults::violations(schema, &root, draft.as_ref().map(|draft| &draft.schema));
            let has_defaults = by_defaults.is_empty();
            report.extend(by_defaults);
            by_rules = draft.filter(|_| has_defaults).map(|draft| draft.rule_violations).unwrap_or_default();
        }
    }
    report.extend(keywords);
    report.extend(by_rules);
    if let Some(fault) = fault.filter(|_| report.found.is_empty()) {
        report.add(&root, Reason::Invalid, format!("\"\": {fault}"));
    }
    report.found
}

/// Checks the root of a schema whose property `status` is used alone for the status.
fn check_root_with_status(schema: &Value, root: &Path<'_>, report: &mut Report) {
    for (name, is_allowed) in ROOT_KEYWORDS {
        if is_zero(name, &schema[name]) {
            continue;
        }
        if name == "type" && schema[name] != "object" {
            let words =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return report.invalid(&root.field("type"), &schema[name], words);
        }
        if !is_allowed {
            let allowed: Vec<_> =
                ROOT_KEYWORDS.iter().filter(|(_, is_allowed)| *is_allowed).map(|(name, _)| *name).collect();
            let words = format!(
                "only {} fields are allowed at the root of the schema if the status subresource is enabled",
                allowed.join(", ")
            );
            return report.add(root, Reason::Invalid, format!("{name:?}: {words}"));
        }
    }
}

/// Returns whether Go reads the value of a keyword as that of an absent one.
fn is_zero(name: &str, value: &Value) -> bool {
    // A pointer to an empty value is not absent.
    const POINTERS: [&str; 8] = [
        "$ref",
        "additionalItems",
        "additionalProperties",
        "default",
        "example",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    ];
    match value {
        Value::Null => true,
        _ if POINTERS.contains(&name) => false,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// The violations so far, at most [`VIOLATIONS_MAX`].
#[derive(Default)]
struct Report {
    found: Vec<Violation>,
}

impl Report {
    fn is_full(&self) -> bool {
        self.found.len() >= VIOLATIONS_MAX
    }

    fn add(&mut self, path: &Path<'_>, reason: Reason, detail: impl Into<String>) {
        if !self.is_full() {
            self.found.push(Violation { path: path.to_string(), reason, detail: detail.into() });
        }
    }

    fn invalid(&mut self, path: &Path<'_>, value: &Value, words: &str) {
        self.add(path, Reason::Invalid, format!("{}: {words}", shown(value)));
    }

    fn forbid(&mut self, path: &Path<'_>, words: &str) {
        self.add(path, Reason::Forbidden, words);
    }

    fn require(&mut self, path: &Path<'_>, words: &str) {
        self.add(path, Reason::Required, words);
    }

    fn extend(&mut self, others: Vec<Violation>) {
        let room = VIOLATIONS_MAX.saturating_sub(self.found.len());
        self.found.extend(others.into_iter().take(room));
    }
}

/// Returns a value for display.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns a keyword with a text; empty for none.
fn text<'s>(schema: &'s Value, name: &str) -> &'s str {
    schema[name].as_str().unwrap_or_default()
}

fn is_true(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

/// Returns the value of a keyword that is not null.
fn given<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get(name).filter(|value| !value.is_null())
}

/// Returns a keyword that is a list, or has a list of schemas.
fn list<'s>(schema: &'s Value, name: &str) -> &'s [Value] {
    schema[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the entries of a keyword that is an object, by their names.
fn entries<'s>(schema: &'s Value, name: &str) -> impl Iterator<Item = (&'s String, &'s Value)> + use<'s> {
    schema[name].as_object().into_iter().flatten()
}

/// Returns whether a keyword is a list or an object with entries.
fn has_entries(schema: &Value, name: &str) -> bool {
    !list(schema, name).is_empty() || schema[name].as_object().is_some_and(|entries: &Map<_, _>| !entries.is_empty())
}

/// Returns a keyword that is a schema.
fn part<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get(name).filter(|part| part.is_object())
}

#[cfg(test)]
mod tests;
