//! The expressions in CEL of webhooks and policies of admission.
//!
//! Deliberately absent: the functions of `authorizer`. An expression that names it is stored as it is.
//!
//! Source: `pkg/admission/plugin/cel/compile.go` of `k8s.io/apiserver`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use homeostat_cel::{Definitions, Expression, Field, ObjectType, Type};
use serde_json::Value;

use super::report::{Report, text};

/// What an expression is for, which says what it returns.
#[derive(Clone, Copy)]
pub(super) enum Usage {
    Condition,
    Message,
    Annotation,
    /// An expression that returns the operations of a JSON patch.
    JsonPatch,
    /// An expression that returns a resource that is applied.
    Application,
}

impl Usage {
    fn makes_patch(self) -> bool {
        matches!(self, Self::JsonPatch | Self::Application)
    }
}

/// The variables of the expressions of webhooks and policies, with their types when they are compiled. Their values are
/// documents without types.
pub static ADMISSION_VARIABLES: LazyLock<[(&str, Type); 6]> = LazyLock::new(|| {
    [
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", request_type()),
        ("params", Type::Dyn),
        ("namespaceObject", namespace_type()),
        ("authorizer", Type::Dyn),
    ]
});

/// The names that an expression can use.
pub(super) struct Environment {
    variables: Vec<(&'static str, Type)>,
    definitions: Definitions,
}

impl Environment {
    /// Returns that of a webhook or a policy; `has_params` if a policy has a kind of parameters.
    pub(super) fn new(has_params: bool) -> Self {
        let known = ADMISSION_VARIABLES.iter().filter(|(name, _)| has_params || *name != "params");
        Self { variables: known.cloned().collect(), definitions: Definitions::default() }
    }

    /// Adds a variable of a policy, and checks its expression.
    pub(super) fn define(&mut self, report: &mut Report<'_>, name: &str, expression: &Value, path: String) {
        let source = text(expression).trim();
        if source.is_empty() {
            return report.required(path, "");
        }
        let Err(error) = self.definitions.define(name, source, &self.variables) else { return };
        // So that what uses it is not wrong as well.
        let _unknown = self.definitions.define(name, "dyn(null)", &[]);
        if !names_authorizer(source) {
            report.invalid(path, &source.into(), &format!("compilation failed: {error}"));
        }
    }

    /// Checks an expression.
    pub(super) fn check(&self, report: &mut Report<'_>, expression: &Value, path: String, usage: Usage) {
        let source = text(expression).trim();
        if source.is_empty() {
            return report.required(path, "");
        }
        let compile = if usage.makes_patch() { Expression::compile_patch } else { Expression::compile_with };
        let detail = match compile(source, &self.variables, &self.definitions) {
            Ok(compiled) => mistyped(compiled.result(), usage),
            Err(error) => Some(format!("compilation failed: {error}")),
        };
        if let Some(detail) = detail.filter(|_| !names_authorizer(source)) {
            report.invalid(path, &source.into(), &detail);
        }
    }
}

fn names_authorizer(source: &str) -> bool {
    source.contains("authorizer")
}

/// Returns why an expression cannot have a result of a type; `None` if it can.
fn mistyped(result: &Type, usage: Usage) -> Option<String> {
    match (usage, result) {
        (Usage::Condition, Type::Bool)
        | (Usage::Message, Type::Text(_))
        | (Usage::Annotation, Type::Text(_) | Type::Null) => None,
        (Usage::JsonPatch, Type::List(list)) if matches!(&list.item, Type::Message(name) if &**name == "JSONPatch") => {
            None
        }
        (Usage::Application, Type::Message(name)) if &**name == "Object" => None,
        (Usage::Condition, other) => Some(format!("must evaluate to bool but got {other}")),
        (Usage::Message, other) => Some(format!("must evaluate to string but got {other}")),
        (Usage::JsonPatch, other) => Some(format!("must evaluate to list(JSONPatch) but got {other}")),
        (Usage::Application, other) => Some(format!("must evaluate to Object but got {other}")),
        (Usage::Annotation, other) => Some(format!("must evaluate to one of [string null_type] but got {other}")),
    }
}

const TEXT: Type = Type::Text(u64::MAX);

fn object(fields: impl IntoIterator<Item = (&'static str, Type)>) -> Type {
    let field = |(name, value): (&'static str, Type)| (name.to_owned(), Field { name: name.to_owned(), value });
    Type::Object(Arc::new(ObjectType { fields: fields.into_iter().map(field).collect::<BTreeMap<_, _>>() }))
}

fn texts() -> Type {
    Type::list(TEXT, u64::MAX)
}

fn map_of(value: Type) -> Type {
    Type::map(TEXT, value, u64::MAX)
}

/// Returns the type of `request`: an `AdmissionRequest` without its objects.
fn request_type() -> Type {
    let kind = || object([("group", TEXT), ("version", TEXT), ("kind", TEXT)]);
    let resource = || object([("group", TEXT), ("version", TEXT), ("resource", TEXT)]);
    let user = object([("username", TEXT), ("uid", TEXT), ("groups", texts()), ("extra", map_of(texts()))]);
    object([
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", TEXT),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", TEXT),
        ("name", TEXT),
        ("namespace", TEXT),
        ("operation", TEXT),
        ("userInfo", user),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ])
}

/// Returns the type of `namespaceObject`: a `Namespace` without its field owners.
fn namespace_type() -> Type {
    let metadata = object([
        ("name", TEXT),
        ("generateName", TEXT),
        ("namespace", TEXT),
        ("labels", map_of(TEXT)),
        ("annotations", map_of(TEXT)),
        ("UID", TEXT),
        ("creationTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("deletionTimestamp", Type::Timestamp),
        ("generation", Type::Int),
        ("resourceVersion", TEXT),
        ("finalizers", texts()),
    ]);
    let condition = object([
        ("status", TEXT),
        ("type", TEXT),
        ("lastTransitionTime", Type::Timestamp),
        ("message", TEXT),
        ("reason", TEXT),
    ]);
    let status = object([("conditions", Type::list(condition, u64::MAX)), ("phase", TEXT)]);
    object([("metadata", metadata), ("spec", object([("finalizers", texts())])), ("status", status)])
}
