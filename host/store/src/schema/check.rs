//! Validates a value against its schema.

use homeostat_cel::quantity;
use serde_json::{Map, Number, Value};

use super::correlation::CorrelatedPart;
use super::format::Format;
use super::limits::{Bound, Constraints, compare, is_multiple, same};
use super::{Reason, Schema, TypedField, ValueType, Violation, list_types};
use crate::numbers;
use crate::path::{Path, shortened};
use crate::violation::{VALUE_CHARS_MAX, VIOLATIONS_MAX, shown, type_name};

/// The path of a violation that Kubernetes reports without one.
pub(super) const NO_PATH: &str = "<nil>";

/// Supported values listed in a violation.
const VALUES_SHOWN_MAX: usize = 20;

/// Returns the violations of a value at `path`.
pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>) -> Vec<Violation> {
    let mut report = SchemaChecker::new(VIOLATIONS_MAX, false);
    report.value(schema, value, None, path);
    report.with(list_types::check(schema, value, path))
}

/// Returns the violations of a value at `path` that replaces another one.
///
/// A part that stays as it was may go on violating its schema, so that a stricter schema does not make stored resources unusable.
/// Lists may have repeated items if a list had some before. Source: Kubernetes (`CRDValidationRatcheting`).
pub(super) fn check_change(schema: &Schema, value: &Value, old: &Value, path: &Path<'_>) -> Vec<Violation> {
    let mut report = SchemaChecker::new(VIOLATIONS_MAX, false);
    report.value(schema, value, Some(CorrelatedPart { schema, value: old }), path);
    let had_faults = !list_types::check(schema, old, path).is_empty();
    report.with(if had_faults { Vec::new() } else { list_types::check(schema, value, path) })
}

/// Returns the violations of a default. As in Kubernetes, its lists may have duplicates, and it has any type where integers
/// and strings are allowed: a document that gets such a default is refused.
pub(super) fn check_default(schema: &Schema, default: &Value, path: &Path<'_>) -> Vec<Violation> {
    let mut report = SchemaChecker::new(VIOLATIONS_MAX, true);
    report.value(schema, default, None, path);
    report.found
}

/// Returns the first value at or below `path` of another type than its schema; a null and any number have every type.
pub(super) fn first_mistyped(schema: &Schema, value: &Value, path: &Path<'_>) -> Option<String> {
    if let Some(wanted) = schema.value_type.filter(|wanted| !value.is_null() && !wanted.accepts(value)) {
        return Some(format!(".{path}: expected {}, got {}", wanted.applied_name(), type_name(value)));
    }
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            schema.field(name).and_then(|schema| first_mistyped(schema, value, &path.field(name)))
        }),
        Value::Array(items) => {
            let schema = schema.items()?;
            items.iter().enumerate().find_map(|(at, item)| first_mistyped(schema, item, &path.item(at)))
        }
        _ => None,
    }
}

/// Returns a number of things.
fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A validation in progress, with the violations so far.
struct SchemaChecker {
    found: Vec<Violation>,
    count_max: usize,
    /// Values that were checked.
    visited: usize,
    /// Whether the value is a default.
    is_default: bool,
}

impl SchemaChecker {
    fn new(count_max: usize, is_default: bool) -> Self {
        Self { found: Vec::new(), count_max, visited: 0, is_default }
    }

    /// Returns whether a value is valid.
    fn fits(&self, schema: &Schema, value: &Value, path: &Path<'_>) -> bool {
        let mut report = Self::new(1, self.is_default);
        report.value(schema, value, None, path);
        report.found.is_empty()
    }

    /// Returns the violations, with more of them after these.
    fn with(mut self, more: Vec<Violation>) -> Vec<Violation> {
        self.found.extend(more);
        self.found.truncate(self.count_max);
        self.found
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.count_max
    }

    fn add(&mut self, path: &Path<'_>, reason: Reason, detail: impl Into<String>) {
        if !self.is_full() {
            self.found.push(Violation { path: path.to_string(), reason, detail: detail.into() });
        }
    }

    /// Adds a violation of a constraint.
    fn invalid(&mut self, path: &Path<'_>, shown: &str, should: &str) {
        self.add(path, Reason::Invalid, format!("{shown}: {path} in body {should}"));
    }

    /// Validates a value that replaces a part of the document before a write, if there is one.
    fn value(&mut self, schema: &Schema, value: &Value, old: Option<CorrelatedPart<'_>>, path: &Path<'_>) {
        let before = self.found.len();
        self.whole_value(schema, value, old, path);
        if self.found.len() > before && old.is_some_and(|old| old.is_same(value)) {
            self.found.truncate(before);
        }
    }

    fn whole_value(&mut self, schema: &Schema, value: &Value, old: Option<CorrelatedPart<'_>>, path: &Path<'_>) {
        if self.is_full() || (value.is_null() && schema.nullable) {
            return;
        }
        self.visited += 1;
        let has_any_type = |wanted: &ValueType| self.is_default && *wanted == ValueType::IntegerOrString;
        if let Some(wanted) = schema.value_type.filter(|wanted| !wanted.holds(value) && !has_any_type(wanted)) {
            let format = schema.limits.as_ref().and_then(|limits| limits.format);
            let (name, found) = match (format, value) {
                (Some(format), Value::Bool(_) | Value::Object(_)) => (format.name(), ""),
                (Some(format), Value::Number(number)) => {
                    (format.name(), if number.is_f64() { "float64" } else { "int64" })
                }
                _ => (wanted.name(), type_name(value)),
            };
            self.add(path, Reason::TypeInvalid, format!("{found:?}: {path} in body must be of type {name}: {found:?}"));
            if !schema.is_typed() {
                if wanted == ValueType::Integer && value.is_number() {
                    self.out_of_range(wanted, format, path);
                }
                if let Some(limits) = &schema.limits {
                    self.supported(limits, &shown(value), value, path);
                    if let Value::Number(number) = value {
                        self.number(limits, number, path, &shown(value));
                    }
                    self.combinations(limits, value, path);
                }
            }
            return;
        }
        // A required text of a built-in kind that is empty is reported once, by the object that has it. Go tells an empty
        // text from none where it has a pointer.
        let is_pointer = |field: &TypedField| !field.omit_empty && !field.always_present;
        let is_no_text = *value == "" && schema.typed.as_ref().is_some_and(|field| !is_pointer(field));
        if let Some(limits) = schema.limits.as_ref().filter(|_| !is_no_text) {
            self.limits(schema, limits, value, path);
        }
        if schema.is_typed() {
            self.required_texts(schema, value, path);
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, old, path),
            Value::Array(items) => self.items(schema, items, old, path),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Adds what Kubernetes says of a number that its type and format do not have, without a path.
    fn out_of_range(&mut self, of_type: ValueType, format: Option<Format>, path: &Path<'_>) {
        if self.is_full() {
            return;
        }
        let format =
            format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {}", format.name()));
        let detail = format!("\"\": Checked value must be of type {} {format} in {path}", of_type.name());
        self.found.push(Violation { path: NO_PATH.to_owned(), reason: Reason::Invalid, detail });
    }

    fn fields(
        &mut self,
        schema: &Schema,
        fields: &Map<String, Value>,
        old: Option<CorrelatedPart<'_>>,
        path: &Path<'_>,
    ) {
        if schema.embedded {
            self.resource(fields, path);
        }
        for (name, value) in fields {
            let old = old.and_then(|old| old.field(name));
            if let Some(property) = schema.properties.get(name) {
                self.value(property, value, old, &path.field(name));
            } else if let Some(additional) = &schema.additional {
                // Kubernetes has both forms.
                let path = if schema.is_typed() { path.key(name) } else { path.field(name) };
                self.value(additional, value, old, &path);
            }
        }
    }

    /// Checks that the required texts of a built-in kind are not empty: its types cannot tell an empty text from none.
    fn required_texts(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        let required = schema.limits.iter().flat_map(|limits| &limits.required);
        for name in required.filter(|name| value.get(name.as_str()).is_some_and(|text| *text == "")) {
            self.add(&path.field(name), Reason::Required, "");
        }
    }

    /// Checks the fields that every resource has.
    fn resource(&mut self, fields: &Map<String, Value>, path: &Path<'_>) {
        for name in ["apiVersion", "kind"] {
            match fields.get(name) {
                Some(Value::String(text)) if !text.is_empty() => {}
                Some(Value::String(_)) | None => self.add(&path.field(name), Reason::Required, ""),
                Some(other) => self.wrong_type(other, "string", &path.field(name)),
            }
        }
        if let Some(other) = fields.get("metadata").filter(|metadata| !metadata.is_object()) {
            self.wrong_type(other, "object", &path.field("metadata"));
        }
    }

    fn wrong_type(&mut self, value: &Value, wanted: &str, path: &Path<'_>) {
        let found = type_name(value);
        self.add(path, Reason::TypeInvalid, format!("{found:?}: {path} in body must be of type {wanted}: {found:?}"));
    }

    fn items(&mut self, schema: &Schema, items: &[Value], old: Option<CorrelatedPart<'_>>, path: &Path<'_>) {
        let Some(schema) = schema.items() else { return };
        let old = old.map_or_else(|| vec![None; items.len()], |old| old.items(items));
        for (at, (item, old)) in items.iter().zip(old).enumerate() {
            self.value(schema, item, old, &path.item(at));
        }
    }

    fn limits(&mut self, schema: &Schema, limits: &Constraints, value: &Value, path: &Path<'_>) {
        let hidden = limits.format == Some(Format::Password);
        let shown = if hidden { "\"…\"".to_owned() } else { shown(value) };
        self.supported(limits, &shown, value, path);
        // The types of built-in kinds read an empty text as no bytes. For others, Kubernetes has no empty form of them.
        let is_no_byte = |format: Format| format == Format::Byte && *value == "" && !schema.is_typed();
        let format = limits.format.filter(|format| !format.holds(value) || is_no_byte(*format));
        match (format, schema.value_type) {
            (Some(format), Some(of_type)) if value.is_number() && !schema.is_typed() => {
                self.out_of_range(of_type, Some(format), path);
            }
            (Some(format), _) => {
                let detail = format!("{shown}: {path} in body must be of type {}: {shown}", format.name());
                self.add(path, Reason::TypeInvalid, detail);
            }
            (None, _) => {}
        }
        match value {
            Value::Number(number) => self.number(limits, number, path, &shown),
            Value::String(text) => self.text(limits, text, path, &shown),
            Value::Array(items) => self.list(limits, items, path),
            Value::Object(fields) => self.object(limits, fields, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(limits, value, path);
    }

    fn supported(&mut self, limits: &Constraints, shown: &str, value: &Value, path: &Path<'_>) {
        if !limits.values.is_empty() && !limits.values.iter().any(|known| same(known, value)) {
            // Kubernetes shows the whole value here, and elsewhere its type alone.
            let whole = value.is_object() || value.is_array();
            let shown = if whole { &*shortened(&value.to_string(), VALUE_CHARS_MAX) } else { shown };
            self.add(path, Reason::Unsupported, format!("{shown}: supported values: {}", listed(&limits.values)));
        }
    }

    fn number(&mut self, limits: &Constraints, number: &Number, path: &Path<'_>, shown: &str) {
        if let Some(Bound { number: bound, exclusive }) = &limits.minimum {
            let order = compare(number, bound);
            if order.is_lt() || (*exclusive && order.is_eq()) {
                let equal = if *exclusive { "" } else { " or equal to" };
                self.invalid(path, shown, &format!("should be greater than{equal} {bound}"));
            }
        }
        if let Some(Bound { number: bound, exclusive }) = &limits.maximum {
            let order = compare(number, bound);
            if order.is_gt() || (*exclusive && order.is_eq()) {
                let equal = if *exclusive { "" } else { " or equal to" };
                self.invalid(path, shown, &format!("should be less than{equal} {bound}"));
            }
        }
        match &limits.multiple_of {
            Some(of) if of.as_f64().is_none_or(|of| of <= 0.0) => {
                let detail = format!("{of}: factor MultipleOf declared for {path} must be positive: {of}");
                self.add(path, Reason::Invalid, detail);
            }
            Some(of) if !is_multiple(number, of) => {
                self.invalid(path, shown, &format!("should be a multiple of {of}"));
            }
            _ => {}
        }
    }

    fn text(&mut self, limits: &Constraints, text: &str, path: &Path<'_>, shown: &str) {
        if limits.length_min.is_some() || limits.length_max.is_some() {
            let length = text.chars().count() as u64;
            if let Some(least) = limits.length_min.filter(|least| length < *least) {
                return self.invalid(path, shown, &format!("should be at least {least} chars long"));
            }
            if let Some(most) = limits.length_max.filter(|most| length > *most) {
                // Matching the pattern of a text that is too long would only take time.
                return self.add(path, Reason::TooLong, format!("may not be more than {}", counted(most, "byte")));
            }
        }
        if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.is_in(text)) {
            self.invalid(path, shown, &format!("should match '{}'", pattern.text()));
        }
    }

    fn list(&mut self, limits: &Constraints, items: &[Value], path: &Path<'_>) {
        let count = items.len() as u64;
        if let Some(least) = limits.items_min.filter(|least| count < *least) {
            self.invalid(path, &count.to_string(), &format!("should have at least {least} items"));
        }
        if let Some(most) = limits.items_max.filter(|most| count > *most) {
            self.add(path, Reason::TooMany, format!("{count}: must have at most {}", counted(most, "item")));
        }
        if limits.unique_items {
            let room = self.count_max.saturating_sub(self.found.len());
            self.found.extend(list_types::duplicates(items, path, Value::to_string, shown).take(room));
        }
    }

    fn object(&mut self, limits: &Constraints, fields: &Map<String, Value>, path: &Path<'_>) {
        for name in limits.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.add(&path.field(name), Reason::Required, "");
        }
        let count = fields.len() as u64;
        if let Some(least) = limits.properties_min.filter(|least| count < *least) {
            self.invalid(path, &count.to_string(), &format!("should have at least {least} properties"));
        }
        if let Some(most) = limits.properties_max.filter(|most| count > *most) {
            self.add(path, Reason::TooMany, format!("{count}: must have at most {}", counted(most, "item")));
        }
    }

    /// Checks the combinations of schemas. In these, a part has to fit although it stays as it was. Kubernetes reports them
    /// without a path, with the violations of the alternative that fits best.
    fn combinations(&mut self, limits: &Constraints, value: &Value, path: &Path<'_>) {
        let all = limits.all_of.iter().map(|schema| self.alternative(schema, value, path)).collect::<Vec<_>>();
        let valid = all.iter().filter(|checked| checked.found.is_empty()).count();
        if valid < all.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            all.into_iter().for_each(|checked| self.extend(checked));
            self.combination(path, &format!("must validate all the schemas (allOf){none}"));
        }
        if let Err(best) = self.best(&limits.any_of, value, path).0 {
            self.combination(path, "must validate at least one schema (anyOf)");
            self.extend(best);
        }
        match self.best(&limits.one_of, value, path) {
            (Err(best), _) => {
                self.combination(path, "must validate one and only one schema (oneOf). Found none valid");
                self.extend(best);
            }
            (Ok(()), count) if count > 1 => {
                let found = format!("Found {count} valid alternatives");
                self.combination(path, &format!("must validate one and only one schema (oneOf). {found}"));
            }
            _ => {}
        }
        if limits.not.as_ref().is_some_and(|schema| self.fits(schema, value, path)) {
            self.combination(path, "must not validate the schema (not)");
        }
    }

    fn combination(&mut self, path: &Path<'_>, words: &str) {
        if !self.is_full() {
            let detail = format!("\"\": \"{path}\" {words}");
            self.found.push(Violation { path: NO_PATH.to_owned(), reason: Reason::Invalid, detail });
        }
    }

    fn extend(&mut self, other: Self) {
        let room = self.count_max.saturating_sub(self.found.len());
        self.found.extend(other.found.into_iter().take(room));
    }

    /// Validates a value against one schema of several.
    fn alternative(&self, schema: &Schema, value: &Value, path: &Path<'_>) -> Self {
        let mut report = Self::new(self.count_max, self.is_default);
        report.value(schema, value, None, path);
        report
    }

    /// Returns how many alternatives a value fits; if it fits none, the one in which most of its parts were checked.
    fn best(&self, alternatives: &[Schema], value: &Value, path: &Path<'_>) -> (Result<(), Self>, usize) {
        let (mut valid, mut best) = (0, None::<Self>);
        for schema in alternatives {
            let checked = self.alternative(schema, value, path);
            if checked.found.is_empty() {
                valid += 1;
            } else if best.as_ref().is_none_or(|best| checked.visited > best.visited) {
                best = Some(checked);
            }
        }
        match best.filter(|_| valid == 0) {
            Some(best) => (Err(best), 0),
            None => (Ok(()), valid),
        }
    }
}

impl ValueType {
    /// Returns whether an apply accepts a value of this type. Any number is one of any kind.
    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Integer | Self::Number => value.is_number(),
            Self::IntegerOrString | Self::Quantity => value.is_number() || value.is_string(),
            other => other.holds(value),
        }
    }

    /// Returns the name of the type in the refusal of an apply.
    fn applied_name(self) -> &'static str {
        match self {
            Self::Object => "map",
            Self::Array => "list",
            Self::Integer | Self::Number => "numeric (int or float)",
            other => other.name(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntegerOrString => "integer,string",
            Self::Quantity => "quantity",
        }
    }

    /// Returns whether a value has this type. An integer has 64 bits with a sign. A float without a fraction
    /// is an integer too, if it is within the exact range.
    fn holds(self, value: &Value) -> bool {
        let is_integer = |number: &Number| number.is_i64() || number.as_f64().is_some_and(numbers::is_whole);
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => value.as_number().is_some_and(is_integer),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntegerOrString => value.is_string() || Self::Integer.holds(value),
            Self::Quantity => quantity::canonical(value).is_some(),
        }
    }
}

fn listed(values: &[Value]) -> String {
    let mut texts: Vec<String> = values.iter().take(VALUES_SHOWN_MAX).map(shown).collect();
    if values.len() > VALUES_SHOWN_MAX {
        texts.push("…".to_owned());
    }
    texts.join(", ")
}
