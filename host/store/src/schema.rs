//! The structural schema of a kind, from its `CustomResourceDefinition` (OpenAPI v3).
//!
//! A schema decides how the parts of a document merge when several managers own them. It sets defaults,
//! prunes unknown fields and validates.
//!
//! The rules of `x-kubernetes-validations` are compiled with the schema. They can take long, so [`Schema::has_rules`]
//! reports that there are some, and a store evaluates them apart from its writer.

mod built_in;
mod check;
mod correlation;
mod defaults;
mod draft;
mod format;
mod limits;
mod list_types;
pub(crate) mod normal_form;
mod parse;
mod prune;
mod replicas;
mod rules;
mod schemas;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Error, Kind, Result, Subresource};
use limits::Constraints;
use rules::PartRules;

pub use homeostat_cel::quantity::Quantity;

pub use crate::path::Path;
pub use crate::violation::{Reason, VIOLATIONS_MAX, Violation, type_name};
use built_in::Rules;
pub use built_in::{Generation, KindRules, TypeCheck};
pub use draft::{DefaultChecker, Draft};
pub(crate) use format::is_known_format;
pub use replicas::ReplicaPointers;
pub use rules::keyword_violations as rule_keyword_violations;
pub(crate) use schemas::DeclaredIndexes;
pub use schemas::{Schemas, VersionSchema};

/// The schema of a value and of all values below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// The type of the value; `None` for any type.
    value_type: Option<ValueType>,
    nullable: bool,
    properties: BTreeMap<String, Schema>,
    /// The schema of the values of a map with free keys: `additionalProperties`.
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    list: ListType,
    atomic_map: bool,
    /// Whether unknown fields are kept. Source: `x-kubernetes-preserve-unknown-fields`.
    open: bool,
    /// Whether the value is an embedded resource. Source: `x-kubernetes-embedded-resource`.
    embedded: bool,
    default: Option<Value>,
    /// Further constraints on the value; most schemas have none.
    limits: Option<Box<Constraints>>,
    /// The rules in CEL of this part.
    rules_of_part: Option<Arc<PartRules>>,
    /// Whether there are such rules, here or below.
    has_rules: bool,
    /// What only schemas of built-in kinds have.
    typed: Option<Box<TypedField>>,
    /// The rules of a built-in kind; only the root has them.
    rules: Option<Rules>,
    /// The numbers of replicas of a kind with a scale; only the root has them.
    replicas: Option<Box<ReplicaPointers>>,
    /// The source of the schema; only the root has it.
    source: Option<Arc<Value>>,
}

/// What a type of Go says of a field, beside its schema.
#[derive(Debug, Clone, Default, PartialEq)]
struct TypedField {
    /// Whether an empty value is dropped.
    omit_empty: bool,
    /// Whether an object has the field even where its document lacks it: with an empty value.
    always_present: bool,
    /// The field that identifies the items of a list in a strategic merge patch.
    merge_key: Option<String>,
    /// Whether a strategic merge patch adds to a list of scalars.
    merges: bool,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Source: `x-kubernetes-int-or-string`.
    IntegerOrString,
    /// An amount of a resource, as `500m` or `1Gi`. Only built-in kinds have it.
    Quantity,
}

/// The identity of the items of a list. Source: `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// The list is a single value, with one owner.
    #[default]
    Atomic,
    /// Each item is a distinct scalar.
    Set,
    /// Each item is an object, identified by the values of these fields.
    Map(Vec<String>),
}

impl Schema {
    /// Parses the `openAPIV3Schema` of a version of a `CustomResourceDefinition`.
    ///
    /// Ignores unknown keywords and unknown formats. Limits:
    /// [`DOCUMENT_BYTES_MAX`](crate::DOCUMENT_BYTES_MAX), [`DOCUMENT_DEPTH_MAX`](crate::DOCUMENT_DEPTH_MAX)
    /// levels of JSON, and 256 distinct patterns.
    ///
    /// # Errors
    /// `Invalid` with the path inside the schema, as `openAPIV3Schema.properties[spec].type`, when it is
    /// malformed or not structural; `TooLarge`.
    pub fn parse(source: &Value) -> Result<Self> {
        parse::parse(source)
    }

    /// As [`Schema::parse`], for a kind with rules in Rust.
    ///
    /// # Errors
    /// As [`Schema::parse`].
    pub fn parse_with_rules(source: &Value, rules: &'static dyn KindRules) -> Result<Self> {
        Ok(Self { rules: Some(Rules(rules, |_, _| Ok(()))), ..parse::parse(source)? })
    }

    /// Parses the schema of a built-in kind, and adds its rules. Its documents are brought into the form in which
    /// Kubernetes stores them: without empty fields that its types omit, with canonical quantities and times.
    ///
    /// The schema is trusted: neither its size nor its defaults are checked. Three keywords are not those of OpenAPI:
    /// `x-homeostat-always-present`, `x-homeostat-omit-empty` and `x-homeostat-quantity`.
    ///
    /// # Errors
    /// As [`Schema::parse`].
    pub fn parse_built_in(source: &Value, rules: &'static dyn KindRules, types: TypeCheck) -> Result<Self> {
        Ok(Self { rules: Some(Rules(rules, types)), ..parse::parse_built_in(source)? })
    }

    /// Returns the schema of a kind with a scale.
    #[must_use]
    pub fn with_replicas(self, replicas: ReplicaPointers) -> Self {
        Self { replicas: Some(Box::new(replicas)), ..self }
    }

    /// Returns what is wrong with the actual number of replicas in a status.
    pub(crate) fn check_status_replicas(&self, status: &Value) -> Option<Violation> {
        let pointer = self.replicas.as_ref()?.status.strip_prefix("/status")?;
        replicas::violation(status, ".status", pointer)
    }

    /// Returns the source of the schema; `None` for the schema of a part.
    pub fn source(&self) -> Option<&Value> {
        self.source.as_deref()
    }

    /// Returns whether there are `x-kubernetes-validations`, here or below.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Sets the defaults of missing fields. A null that the schema does not allow counts as missing.
    ///
    /// The value is a whole resource, not nested deeper than a document may be; its metadata stays unchanged.
    ///
    /// # Errors
    /// `TooLarge` when the defaults alone exceed the size of a document. The value is then partly defaulted.
    pub fn set_defaults(&self, resource: &mut Value) -> Result<()> {
        defaults::set(self, resource, true)
    }

    /// Prunes unknown fields, and returns the paths of the first [`VIOLATIONS_MAX`] of them.
    ///
    /// The value is a whole resource, not nested deeper than a document may be. `apiVersion`, `kind` and
    /// `metadata` stay, also in embedded resources.
    pub fn prune(&self, resource: &mut Value) -> Vec<String> {
        let unknown = prune::prune(self, resource, &Path::ROOT, true);
        self.normalize(resource);
        unknown
    }

    /// Brings a resource of a built-in kind into the form in which it is stored: above all, without nulls. Resources of
    /// other kinds stay unchanged.
    pub(crate) fn normalize(&self, resource: &mut Value) {
        normal_form::normalize(self, resource, true);
    }

    /// Drops unknown fields, as [`Schema::prune`] does, and leaves the known ones as they are written.
    pub(crate) fn drop_unknown(&self, resource: &mut Value) {
        prune::prune(self, resource, &Path::ROOT, true);
    }

    /// Validates a value, and returns the first [`VIOLATIONS_MAX`] violations; none for a valid value.
    ///
    /// The value is a whole resource, not nested deeper than a document may be.
    pub fn check(&self, resource: &Value) -> Vec<Violation> {
        check::check(self, resource, &Path::ROOT)
    }

    /// Returns the violations of the rules in CEL by a whole resource, which is valid otherwise, and which replaces `old`.
    pub(crate) fn check_rules(&self, resource: &Value, old: Option<&Value>) -> Vec<Violation> {
        if self.has_rules { rules::check(self, resource, old) } else { Vec::new() }
    }

    /// Returns a schema that accepts every value.
    fn anything() -> Self {
        Self { nullable: true, open: true, ..Self::default() }
    }

    /// Prunes, defaults and validates a part of a resource at `path`. The rules of a built-in kind see the resource
    /// before the write, `None` for one that is created, and the subresource that is written.
    pub(crate) fn admit(
        &self,
        value: &mut Value,
        path: &Path<'_>,
        is_resource: bool,
        old: Option<&Value>,
        subresource: Option<Subresource>,
    ) -> Result<Vec<Violation>> {
        prune::prune(self, value, path, is_resource);
        normal_form::normalize(self, value, is_resource);
        defaults::set(self, value, is_resource)?;
        // The rules rely on the types of the fields.
        let rules = self.rules.filter(|_| check::first_mistyped(self, value, path).is_none());
        let Some(Rules(rules, _)) = rules else {
            let mut violations = check::check(self, value, path);
            if let Some(old) = old.filter(|_| !violations.is_empty() && !self.is_typed()) {
                let mut old = old.clone();
                prune::prune(self, &mut old, path, is_resource);
                defaults::set(self, &mut old, is_resource)?;
                violations = check::check_change(self, value, &old, path);
            }
            let replicas = self.replicas.as_ref();
            violations.extend(replicas.and_then(|replicas| replicas::violation(value, "", &replicas.spec)));
            return Ok(violations);
        };
        if let Some(old) = old {
            rules.confine(value, old, subresource);
        }
        rules.set_defaults(value, old);
        defaults::set(self, value, is_resource)?;
        let unallocated = if old.is_none() { rules.check_allocation(value) } else { Vec::new() };
        if !unallocated.is_empty() {
            return Ok(unallocated);
        }
        let by_rules = rules.check(value, old, subresource);
        // A rule may say more of a field that is missing.
        let is_required = |found: &Violation| found.reason == Reason::Required;
        let is_again = |found: &Violation| {
            let mut same = by_rules.iter().filter(|other| other.path == found.path);
            same.any(|other| other == found || (is_required(other) && is_required(found)))
        };
        let mut violations = check::check(self, value, path);
        violations.retain(|found| !is_again(found));
        violations.extend(by_rules);
        violations.truncate(VIOLATIONS_MAX);
        Ok(violations)
    }

    /// Returns the violations that keep an API server from allocating what a new resource with its defaults needs. None of a
    /// kind that is not built in.
    pub(crate) fn check_allocation(&self, resource: &Value) -> Vec<Violation> {
        self.rules.map_or_else(Vec::new, |Rules(rules, _)| rules.check_allocation(resource))
    }

    /// Sets the defaults of the status of a resource of a built-in kind, and returns what violates the rules of the kind. None of
    /// another kind, and none of a status that does not have the types of the kind.
    pub(crate) fn admit_status_rules(&self, resource: &mut Value, old: &Value) -> Vec<Violation> {
        let (Some(Rules(rules, _)), Some(schema)) = (self.rules, self.field("status")) else { return Vec::new() };
        let Some(status) = resource.get("status") else { return Vec::new() };
        if check::first_mistyped(schema, status, &Path::ROOT.field("status")).is_some() {
            return Vec::new();
        }
        rules.set_status_defaults(resource, old);
        rules.check_status(resource, old)
    }

    /// Checks that a whole resource of a built-in kind has the types of that kind. Resources of other kinds pass.
    ///
    /// # Errors
    /// `Mistyped`.
    pub(crate) fn check_types(&self, kind: &Kind, resource: &Value) -> Result<()> {
        let Some(Rules(_, check_types)) = self.rules else { return Ok(()) };
        check_types(kind, resource).map_err(|reason| Error::Mistyped { reason })
    }

    /// Returns the fault of the first value of an applied document whose type is not that of the schema.
    pub(crate) fn first_mistyped(&self, document: &Value) -> Option<String> {
        check::first_mistyped(self, document, &Path::ROOT)
    }

    /// Returns the status of a new resource of a built-in kind; `None` for other kinds, and for kinds without status.
    pub(crate) fn first_status(&self, resource: &Value) -> Result<Option<Value>> {
        let (Some(Rules(rules, _)), Some(schema)) = (self.rules, self.field("status")) else { return Ok(None) };
        let mut status = rules.first_status(resource);
        defaults::set(schema, &mut status, false)?;
        Ok(Some(status))
    }

    /// Returns whether a new resource has the status that its writer gives it. Others begin with their first status.
    pub(crate) fn keeps_new_status(&self) -> bool {
        self.rules.is_some_and(|Rules(rules, _)| rules.keeps_new_status())
    }

    /// Returns whether the schema is that of a built-in kind, or of a part of one.
    pub(crate) fn is_typed(&self) -> bool {
        self.typed.is_some()
    }

    /// Returns the fields of `metadata` that a write of the status changes too; none for a kind that is not built in.
    pub(crate) fn status_metadata(&self) -> &'static [&'static str] {
        self.rules.map_or(&[], |Rules(rules, _)| rules.status_metadata())
    }

    /// Returns what the generation of a resource counts.
    pub(crate) fn generation(&self) -> Generation {
        self.rules.map_or(Generation::Specification, |Rules(rules, _)| rules.generation())
    }

    /// Returns the seconds that a resource may take for its end; `None` for a kind whose deletion waits for finalizers alone.
    pub(crate) fn grace_seconds(&self, document: &Value, asked: Option<u32>) -> Option<u32> {
        self.rules.and_then(|Rules(rules, _)| rules.grace_seconds(document, asked))
    }

    /// Returns the default of the value.
    pub(crate) fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Returns whether an object of a built-in kind has the field even where its document lacks it: with an empty value,
    /// as a struct of Go has each of its fields.
    pub(crate) fn is_always_present(&self) -> bool {
        self.typed.as_ref().is_some_and(|typed| typed.always_present)
    }

    /// Returns the pointers of the fields that the rules of a built-in kind set in a new resource, or keep for ever, and that no
    /// writer owns.
    pub(crate) fn allocated(&self, document: &Value) -> Vec<String> {
        self.rules.map_or_else(Vec::new, |Rules(rules, _)| rules.allocated(document))
    }

    /// Returns the field that identifies the items of a list in a strategic merge patch of a built-in kind.
    pub(crate) fn merge_key(&self) -> Option<&str> {
        self.typed.as_ref()?.merge_key.as_deref()
    }

    /// Returns whether a strategic merge patch of a built-in kind adds to a list of scalars.
    pub(crate) fn merges(&self) -> bool {
        self.typed.as_ref().is_some_and(|typed| typed.merges)
    }

    /// Returns whether a value is kept as it is written.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether unknown fields are kept.
    pub(crate) fn keeps_unknown(&self) -> bool {
        self.open || self.additional.is_some() || self.value_type.is_none()
    }

    /// Returns the schema of a field of an object; `None` for an unknown field.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    /// Returns the schema of the items of a list; `None` if there is none.
    pub fn items(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// Returns how the items of a list are identified.
    pub fn list_type(&self) -> &ListType {
        &self.list
    }

    /// Returns whether an object is a single value, with one owner. Source: `x-kubernetes-map-type: atomic`.
    pub fn is_atomic_map(&self) -> bool {
        self.atomic_map
    }
}

/// Returns an amount of a resource, as `500m`, `0.5` or `1Gi`, in billionths; `None` if a value is none.
pub fn quantity_in_nanos(value: &Value) -> Option<i128> {
    Quantity::of(value).map(Quantity::nanos)
}

#[cfg(test)]
mod tests;
