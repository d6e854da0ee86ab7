//! Parses a schema, and refuses one that is not structural.
//!
//! In a structural schema, only `properties`, `additionalProperties` and `items` define the shape of
//! documents, with a type at every level. `allOf`, `anyOf`, `oneOf` and `not` only constrain values whose
//! shape is already defined. Source: Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_cel::Pattern;
use serde_json::{Number, Value};

use super::check::check;
use super::defaults;
use super::format::Format;
use super::limits::{Bound, Constraints};
use super::prune::prune;
use super::{ListType, Schema, TypedField, ValueType, rules};
use crate::fields::FieldReader;
use crate::path::Path;
use crate::{DOCUMENT_BYTES_MAX, Error, Result, numbers, validate};

/// Distinct patterns in one schema.
const PATTERNS_MAX: usize = 256;
/// Total size of the defaults in one schema, with their nested defaults. A nested default is validated once
/// per level.
const DEFAULTS_BYTES_MAX: u64 = 4 * DOCUMENT_BYTES_MAX;

/// Keywords that define the shape, and so cannot be ignored.
const FORBIDDEN: [&str; 6] =
    ["$ref", "additionalItems", "definitions", "dependencies", "patternProperties", "unevaluatedProperties"];

/// Keywords that are not allowed below `allOf`, `anyOf`, `oneOf` and `not`.
const SHAPE: [&str; 10] = [
    "additionalProperties",
    "default",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Parses a whole schema.
pub(super) fn parse(source: &Value) -> Result<Schema> {
    const ROOT: &str = "openAPIV3Schema";
    validate::size(ROOT, source)?;
    let path = Path::ROOT.field(ROOT);
    let mut schema = Parser::default().schema(source, &path, true)?;
    rules::parse(&mut schema, source, &path)?;
    schema.source = Some(Arc::new(source.clone()));
    Ok(schema)
}

/// Parses the schema of a built-in kind.
pub(super) fn parse_built_in(source: &Value) -> Result<Schema> {
    Parser { is_built_in: true, ..Parser::default() }.schema(source, &Path::ROOT, true)
}

/// State shared by all parts of one schema. The number of parts is bounded by the size of the source.
#[derive(Default)]
struct Parser {
    patterns: BTreeMap<String, Pattern>,
    defaults_bytes: u64,
    /// Whether the schema is that of a built-in kind: it is trusted, and has further keywords.
    is_built_in: bool,
}

impl Parser {
    fn schema(&mut self, source: &Value, path: &Path<'_>, is_root: bool) -> Result<Schema> {
        let fields = FieldReader::of(source, *path)?;
        refuse(&fields, &FORBIDDEN, "is not supported")?;
        let mut schema = Schema {
            value_type: value_type(&fields)?,
            nullable: fields.flag("nullable")?,
            list: list_type(&fields)?,
            atomic_map: map_type(&fields)?,
            open: fields.flag("x-kubernetes-preserve-unknown-fields")?,
            embedded: fields.flag("x-kubernetes-embedded-resource")?,
            ..Schema::default()
        };
        if self.is_built_in {
            schema.typed = Some(Box::new(typed_field(&fields)?));
            if fields.flag("x-homeostat-quantity")? {
                schema.value_type = Some(ValueType::Quantity);
            }
        }
        types_agree(&schema, &fields, is_root)?;
        self.parts(&mut schema, &fields, is_root)?;
        keys_are_fields(&schema, &fields)?;
        schema.limits = self.limits(&fields, &schema)?;
        self.set_default(&mut schema, &fields)?;
        Ok(schema)
    }

    /// Parses the nested schemas.
    fn parts(&mut self, schema: &mut Schema, fields: &FieldReader<'_>, is_root: bool) -> Result<()> {
        let path = fields.path().field("properties");
        for (name, source) in fields.entries("properties")? {
            let property = self.schema(source, &path.key(name), false)?;
            if name == "metadata" && (is_root || schema.embedded) {
                metadata_is_plain(&property, &path.key(name))?;
            }
            schema.properties.insert(name.clone(), property);
        }
        schema.additional = match fields.get("additionalProperties") {
            None | Some(Value::Bool(false)) => None,
            Some(_) if is_root => return Err(fields.error("additionalProperties", "must not be used at the root")),
            Some(_) if !schema.properties.is_empty() => {
                return Err(fields.error("additionalProperties", "must not be used beside properties"));
            }
            Some(Value::Bool(true)) => Some(Box::new(Schema::anything())),
            Some(source) => Some(Box::new(self.schema(source, &fields.path().field("additionalProperties"), false)?)),
        };
        schema.items = match fields.get("items") {
            Some(source) => Some(Box::new(self.schema(source, &fields.path().field("items"), false)?)),
            None if schema.value_type == Some(ValueType::Array) => {
                return Err(fields.error("items", "must not be empty for a list"));
            }
            None => None,
        };
        Ok(())
    }

    /// Parses a schema below `allOf`, `anyOf`, `oneOf` or `not`. It constrains `about`, which defines the
    /// shape.
    fn condition(&mut self, source: &Value, path: &Path<'_>, about: &Schema) -> Result<Schema> {
        let fields = FieldReader::of(source, *path)?;
        refuse(&fields, &FORBIDDEN, "is not supported")?;
        refuse(&fields, &SHAPE, "must not be used inside of allOf, anyOf, oneOf and not")?;
        let value_type = value_type(&fields)?;
        if value_type.is_some() && about.value_type != Some(ValueType::IntegerOrString) {
            return Err(fields.error("type", "must not be used inside of allOf, anyOf, oneOf and not"));
        }
        let mut schema = Schema { value_type, ..Schema::default() };
        let unknown = "must be defined outside of allOf, anyOf, oneOf and not, too";
        let properties = path.field("properties");
        for (name, source) in fields.entries("properties")? {
            let path = properties.key(name);
            let about = about.field(name).ok_or_else(|| Error::invalid(path.to_string(), unknown))?;
            schema.properties.insert(name.clone(), self.condition(source, &path, about)?);
        }
        if let Some(source) = fields.get("items") {
            let about = about.items().ok_or_else(|| fields.error("items", unknown))?;
            schema.items = Some(Box::new(self.condition(source, &path.field("items"), about)?));
        }
        schema.limits = self.limits(&fields, about)?;
        Ok(schema)
    }

    fn limits(&mut self, fields: &FieldReader<'_>, about: &Schema) -> Result<Option<Box<Constraints>>> {
        let of_type = value_type(fields)?;
        let format = fields.text("format")?.and_then(Format::named);
        let limits = Constraints {
            values: fields.list("enum")?.to_vec(),
            format: format.filter(|format| format.suits(of_type)),
            minimum: bound(fields, "minimum", "exclusiveMinimum")?,
            maximum: bound(fields, "maximum", "exclusiveMaximum")?,
            multiple_of: multiple_of(fields)?,
            length_min: fields.count("minLength")?,
            length_max: fields.count("maxLength")?,
            pattern: fields.text("pattern")?.map(|text| self.pattern(fields, text)).transpose()?,
            items_min: fields.count("minItems")?,
            items_max: fields.count("maxItems")?,
            unique_items: fields.flag("uniqueItems")?,
            properties_min: fields.count("minProperties")?,
            properties_max: fields.count("maxProperties")?,
            required: fields.texts("required")?,
            all_of: self.conditions(fields, "allOf", about)?,
            any_of: self.conditions(fields, "anyOf", about)?,
            one_of: self.conditions(fields, "oneOf", about)?,
            not: match fields.get("not") {
                Some(source) => Some(Box::new(self.condition(source, &fields.path().field("not"), about)?)),
                None => None,
            },
        };
        Ok(Some(limits).filter(|limits| *limits != Constraints::default()).map(Box::new))
    }

    fn conditions(&mut self, fields: &FieldReader<'_>, name: &str, about: &Schema) -> Result<Vec<Schema>> {
        let path = fields.path().field(name);
        let sources = fields.list(name)?.iter().enumerate();
        sources.map(|(at, source)| self.condition(source, &path.item(at), about)).collect()
    }

    /// Sets the default, if it is valid by the schema itself.
    fn set_default(&mut self, schema: &mut Schema, fields: &FieldReader<'_>) -> Result<()> {
        let Some(default) = fields.get_even_null("default") else { return Ok(()) };
        if default.is_null() {
            if !schema.nullable {
                return Err(fields.error("default", "must not be null, unless nullable is true"));
            }
            schema.default = Some(Value::Null);
            return Ok(());
        }
        if self.is_built_in {
            schema.default = Some(default.clone());
            return Ok(());
        }
        let path = fields.path().field("default");
        let mut filled = default.clone();
        if let Some(unknown) = prune(schema, &mut filled, &path, schema.embedded).first() {
            return Err(Error::invalid(unknown, "is a field that the schema does not know"));
        }
        defaults::set(schema, &mut filled, schema.embedded)?;
        self.defaults_bytes += validate::bytes(&filled);
        if self.defaults_bytes > DEFAULTS_BYTES_MAX {
            let (bytes, bytes_max) = (self.defaults_bytes, DEFAULTS_BYTES_MAX);
            return Err(Error::TooLarge { what: "the set of defaults in the schema".to_owned(), bytes, bytes_max });
        }
        if let Some(violation) = check(schema, &filled, &path).first() {
            return Err(Error::invalid(&violation.path, violation.message()));
        }
        let mut default = default.clone();
        numbers::normalize(&mut default);
        schema.default = Some(default);
        Ok(())
    }

    fn pattern(&mut self, fields: &FieldReader<'_>, text: &str) -> Result<Pattern> {
        if let Some(known) = self.patterns.get(text) {
            return Ok(known.clone());
        }
        if self.patterns.len() == PATTERNS_MAX {
            let reason = format!("the schema has more than {PATTERNS_MAX} different patterns");
            return Err(fields.error("pattern", reason));
        }
        let pattern = Pattern::new(text).map_err(|reason| fields.error("pattern", reason))?;
        self.patterns.insert(text.to_owned(), pattern.clone());
        Ok(pattern)
    }
}

/// Reads what the type of Go says of a field.
fn typed_field(fields: &FieldReader<'_>) -> Result<TypedField> {
    let strategy = fields.text("x-kubernetes-patch-strategy")?.unwrap_or_default();
    let merges = strategy.split(',').any(|word| word == "merge");
    let merge_key = fields.text("x-kubernetes-patch-merge-key")?.filter(|_| merges).map(str::to_owned);
    let omit_empty = fields.flag("x-homeostat-omit-empty")?;
    let always_present = fields.flag("x-homeostat-always-present")?;
    Ok(TypedField { omit_empty, always_present, merges: merges && merge_key.is_none(), merge_key })
}

fn refuse(fields: &FieldReader<'_>, names: &[&str], reason: &str) -> Result<()> {
    names.iter().find(|name| fields.get(name).is_some()).map_or(Ok(()), |name| Err(fields.error(name, reason)))
}

fn value_type(fields: &FieldReader<'_>) -> Result<Option<ValueType>> {
    let named = fields.text("type")?.filter(|name| !name.is_empty());
    if fields.flag("x-kubernetes-int-or-string")? {
        return match named {
            // Either type allows both, as in Kubernetes.
            None | Some("integer" | "string") => Ok(Some(ValueType::IntegerOrString)),
            Some(_) => Err(fields.error("type", "must be integer or string where x-kubernetes-int-or-string is true")),
        };
    }
    Ok(Some(match named {
        None => return Ok(None),
        Some("object") => ValueType::Object,
        Some("array") => ValueType::Array,
        Some("string") => ValueType::String,
        Some("integer") => ValueType::Integer,
        Some("number") => ValueType::Number,
        Some("boolean") => ValueType::Boolean,
        Some(other) => {
            let other = crate::path::shortened(other, 40);
            return Err(
                fields.error("type", format!("`{other}` is none of object, array, string, integer, number, boolean"))
            );
        }
    }))
}

/// Checks that the type is present, and consistent with the other keywords.
fn types_agree(schema: &Schema, fields: &FieldReader<'_>, is_root: bool) -> Result<()> {
    let is = |value_type| schema.value_type == Some(value_type);
    let must = |holds: bool, reason: &str| if holds { Ok(()) } else { Err(fields.error("type", reason)) };
    must(!is_root || is(ValueType::Object), "must be object at the root")?;
    must(schema.value_type.is_some() || schema.open, "must not be empty")?;
    must(!schema.embedded || is(ValueType::Object), "must be object where x-kubernetes-embedded-resource is true")?;
    must(schema.list == ListType::Atomic || is(ValueType::Array), "must be array where x-kubernetes-list-type is set")?;
    must(!schema.atomic_map || is(ValueType::Object), "must be object where x-kubernetes-map-type is set")?;
    let shaped = |name| fields.get(name).is_some();
    must(
        !shaped("properties") && !shaped("additionalProperties")
            || is(ValueType::Object)
            || schema.value_type.is_none(),
        "must be object where there are properties",
    )?;
    must(!shaped("items") || is(ValueType::Array) || schema.value_type.is_none(), "must be array where there are items")
}

fn list_type(fields: &FieldReader<'_>) -> Result<ListType> {
    let keys = fields.texts("x-kubernetes-list-map-keys")?;
    let named = fields.text("x-kubernetes-list-type")?;
    if !keys.is_empty() && named != Some("map") {
        return Err(fields.error("x-kubernetes-list-map-keys", "must be empty unless x-kubernetes-list-type is map"));
    }
    match named {
        None | Some("atomic") => Ok(ListType::Atomic),
        Some("set") => Ok(ListType::Set),
        Some("map") if keys.is_empty() => {
            Err(fields.error("x-kubernetes-list-map-keys", "must not be empty where x-kubernetes-list-type is map"))
        }
        Some("map") => Ok(ListType::Map(keys)),
        Some(_) => Err(fields.error("x-kubernetes-list-type", "must be atomic, set or map")),
    }
}

fn map_type(fields: &FieldReader<'_>) -> Result<bool> {
    match fields.text("x-kubernetes-map-type")? {
        None | Some("granular") => Ok(false),
        Some("atomic") => Ok(true),
        Some(_) => Err(fields.error("x-kubernetes-map-type", "must be atomic or granular")),
    }
}

/// Checks that the items of a list have its key fields.
fn keys_are_fields(schema: &Schema, fields: &FieldReader<'_>) -> Result<()> {
    let (ListType::Map(keys), Some(items)) = (&schema.list, &schema.items) else { return Ok(()) };
    match keys.iter().find(|key| !items.properties.contains_key(*key)) {
        Some(key) => {
            let key = crate::path::shortened(key, 40);
            Err(fields.error("x-kubernetes-list-map-keys", format!("`{key}` is not a property of the items")))
        }
        None => Ok(()),
    }
}

/// Checks that a schema restricts only the allowed fields of metadata: the host owns its shape.
fn metadata_is_plain(metadata: &Schema, path: &Path<'_>) -> Result<()> {
    if metadata.value_type != Some(ValueType::Object) {
        return Err(Error::invalid(path.field("type").to_string(), "must be object for metadata"));
    }
    match metadata.properties.keys().find(|name| !matches!(name.as_str(), "name" | "generateName")) {
        Some(name) => {
            let path = path.field("properties");
            Err(Error::invalid(path.key(name).to_string(), "only name and generateName can be restricted"))
        }
        None => Ok(()),
    }
}

fn bound(fields: &FieldReader<'_>, name: &str, exclusive: &str) -> Result<Option<Bound>> {
    let exclusive = fields.flag(exclusive)?;
    Ok(fields.number(name)?.map(|number| Bound { number: number.clone(), exclusive }))
}

fn multiple_of(fields: &FieldReader<'_>) -> Result<Option<Number>> {
    match fields.number("multipleOf")? {
        Some(of) if of.as_f64().is_none_or(|of| of <= 0.0) => Err(fields.error("multipleOf", "must be greater than 0")),
        of => Ok(of.cloned()),
    }
}
