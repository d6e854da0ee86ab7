//! Rewrites a JSON Schema as `schemars` writes it into a structural schema.
//!
//! In a structural schema each value has one type, which is stated outside of `oneOf` and `anyOf`; there are no references.
//! Where a JSON Schema has no such form, the result accepts any value.

use serde_json::{Map, Value, json};

type Schema = Map<String, Value>;

/// Keywords that both forms share, and whose values hold no schema.
const SHARED: [&str; 16] = [
    "default",
    "description",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
];

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const LIST_TYPE: &str = "x-kubernetes-list-type";

/// Returns the structural form of a schema.
pub(super) fn of(source: &Value) -> Schema {
    let Value::Object(source) = source else {
        return anything();
    };
    let mut schema = shared(source);
    set_type(&mut schema, source);
    set_bounds(&mut schema, source);
    set_parts(&mut schema, source);
    for part in list(source, "allOf") {
        merge(&mut schema, of(part));
    }
    for keyword in ["oneOf", "anyOf"] {
        let variants = list(source, keyword);
        if !variants.is_empty() {
            set_variants(&mut schema, keyword, variants);
        }
    }
    finish(&mut schema);
    schema
}

/// Returns a schema that accepts every value.
fn anything() -> Schema {
    Schema::from_iter([(OPEN.to_owned(), true.into()), ("nullable".to_owned(), true.into())])
}

fn shared(source: &Schema) -> Schema {
    let is_shared = |name: &str| SHARED.contains(&name) || name.starts_with("x-kubernetes-");
    source.iter().filter(|(name, _)| is_shared(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn list<'a>(source: &'a Schema, keyword: &str) -> &'a [Value] {
    source.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets the type, and `nullable` for a value that may be `null`.
fn set_type(schema: &mut Schema, source: &Schema) {
    if let Some(only) = source.get("const") {
        schema.insert("enum".to_owned(), json!([only]));
    }
    let mut types: Vec<&str> = match source.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_null_only = types == ["null"];
    let before = types.len();
    types.retain(|name| *name != "null");
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let count = values.len();
        values.retain(|value| !value.is_null());
        if types.is_empty() && values.iter().all(Value::is_string) && !values.is_empty() {
            types.push("string");
        }
        if count != values.len() {
            schema.insert("nullable".to_owned(), true.into());
        }
    }
    if types.len() < before {
        schema.insert("nullable".to_owned(), true.into());
    }
    match types[..] {
        [] if is_null_only => drop(schema.insert(OPEN.to_owned(), true.into())),
        [] => {}
        [one] => drop(schema.insert("type".to_owned(), one.into())),
        ["integer", "string"] | ["string", "integer"] => drop(schema.insert(INT_OR_STRING.to_owned(), true.into())),
        ["integer", "number"] | ["number", "integer"] => drop(schema.insert("type".to_owned(), "number".into())),
        _ => drop(schema.insert(OPEN.to_owned(), true.into())),
    }
}

/// Sets the bounds of numbers in the form of OpenAPI, and replaces the formats that only Rust has.
fn set_bounds(schema: &mut Schema, source: &Schema) {
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(bound) = source.get(exclusive).filter(|bound| bound.is_number()) {
            schema.insert(inclusive.to_owned(), bound.clone());
            schema.insert(exclusive.to_owned(), true.into());
        }
    }
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return };
    let format = match format {
        "int8" | "int16" | "uint8" | "uint16" => "int32",
        "uint32" => {
            schema.entry("maximum").or_insert(u32::MAX.into());
            "int64"
        }
        "int" | "uint" | "uint64" => "int64",
        "int128" | "uint128" => {
            schema.remove("format");
            return;
        }
        _ => return,
    };
    schema.insert("format".to_owned(), format.into());
}

/// Sets the schemas of fields and items.
fn set_parts(schema: &mut Schema, source: &Schema) {
    if source.contains_key("$ref") {
        schema.extend(anything());
    }
    if let Some(Value::Object(properties)) = source.get("properties") {
        let properties: Schema = properties.iter().map(|(name, part)| (name.clone(), of(part).into())).collect();
        schema.insert("properties".to_owned(), properties.into());
    }
    // A type with several flattened parts has the second word.
    let further = source.get("additionalProperties").or_else(|| source.get("unevaluatedProperties"));
    let mut additional = match further {
        None | Some(Value::Bool(false)) => None,
        Some(part) => Some(of(part)),
    };
    if let Some(Value::Object(patterns)) = source.get("patternProperties") {
        additional = patterns.values().map(of).chain(additional).reduce(union);
    }
    if let Some(additional) = additional {
        schema.insert("additionalProperties".to_owned(), additional.into());
    }
    let items = list(source, "prefixItems").iter().chain(source.get("items").filter(|items| **items != false));
    if let Some(items) = items.map(of).reduce(union) {
        if source.get("uniqueItems") == Some(&true.into()) && is_scalar(&items) {
            schema.entry(LIST_TYPE).or_insert("set".into());
        }
        schema.insert("items".to_owned(), items.into());
    }
}

/// Merges the alternatives of `oneOf` or `anyOf` into one shape, beside which the keyword only has conditions.
fn set_variants(schema: &mut Schema, keyword: &str, variants: &[Value]) {
    let is_empty = |variant: &Value| variant.as_object().is_some_and(Map::is_empty);
    let is_null = |variant: &Value| variant["type"] == "null" || variant.get("const").is_some_and(Value::is_null);
    if variants.iter().any(is_null) {
        schema.insert("nullable".to_owned(), true.into());
    }
    // An empty variant stands for the absence of all the others.
    let is_optional = variants.iter().any(is_empty);
    let shapes: Vec<Schema> =
        variants.iter().filter(|variant| !is_empty(variant) && !is_null(variant)).map(of).collect();
    let conditions: Option<Vec<Value>> = shapes.iter().map(condition).collect();
    let several = shapes.len() > 1;
    let Some(mut shape) = shapes.into_iter().reduce(union) else { return };
    if is_optional {
        for condition in ["required", "oneOf", "anyOf"] {
            shape.remove(condition);
        }
    }
    merge(schema, shape);
    if let Some(conditions) = conditions.filter(|_| several && !is_optional) {
        schema.insert(keyword.to_owned(), conditions.into());
    }
}

/// Returns what tells an object from the other variants: its required fields, and the values of its tags.
fn condition(shape: &Schema) -> Option<Value> {
    let required = list(shape, "required");
    if shape.get("type")? != "object" || required.is_empty() {
        return None;
    }
    let tags = required.iter().filter_map(Value::as_str).filter_map(|name| {
        let values = shape.get("properties")?.get(name)?.get("enum")?;
        Some((name.to_owned(), json!({ "enum": values })))
    });
    let tags: Schema = tags.collect();
    let mut condition = json!({ "required": required });
    if !tags.is_empty() {
        condition["properties"] = tags.into();
    }
    Some(condition)
}

/// Adds another shape of the same value. Keywords that are already there stay.
fn merge(schema: &mut Schema, other: Schema) {
    for (name, value) in other {
        match schema.get_mut(&name) {
            Some(there) => merge_keyword(&name, there, value),
            None => drop(schema.insert(name, value)),
        }
    }
}

fn merge_keyword(name: &str, there: &mut Value, more: Value) {
    match (name, there, more) {
        ("properties", Value::Object(there), Value::Object(more)) => {
            for (name, part) in more {
                there.entry(name).or_insert(part);
            }
        }
        ("required", Value::Array(there), Value::Array(more)) => {
            for name in more {
                if !there.contains(&name) {
                    there.push(name);
                }
            }
        }
        _ => {}
    }
}

/// Returns a shape that accepts what one of two shapes accepts, or more.
fn union(one: Schema, other: Schema) -> Schema {
    if one == other {
        return one;
    }
    let is_nullable = [&one, &other].iter().any(|schema| schema.get("nullable").is_some_and(|flag| *flag == true));
    let is_common = |(name, value): &(&String, &Value)| other.get(*name) == Some(*value);
    let common = one.iter().filter(is_common);
    let mut both: Schema = common.map(|(name, value)| (name.clone(), value.clone())).collect();
    let types = [type_of(&one), type_of(&other)];
    match types {
        [Some("object"), Some("object")] => unite_objects(&mut both, &one, &other),
        [Some("array"), Some("array")] => {
            let items = |schema: &Schema| schema.get("items").map_or_else(anything, of_structural);
            both.insert("items".to_owned(), union(items(&one), items(&other)).into());
        }
        [Some(left), Some(right)] if left == right => {
            let (values, others) = (list(&one, "enum"), list(&other, "enum"));
            if !values.is_empty() && !others.is_empty() {
                let more = others.iter().filter(|value| !values.contains(value));
                both.insert("enum".to_owned(), values.iter().chain(more).cloned().collect());
            }
        }
        [Some("integer"), Some("number")] | [Some("number"), Some("integer")] => {
            both.insert("type".to_owned(), "number".into());
        }
        [Some("integer" | INT_OR_STRING), Some("string" | INT_OR_STRING)]
        | [Some("string" | INT_OR_STRING), Some("integer" | INT_OR_STRING)] => {
            both.insert(INT_OR_STRING.to_owned(), true.into());
        }
        _ => return anything(),
    }
    if is_nullable {
        both.insert("nullable".to_owned(), true.into());
    }
    both
}

fn unite_objects(both: &mut Schema, one: &Schema, other: &Schema) {
    let fields = |schema: &Schema| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut properties = fields(one);
    for (name, part) in fields(other) {
        let part = match properties.remove(&name) {
            Some(there) => union(of_structural(&there), of_structural(&part)).into(),
            None => part,
        };
        properties.insert(name, part);
    }
    if !properties.is_empty() {
        both.insert("properties".to_owned(), properties.into());
    }
    let required: Vec<Value> =
        list(one, "required").iter().filter(|name| list(other, "required").contains(name)).cloned().collect();
    both.remove("required");
    if !required.is_empty() {
        both.insert("required".to_owned(), required.into());
    }
    let is_map =
        [one, other].iter().any(|schema| schema.contains_key("additionalProperties") || schema.contains_key(OPEN));
    if is_map && !both.contains_key("additionalProperties") {
        both.insert(OPEN.to_owned(), true.into());
    }
}

fn of_structural(schema: &Value) -> Schema {
    schema.as_object().cloned().unwrap_or_else(anything)
}

/// Returns the type of a structural schema; `None` for any type.
fn type_of(schema: &Schema) -> Option<&str> {
    let named = schema.get("type").and_then(Value::as_str);
    named.or_else(|| schema.contains_key(INT_OR_STRING).then_some(INT_OR_STRING))
}

fn is_scalar(schema: &Schema) -> bool {
    matches!(type_of(schema), Some("string" | "integer" | "number" | "boolean"))
}

/// Makes the keywords of a schema agree with each other.
fn finish(schema: &mut Schema) {
    if type_of(schema).is_none() && !schema.contains_key(OPEN) {
        let has = |name| schema.contains_key(name);
        let shape = match (has("properties") || has("additionalProperties"), has("items")) {
            (true, _) => Some("object"),
            (false, true) => Some("array"),
            (false, false) => None,
        };
        match shape {
            Some(shape) => drop(schema.insert("type".to_owned(), shape.into())),
            None => schema.extend(anything()),
        }
    }
    if type_of(schema).is_none() {
        schema.retain(|name, _| matches!(name.as_str(), OPEN | "nullable" | "description" | "default"));
    }
    if schema.contains_key("properties") && schema.remove("additionalProperties").is_some() {
        schema.insert(OPEN.to_owned(), true.into());
    }
    if type_of(schema) == Some("array") && !schema.contains_key("items") {
        schema.insert("items".to_owned(), anything().into());
    }
    if schema.get("required").is_some_and(|required| *required == json!([])) {
        schema.remove("required");
    }
    if let Some(default) =
        schema.remove("default").map(crate::merge::without_nulls).filter(|default| !default.is_null())
    {
        schema.insert("default".to_owned(), default);
    }
}
