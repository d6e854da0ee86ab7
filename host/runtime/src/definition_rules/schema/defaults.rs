//! The defaults in a schema: each must be valid by the schema of its field.

use homeostat_store::schema::{DefaultChecker, Path, Reason, Schema, Violation, type_name};
use serde_json::{Map, Value, json};

use super::keywords::{HEAD, TYPES};
use super::{Report, embedded, entries, given, is_true, part, shown, text};

/// Returns the violations of the defaults of a structural schema. Without its `parsed` form, neither their types nor their
/// constraints are checked.
pub(super) fn violations(schema: &Value, root: &Path<'_>, parsed: Option<&Schema>) -> Vec<Violation> {
    let mut walk = DefaultWalk { checker: DefaultChecker::default(), report: Report::default(), root };
    let place = Place { resource: schema, parents: ParentPath::Resource, is_in_head: false };
    walk.part(schema, parsed, root, place);
    walk.report.found
}

struct DefaultWalk<'a> {
    checker: DefaultChecker,
    report: Report,
    root: &'a Path<'a>,
}

/// Where a part is.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The schema of the innermost resource around the part.
    resource: &'a Value,
    parents: ParentPath<'a>,
    /// Whether the part belongs to the metadata, the kind or the version of that resource.
    is_in_head: bool,
}

/// The way from a resource to one of its parts.
#[derive(Clone, Copy)]
enum ParentPath<'a> {
    Resource,
    Field(&'a ParentPath<'a>, &'a str),
    Item(&'a ParentPath<'a>),
}

impl ParentPath<'_> {
    /// Returns a resource with a value at the end of the way.
    fn of(&self, value: Value) -> Value {
        match self {
            Self::Resource => {
                let mut resource = value;
                if let Some(fields) = resource.as_object_mut() {
                    fields.entry("kind").or_insert_with(|| "Validation".into());
                    fields.entry("apiVersion").or_insert_with(|| "validation/v1".into());
                }
                resource
            }
            Self::Field(outer, name) => outer.of(Map::from_iter([((*name).to_owned(), value)]).into()),
            Self::Item(outer) => outer.of(json!([value])),
        }
    }
}

impl DefaultWalk<'_> {
    fn part(&mut self, schema: &Value, parsed: Option<&Schema>, path: &Path<'_>, place: Place<'_>) {
        if self.report.is_full() {
            return;
        }
        let is_root = std::ptr::eq(path, self.root);
        let is_resource = is_root || is_true(schema, "x-kubernetes-embedded-resource");
        let place = if is_resource {
            Place { resource: schema, parents: ParentPath::Resource, is_in_head: false }
        } else {
            place
        };
        if let Some(default) = given(schema, "default") {
            self.default(default, (schema, parsed, is_resource), &path.field("default"), place);
        }
        if let Some(items) = part(schema, "items") {
            let place = Place { parents: ParentPath::Item(&place.parents), ..place };
            self.part(items, parsed.and_then(Schema::items), &path.field("items"), place);
        }
        let properties = path.field("properties");
        for (name, property) in entries(schema, "properties") {
            let is_head = is_resource && HEAD.contains(&name.as_str());
            let place = Place {
                parents: ParentPath::Field(&place.parents, name),
                is_in_head: place.is_in_head || is_head,
                ..place
            };
            self.part(property, parsed.and_then(|parsed| parsed.field(name)), &properties.key(name), place);
        }
    }

    fn default(
        &mut self,
        default: &Value,
        (schema, parsed, is_resource): (&Value, Option<&Schema>, bool),
        path: &Path<'_>,
        place: Place<'_>,
    ) {
        if place.is_in_head {
            let resource = place.parents.of(default.clone());
            if let Some(fault) = embedded::violations(&resource, place.resource, true, &Path::ROOT).first() {
                let detail = format!("{}: must result in valid metadata: {fault}", shown(default));
                return self.report.add(path, Reason::Invalid, detail);
            }
        } else {
            if has_unknown(default, Some(schema), is_resource) {
                self.report.invalid(path, default, "must not have unknown fields");
            }
            let faults = embedded::violations(default, schema, is_resource, path);
            if !faults.is_empty() {
                return self.report.extend(faults);
            }
        }
        if let Some(words) = type_fault(schema, default) {
            self.report.add(path, Reason::TypeInvalid, words);
        }
        for (name, _) in default.as_object().into_iter().flatten().filter(|_| schema["additionalProperties"] == false) {
            if schema["properties"].get(name).is_none() {
                let words = format!(".{name} in body is a forbidden property");
                self.report.invalid(path, &Value::from(name.as_str()), &words);
            }
        }
        if let Some(parsed) = parsed {
            self.report.extend(self.checker.check(parsed, default, path));
        }
    }
}

/// Returns the fault of a default whose type differs from the written type. It is about the types that the parsed form lacks:
/// the type of an integer or a string, and types that Kubernetes does not know.
fn type_fault(schema: &Value, default: &Value) -> Option<String> {
    let written = text(schema, "type");
    let found = type_name(default);
    let is_either = is_true(schema, "x-kubernetes-int-or-string");
    let is_parsed = written.is_empty() || (TYPES.contains(&written) && !is_either);
    let fits = found == written || (written == "number" && found == "integer");
    (!is_parsed && !fits).then(|| format!("{found:?}:  in body must be of type {written}: {found:?}"))
}

/// Returns whether a value has fields that its schema does not know, and that Kubernetes prunes.
fn has_unknown(value: &Value, schema: Option<&Value>, is_resource: bool) -> bool {
    let keeps_unknown = schema.is_some_and(|schema| is_true(schema, "x-kubernetes-preserve-unknown-fields"));
    let is_embedded = |part: &Value| is_true(part, "x-kubernetes-embedded-resource");
    match value {
        Value::Object(fields) => {
            let Some(schema) = schema else { return !fields.is_empty() };
            let is_head = |name: &str| is_resource && HEAD.contains(&name);
            let mut fields = fields.iter().filter(|(name, _)| !is_head(name));
            fields.any(|(name, value)| {
                if let Some(property) = schema["properties"].get(name) {
                    return has_unknown(value, Some(property), is_embedded(property));
                }
                match given(schema, "additionalProperties") {
                    // As in Kubernetes, a schema of true allows any keys, but no fields below them.
                    Some(values) => has_unknown(value, Some(values).filter(|of| of.is_object()), is_embedded(values)),
                    None => !keeps_unknown,
                }
            })
        }
        Value::Array(items) => {
            let part = schema.and_then(|schema| part(schema, "items"));
            if part.is_none() && keeps_unknown {
                return false;
            }
            items.iter().any(|item| has_unknown(item, part, part.is_some_and(is_embedded)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
