//! Parses a schema, and refuses one that is not structural.
//!
//! In a structural schema, only `properties`, `additionalProperties` and `items` define the shape of
//! documents, with a type at every level. `allOf`, `anyOf`, `oneOf` and `not` only constrain values whose
//! shape is already defined. Source: Kubernetes.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use homeostat_cel::Pattern;
use serde_json::{Map, Value};

use super::check::check_default;
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

/// Keywords that define the shape, and so cannot be ignored. Those of `EMPTY_ALLOWED` can be empty.
const FORBIDDEN: [&str; 6] =
    ["$ref", "additionalItems", "definitions", "dependencies", "patternProperties", "unevaluatedProperties"];

/// Keywords of `FORBIDDEN` that say nothing when they are empty.
const EMPTY_ALLOWED: [&str; 2] = ["definitions", "patternProperties"];

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

/// Parses the shape of a schema that is being written: neither its defaults nor its rules are checked, and a keyword that
/// Kubernetes refuses apart from the shape counts as absent.
pub(super) fn parse_draft(source: &Value, path: &Path<'_>) -> Result<Schema> {
    validate::size("openAPIV3Schema", source)?;
    Parser { is_draft: true, ..Parser::default() }.schema(source, path, true)
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
    /// Whether the schema is a draft, with keywords that are refused elsewhere.
    is_draft: bool,
    /// The levels of `additionalProperties` around the part. As in Kubernetes, defaults below are not checked.
    levels_of_maps: usize,
}

/// The part of the shape that a condition is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    /// The part; `None` for a field that the schema does not define.
    part: Option<&'a Schema>,
    /// Whether the condition belongs to the root. As in Kubernetes, only such a condition must be about defined fields.
    is_of_root: bool,
}

impl Parser {
    fn schema(&mut self, source: &Value, path: &Path<'_>, is_root: bool) -> Result<Schema> {
        let fields = reader(source, path)?;
        forbid(&fields)?;
        let mut schema = Schema {
            value_type: self.accept(value_type(&fields))?,
            nullable: fields.flag("nullable")?,
            list: self.accept(list_type(&fields))?,
            atomic_map: self.accept(map_type(&fields))?,
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
        self.accept(types_agree(&schema, &fields, is_root))?;
        self.parts(&mut schema, &fields, is_root)?;
        self.accept(keys_are_fields(&schema, &fields))?;
        schema.limits = self.limits(&fields, Subject { part: Some(&schema), is_of_root: is_root })?;
        self.set_default(&mut schema, &fields, is_root)?;
        Ok(schema)
    }

    /// Returns the value of a keyword. The one of a draft is absent if it is refused.
    fn accept<T: Default>(&self, value: Result<T>) -> Result<T> {
        if self.is_draft { Ok(value.unwrap_or_default()) } else { value }
    }

    /// Parses the nested schemas.
    fn parts(&mut self, schema: &mut Schema, fields: &FieldReader<'_>, is_root: bool) -> Result<()> {
        let path = fields.path().field("properties");
        for (name, source) in fields.entries("properties")? {
            let property = self.schema(source, &path.key(name), false)?;
            if name == "metadata" && (is_root || schema.embedded) {
                metadata_is_plain(&property, &path.key(name), is_root)?;
            }
            schema.properties.insert(name.clone(), property);
        }
        schema.additional = match fields.get("additionalProperties") {
            None | Some(Value::Bool(false)) => None,
            Some(_) if is_root => return Err(fields.error("additionalProperties", "must not be used at the root")),
            Some(Value::Bool(true)) => Some(Box::new(Schema::anything())),
            Some(_) if !schema.properties.is_empty() && !self.is_draft => {
                return Err(fields.error("additionalProperties", "must not be used beside properties"));
            }
            Some(source) => {
                self.levels_of_maps += 1;
                let values = self.schema(source, &fields.path().field("additionalProperties"), false)?;
                self.levels_of_maps -= 1;
                Some(Box::new(values))
            }
        };
        schema.items = match items(fields) {
            Some(source) => Some(Box::new(self.schema(source, &fields.path().field("items"), false)?)),
            None if schema.value_type == Some(ValueType::Array) => {
                return Err(fields.error("items", "must not be empty for a list"));
            }
            None => None,
        };
        Ok(())
    }

    /// Parses a schema below `allOf`, `anyOf`, `oneOf` or `not`. It constrains `about`, which defines the
    /// shape. It has a type only where `can_have_type`, or where the value is an integer or a string.
    fn condition(
        &mut self,
        source: &Value,
        path: &Path<'_>,
        about: Subject<'_>,
        can_have_type: bool,
    ) -> Result<Schema> {
        let fields = reader(source, path)?;
        forbid(&fields)?;
        refuse(&fields, &SHAPE, "must not be used inside of allOf, anyOf, oneOf and not")?;
        let value_type = value_type(&fields)?;
        let is_either = about.part.is_some_and(|part| part.value_type == Some(ValueType::IntegerOrString));
        if value_type.is_some() && !is_either && !can_have_type {
            return Err(fields.error("type", "must not be used inside of allOf, anyOf, oneOf and not"));
        }
        let mut schema = Schema { value_type, ..Schema::default() };
        let unknown = "must be defined outside of allOf, anyOf, oneOf and not, too";
        let properties = path.field("properties");
        for (name, source) in fields.entries("properties")? {
            let path = properties.key(name);
            let about = about.below(|part| part.field(name));
            let about = about.ok_or_else(|| Error::invalid(path.to_string(), unknown))?;
            schema.properties.insert(name.clone(), self.condition(source, &path, about, false)?);
        }
        if let Some(source) = items(&fields) {
            let about = about.below(Schema::items).ok_or_else(|| fields.error("items", unknown))?;
            schema.items = Some(Box::new(self.condition(source, &path.field("items"), about, false)?));
        }
        schema.limits = self.limits(&fields, about)?;
        Ok(schema)
    }

    fn limits(&mut self, fields: &FieldReader<'_>, about: Subject<'_>) -> Result<Option<Box<Constraints>>> {
        let of_type = self.accept(value_type(fields))?;
        let format = fields.text("format")?.and_then(Format::named);
        let limits = Constraints {
            values: fields.list("enum")?.to_vec(),
            format: format.filter(|format| format.suits(of_type)),
            minimum: bound(fields, "minimum", "exclusiveMinimum")?,
            maximum: bound(fields, "maximum", "exclusiveMaximum")?,
            multiple_of: fields.number("multipleOf")?.cloned(),
            length_min: count(fields, "minLength")?,
            length_max: count(fields, "maxLength")?,
            pattern: fields.text("pattern")?.map(|text| self.pattern(fields, text)).transpose()?,
            items_min: count(fields, "minItems")?,
            items_max: count(fields, "maxItems")?,
            unique_items: fields.flag("uniqueItems")?,
            properties_min: count(fields, "minProperties")?,
            properties_max: count(fields, "maxProperties")?,
            required: fields.texts("required")?,
            all_of: self.conditions(fields, "allOf", about)?,
            any_of: self.conditions(fields, "anyOf", about)?,
            one_of: self.conditions(fields, "oneOf", about)?,
            not: match fields.get("not") {
                Some(source) => Some(Box::new(self.condition(source, &fields.path().field("not"), about, false)?)),
                None => None,
            },
        };
        Ok(Some(limits).filter(|limits| *limits != Constraints::default()).map(Box::new))
    }

    fn conditions(&mut self, fields: &FieldReader<'_>, name: &str, about: Subject<'_>) -> Result<Vec<Schema>> {
        let path = fields.path().field(name);
        let sources = fields.list(name)?;
        let is_either = name == "anyOf" && is_integer_or_string(sources);
        let sources = sources.iter().enumerate();
        sources.map(|(at, source)| self.condition(source, &path.item(at), about, is_either)).collect()
    }

    /// Sets the default, if it is valid by the schema itself.
    fn set_default(&mut self, schema: &mut Schema, fields: &FieldReader<'_>, is_root: bool) -> Result<()> {
        // As in Kubernetes, a null is no default.
        let Some(default) = fields.get("default") else { return Ok(()) };
        if self.is_built_in || self.is_draft {
            schema.default = Some(default.clone());
            return Ok(());
        }
        let path = fields.path().field("default");
        let mut filled = default.clone();
        let is_checked = self.levels_of_maps == 0;
        let unknown = prune(schema, &mut filled, &path, schema.embedded || is_root);
        if let Some(unknown) = unknown.first().filter(|_| is_checked) {
            return Err(Error::invalid(unknown, "is a field that the schema does not know"));
        }
        defaults::set(schema, &mut filled, schema.embedded)?;
        self.defaults_bytes += validate::bytes(&filled);
        if self.defaults_bytes > DEFAULTS_BYTES_MAX {
            let (bytes, bytes_max) = (self.defaults_bytes, DEFAULTS_BYTES_MAX);
            return Err(Error::TooLarge { what: "the set of defaults in the schema".to_owned(), bytes, bytes_max });
        }
        // Kubernetes checks a default without the defaults below it.
        if let Some(violation) = check_default(schema, &filled, &path).first()
            && is_checked
            && !check_default(schema, default, &path).is_empty()
        {
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

/// Returns the fields of a schema; none for a null, which Kubernetes reads as an empty schema.
pub(super) fn reader<'a>(source: &'a Value, path: &Path<'a>) -> Result<FieldReader<'a>> {
    static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
    FieldReader::of(if source.is_null() { &EMPTY } else { source }, *path)
}

impl<'a> Subject<'a> {
    /// Returns the subject of a condition about a part below; `None` if there must be one and is none.
    fn below(self, part: impl FnOnce(&'a Schema) -> Option<&'a Schema>) -> Option<Self> {
        let part = self.part.and_then(part);
        (part.is_some() || !self.is_of_root).then_some(Self { part, ..self })
    }
}

/// Returns whether conditions are exactly those that Kubernetes allows to have a type.
fn is_integer_or_string(conditions: &[Value]) -> bool {
    let is_empty = |value: &Value| value.is_null() || *value == false || *value == "";
    let is_only = |condition: &Value, of_type: &str| {
        let mut fields = condition.as_object().into_iter().flatten();
        condition["type"] == of_type && fields.all(|(name, value)| name == "type" || is_empty(value))
    };
    matches!(conditions, [integer, text] if is_only(integer, "integer") && is_only(text, "string"))
}

fn forbid(fields: &FieldReader<'_>) -> Result<()> {
    let is_there = |name: &str| {
        fields.get(name).is_some_and(|value| !(EMPTY_ALLOWED.contains(&name) && *value == Value::Object(Map::new())))
    };
    let forbidden = FORBIDDEN.iter().find(|name| is_there(name));
    forbidden.map_or(Ok(()), |name| Err(fields.error(name, "is not supported")))
}

/// Refuses keywords that say something.
fn refuse(fields: &FieldReader<'_>, names: &[&str], reason: &str) -> Result<()> {
    let is_there =
        |value: &Value| !matches!(value, Value::Bool(false)) && value.as_array().is_none_or(|of| !of.is_empty());
    let mut names =
        names.iter().filter(|name| fields.get(name).is_some_and(|value| **name == "default" || is_there(value)));
    names.next().map_or(Ok(()), |name| Err(fields.error(name, reason)))
}

/// Returns the schema of the items of a list. An empty list of schemas is none, as in Kubernetes.
fn items<'s>(fields: &FieldReader<'s>) -> Option<&'s Value> {
    fields.get("items").filter(|source| source.as_array().is_none_or(|schemas| !schemas.is_empty()))
}

fn value_type(fields: &FieldReader<'_>) -> Result<Option<ValueType>> {
    let named = fields.text("type")?.filter(|name| !name.is_empty());
    if fields.flag("x-kubernetes-int-or-string")? {
        // Any type allows both, as in Kubernetes.
        return Ok(Some(ValueType::IntegerOrString));
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
    let named = fields.text("type")?.unwrap_or_default();
    let must = |holds: bool, reason: &str| if holds { Ok(()) } else { Err(fields.error("type", reason)) };
    must(schema.value_type.is_some() || schema.open, "must not be empty")?;
    must(!is_root || named.is_empty() || named == "object", "must be object at the root")?;
    must(!schema.embedded || named == "object", "must be object where x-kubernetes-embedded-resource is true")?;
    must(schema.list == ListType::Atomic || named == "array", "must be array where x-kubernetes-list-type is set")?;
    must(!schema.atomic_map || named == "object", "must be object where x-kubernetes-map-type is set")
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

/// Checks that a schema restricts only the allowed fields of metadata at the root: the host owns its shape.
fn metadata_is_plain(metadata: &Schema, path: &Path<'_>, is_root: bool) -> Result<()> {
    if metadata.value_type != Some(ValueType::Object) {
        return Err(Error::invalid(path.field("type").to_string(), "must be object for metadata"));
    }
    let mut names = metadata.properties.keys().filter(|_| is_root);
    match names.find(|name| !matches!(name.as_str(), "name" | "generateName")) {
        Some(name) => {
            let path = path.field("properties");
            Err(Error::invalid(path.key(name).to_string(), "only name and generateName can be restricted"))
        }
        None => Ok(()),
    }
}

/// Returns a bound of a length or a count. A negative one counts as 0.
fn count(fields: &FieldReader<'_>, name: &str) -> Result<Option<u64>> {
    match fields.get(name).and_then(Value::as_i64) {
        Some(negative) if negative < 0 => Ok(Some(0)),
        _ => fields.count(name),
    }
}

fn bound(fields: &FieldReader<'_>, name: &str, exclusive: &str) -> Result<Option<Bound>> {
    let exclusive = fields.flag(exclusive)?;
    Ok(fields.number(name)?.map(|number| Bound { number: number.clone(), exclusive }))
}
