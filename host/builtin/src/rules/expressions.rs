//! The expressions in CEL of webhooks and policies of admission, and of selectors of devices.
//!
//! Deliberately absent: the functions of `authorizer`, and `cel.bind`. An expression that names one is stored as it is.
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
    /// An expression that says which requests a webhook or a policy is for.
    Match,
    Condition,
    Message,
    Annotation,
    /// An expression that returns the operations of a JSON patch.
    JsonPatch,
    /// An expression that returns a resource that is applied.
    Application,
}

impl Usage {
    /// Returns what Kubernetes says of an expression that is missing.
    fn lacking(self) -> &'static str {
        match self {
            Self::Match | Self::JsonPatch | Self::Application => "",
            Self::Annotation => "valueExpression is not specified",
            Self::Condition | Self::Message => NO_EXPRESSION,
        }
    }

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
    /// Returns that of the conditions of a webhook or a policy; `has_params` if a policy has a kind of parameters.
    pub(super) fn of_conditions(has_params: bool) -> Self {
        let known = ADMISSION_VARIABLES.iter().filter(|(name, _)| has_params || *name != "params");
        Self { variables: known.cloned().collect(), definitions: Definitions::default() }
    }

    /// Returns that of a policy; `has_variables` if it defines some.
    pub(super) fn of_policy(has_params: bool, has_variables: bool) -> Self {
        let definitions = if has_variables { Definitions::declared() } else { Definitions::default() };
        Self { definitions, ..Self::of_conditions(has_params) }
    }

    /// Adds a variable of a policy, and checks its expression.
    pub(super) fn define(&mut self, report: &mut Report<'_>, name: &str, expression: &Value, path: String) {
        let source = text(expression).trim();
        if source.is_empty() {
            return report.required(path, NO_EXPRESSION);
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
            return report.required(path, usage.lacking());
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

const NO_EXPRESSION: &str = "expression is not specified";

fn names_authorizer(source: &str) -> bool {
    source.contains("authorizer")
}

/// The type of `device`, the variable of the expressions that select devices. Source: `cel/compile.go` of
/// `k8s.io/dynamic-resource-allocation`.
static DEVICE: LazyLock<[(&str, Type); 1]> = LazyLock::new(|| {
    const COUNT_MAX: u64 = 32;
    let by_domain = |value| {
        let of_domain = Type::map(Type::Text(32), value, COUNT_MAX);
        Type::map(Type::Text(63), of_domain, COUNT_MAX)
    };
    let device = object([
        ("driver", Type::Text(63)),
        ("allowMultipleAllocations", Type::Bool),
        ("attributes", by_domain(Type::Dyn)),
        ("capacity", by_domain(Type::Quantity)),
    ]);
    [("device", device)]
});

/// Checks an expression that selects devices. One that binds a variable with `cel.bind` is stored as it is.
pub(super) fn check_selector(report: &mut Report<'_>, expression: &Value, path: &str) {
    let source = text(expression);
    let detail = match Expression::compile(source, &*DEVICE) {
        Ok(compiled) => match compiled.result() {
            Type::Bool | Type::Dyn => return,
            other => format!("must evaluate to bool or the unknown type, not {other}"),
        },
        Err(error) => format!("compilation failed: {error}"),
    };
    if !source.contains("cel.bind") {
        report.invalid(path, expression, &detail);
    }
}

/// Returns why an expression cannot have a result of a type; `None` if it can.
fn mistyped(result: &Type, usage: Usage) -> Option<String> {
    match (usage, result) {
        (Usage::Match | Usage::Condition, Type::Bool)
        | (Usage::Message, Type::Text(_))
        | (Usage::Annotation, Type::Text(_) | Type::Null) => None,
        (Usage::JsonPatch, Type::List(list)) if matches!(&list.item, Type::Message(name) if &**name == "JSONPatch") => {
            None
        }
        (Usage::Application, Type::Message(name)) if &**name == "Object" => None,
        (Usage::Match | Usage::Condition, other) => Some(format!("must evaluate to bool but got {other}")),
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
