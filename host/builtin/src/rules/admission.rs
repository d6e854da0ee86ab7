//! Policies of admission with their bindings, and what they have in common with webhooks.
//!
//! The schemas check enumerated values, and that required texts are not empty.
//!
//! Source: `pkg/apis/admissionregistration/validation/validation.go` and `v1/defaults.go` of Kubernetes.

use std::collections::BTreeSet;

use homeostat_cel::names::DNS_1035_LABEL;
use serde_json::{Value, json};

use super::defaults::{default, object_at};
use super::expressions::{Environment, Usage};
use super::report::{Report, items, text};

/// Most conditions of a webhook or a policy.
const CONDITIONS_MAX: usize = 64;
/// Most audit annotations of a policy.
const ANNOTATIONS_MAX: usize = 20;
/// Most bytes of the expression of an audit annotation.
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;
/// The operations that a policy can mutate.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// The names that CEL keeps for itself.
const WORDS_OF_CEL: &str = "as break const continue else false for function if import in let loop namespace null package \
return true var void while";

pub(super) fn policy_defaults(policy: &mut Value, _old: Option<&Value>) {
    match_defaults(policy, "/spec/matchConstraints");
}

pub(super) fn binding_defaults(binding: &mut Value, _old: Option<&Value>) {
    match_defaults(binding, "/spec/matchResources");
}

fn match_defaults(document: &mut Value, pointer: &str) {
    if let Some(fields) = object_at(document, pointer) {
        default(fields, "namespaceSelector", json!({}));
        default(fields, "objectSelector", json!({}));
    }
}

/// Checks a rule of a webhook or a policy: the operations and resources that it is for.
pub(super) fn check_rule(report: &mut Report<'_>, rule: &Value, path: &str) {
    const LISTS: [(&str, &str); 3] =
        [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")];
    for (name, words) in LISTS {
        let values = items(&rule[name]);
        if values.is_empty() {
            report.required(format!("{path}.{name}"), "");
        }
        if values.len() > 1 && values.iter().any(|value| value == "*") {
            let detail = format!("if '*' is present, must not specify other {words}");
            report.invalid(format!("{path}.{name}"), &rule[name], &detail);
        }
    }
    for (at, version) in items(&rule["apiVersions"]).iter().enumerate() {
        if text(version).is_empty() {
            report.required(format!("{path}.apiVersions[{at}]"), "");
        }
    }
    check_resources(report, &rule["resources"], &format!("{path}.resources"));
}

/// Checks resources and subresources, as `pods/status`. A wildcard stands alone.
fn check_resources(report: &mut Report<'_>, resources: &Value, path: &str) {
    let list = items(resources);
    if list.is_empty() {
        report.required(path, "");
    }
    let (mut whole, mut parts) = (BTreeSet::new(), BTreeSet::new());
    for (at, value) in list.iter().enumerate() {
        let (path, name) = (format!("{path}[{at}]"), text(value));
        if name.is_empty() {
            report.required(path, "");
            continue;
        }
        let Some((resource, part)) = name.split_once('/') else { continue };
        for (is_covered, wildcard) in
            [(whole.contains(resource), format!("{resource}/*")), (parts.contains(part), format!("*/{part}"))]
        {
            if is_covered {
                let detail = format!("if '{wildcard}' is present, must not specify {name}");
                report.invalid(path.clone(), value, &detail);
            }
        }
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            parts.insert(part);
        }
    }
    if list.len() > 1 && list.iter().any(|value| value == "*/*") {
        report.invalid(path, resources, "if '*/*' is present, must not specify other resources");
    }
    // Kubernetes looks at the last resource alone.
    let last = list.iter().map(text).rfind(|name| !name.is_empty() && !name.contains('/'));
    if list.iter().any(|value| value == "*") && last.is_some_and(|name| name != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        report.invalid(path, resources, detail);
    }
}

/// Checks the conditions of a webhook or a policy.
pub(super) fn check_conditions(report: &mut Report<'_>, conditions: &Value, path: &str, has_params: bool) {
    let environment = Environment::of_conditions(has_params);
    let conditions = items(conditions);
    if conditions.len() > CONDITIONS_MAX {
        report.too_many(path, conditions.len(), CONDITIONS_MAX);
    }
    let mut names = BTreeSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        environment.check(report, &condition["expression"], format!("{path}.expression"), Usage::Match);
        let name = text(&condition["name"]);
        if name.is_empty() {
            report.required(format!("{path}.name"), "");
            continue;
        }
        report.qualified(format!("{path}.name"), &condition["name"]);
        if !names.insert(name) {
            report.duplicate(format!("{path}.name"), &condition["name"]);
        }
    }
}

pub(super) fn check_validating_policy(report: &mut Report<'_>) {
    let environment = check_policy(report);
    let spec = report.at("/spec");
    let (validations, annotations) = (items(&spec["validations"]), items(&spec["auditAnnotations"]));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        report.required("spec.validations", detail);
        report.required("spec.auditAnnotations", detail);
    }
    for (at, validation) in validations.iter().enumerate() {
        check_validation(report, &environment, validation, &format!("spec.validations[{at}]"));
    }
    if annotations.len() > ANNOTATIONS_MAX {
        let detail = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        report.invalid("spec.auditAnnotations", &spec["auditAnnotations"], &detail);
    }
    let mut keys = BTreeSet::new();
    for (at, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{at}]");
        check_annotation(report, &environment, annotation, &path);
        if !keys.insert(text(&annotation["key"])) {
            report.duplicate(format!("{path}.key"), &annotation["key"]);
        }
    }
}

pub(super) fn check_mutating_policy(report: &mut Report<'_>) {
    let environment = check_policy(report);
    let spec = report.at("/spec");
    let mutations = items(&spec["mutations"]);
    if mutations.is_empty() {
        report.required("spec.mutations", "mutations must contain at least one item");
    }
    for (at, mutation) in mutations.iter().enumerate() {
        check_mutation(report, &environment, mutation, &format!("spec.mutations[{at}]"));
    }
    match text(&spec["reinvocationPolicy"]) {
        "" => report.required("spec.reinvocationPolicy", ""),
        "IfNeeded" | "Never" => {}
        _ => report.unsupported("spec.reinvocationPolicy", &spec["reinvocationPolicy"], &["IfNeeded", "Never"]),
    }
}

/// Checks the fields that validating and mutating policies have, and returns the names that their expressions can use.
fn check_policy(report: &mut Report<'_>) -> Environment {
    let spec = report.at("/spec");
    if spec["paramKind"].is_object() {
        check_param_kind(report, &spec["paramKind"]);
    }
    let constraints = &spec["matchConstraints"];
    if constraints.is_null() {
        report.required("spec.matchConstraints", "");
    } else {
        check_match(report, constraints, "spec.matchConstraints");
        if items(&constraints["resourceRules"]).is_empty() {
            report.required("spec.matchConstraints.resourceRules", "");
        }
        if report.at("/kind") == "MutatingAdmissionPolicy" {
            check_mutable(report, constraints, "spec.matchConstraints");
        }
    }
    let is_same = |name: &str, old: &Value| old["spec"][name] == spec[name];
    if !report.old.is_some_and(|old| is_same("paramKind", old) && is_same("matchConditions", old)) {
        let has_params = spec["paramKind"].is_object();
        check_conditions(report, &spec["matchConditions"], "spec.matchConditions", has_params);
    }
    let variables = items(&spec["variables"]);
    let mut environment = Environment::of_policy(spec["paramKind"].is_object(), !variables.is_empty());
    for (at, variable) in variables.iter().enumerate() {
        let path = format!("spec.variables[{at}]");
        let name = text(&variable["name"]);
        if name.trim().is_empty() {
            report.required(format!("{path}.name"), "name is not specified");
        } else if !is_identifier(name) {
            report.invalid(format!("{path}.name"), &variable["name"], "must be a valid CEL identifier");
        }
        environment.define(report, name, &variable["expression"], format!("{path}.expression"));
    }
    environment
}

/// Checks the kind of the parameters of a policy.
fn check_param_kind(report: &mut Report<'_>, kind: &Value) {
    let path = "spec.paramKind.apiVersion";
    let whole = text(&kind["apiVersion"]);
    let (group, version) = whole.split_once('/').unwrap_or(("", whole));
    if whole.is_empty() {
        report.required(path, "");
    } else if version.contains('/') {
        report.invalid(path, &kind["apiVersion"], &format!("unexpected GroupVersion string: {whole}"));
    } else {
        if !group.is_empty() {
            report.subdomain(path.to_owned(), &group.into());
        }
        if version.is_empty() {
            report.invalid(path, &kind["apiVersion"], "version must be specified");
        } else {
            report.form(path, &version.into(), &DNS_1035_LABEL);
        }
    }
    let (path, name) = ("spec.paramKind.kind", text(&kind["kind"]));
    if name.is_empty() {
        report.required(path, "");
    }
    for fault in DNS_1035_LABEL.faults(&name.to_lowercase()).iter().filter(|_| !name.is_empty()) {
        report.invalid(path, &kind["kind"], &format!("may have mixed case, but should otherwise match: {fault}"));
    }
}

/// Checks which resources a policy or a binding is for.
fn check_match(report: &mut Report<'_>, resources: &Value, path: &str) {
    for name in ["namespaceSelector", "objectSelector"] {
        report.selector(&format!("{path}.{name}"), &resources[name]);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in items(&resources[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            let mut names = BTreeSet::new();
            for (at, name) in items(&rule["resourceNames"]).iter().enumerate() {
                let path = format!("{path}.resourceNames[{at}]");
                report.path_segment(&path, name);
                if !names.insert(text(name)) {
                    report.duplicate(path, name);
                }
            }
            check_rule(report, rule, &path);
        }
    }
}

/// Checks that a policy mutates nothing that is being deleted. Kubernetes names the list, and not the rule.
fn check_mutable(report: &mut Report<'_>, resources: &Value, path: &str) {
    let operations = items(&resources["resourceRules"]).iter().flat_map(|rule| items(&rule["operations"]));
    for operation in operations.filter(|operation| !MUTABLE.contains(&text(operation))) {
        report.unsupported(format!("{path}.resourceRules.operations"), operation, &MUTABLE);
    }
}

fn check_validation(report: &mut Report<'_>, environment: &Environment, validation: &Value, path: &str) {
    environment.check(report, &validation["expression"], format!("{path}.expression"), Usage::Condition);
    let message = &validation["messageExpression"];
    if !text(message).trim().is_empty() {
        environment.check(report, message, format!("{path}.messageExpression"), Usage::Message);
    }
    for name in ["messageExpression", "message"] {
        let given = text(&validation[name]);
        if !given.is_empty() && given.trim().is_empty() {
            report.invalid(format!("{path}.{name}"), &validation[name], "must be non-empty if specified");
        }
    }
    if text(&validation["message"]).trim().contains(['\n', '\r']) {
        report.invalid(format!("{path}.message"), &validation["message"], "must not contain line breaks");
    }
    const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    let reason = &validation["reason"];
    if reason.is_string() && !REASONS.contains(&text(reason)) {
        report.unsupported(format!("{path}.reason"), reason, &REASONS);
    }
}

/// Checks an audit annotation. Its key follows the name of the policy.
fn check_annotation(report: &mut Report<'_>, environment: &Environment, annotation: &Value, path: &str) {
    let name = text(report.at("/metadata/name"));
    let key = format!("{name}/{}", text(&annotation["key"]));
    if name.is_empty() {
        report.invalid(format!("{path}.key"), &annotation["key"], "requires metadata.name be non-empty");
    } else {
        report.qualified(format!("{path}.key"), &key.into());
    }
    let value = &annotation["valueExpression"];
    environment.check(report, value, format!("{path}.valueExpression"), Usage::Annotation);
    if text(&annotation["valueExpression"]).trim().len() > ANNOTATION_BYTES_MAX {
        let detail = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
        report.required(format!("{path}.valueExpression"), &detail);
    }
}

/// Checks that a mutation has the patch of its type, and no other.
fn check_mutation(report: &mut Report<'_>, environment: &Environment, mutation: &Value, path: &str) {
    let kind = text(&mutation["patchType"]);
    let (wanted, other, usage) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Usage::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Usage::Application),
        "" => return report.required(format!("{path}.patchType"), ""),
        _ => return,
    };
    if mutation[wanted].is_null() {
        report.required(format!("{path}.{wanted}"), &format!("must be specified when patchType is {kind}"));
    } else {
        let expression = &mutation[wanted]["expression"];
        environment.check(report, expression, format!("{path}.{wanted}.expression"), usage);
    }
    if !mutation[other].is_null() {
        let detail = format!("must not be specified when patchType is {kind}");
        report.invalid(format!("{path}.{other}"), &format!("{{{other}}}").into(), &detail);
    }
}

/// The actions of a binding on a resource that a policy refuses.
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

pub(super) fn check_validating_binding(report: &mut Report<'_>) {
    check_binding(report);
    let mut seen = BTreeSet::new();
    let actions = report.at("/spec/validationActions");
    if items(actions).is_empty() {
        report.required("spec.validationActions", "at least one validation action is required");
    }
    for (at, action) in items(actions).iter().enumerate() {
        if !ACTIONS.contains(&text(action)) {
            report.unsupported(format!("spec.validationActions[{at}]"), action, &ACTIONS);
        }
        if !seen.insert(text(action)) {
            report.duplicate(format!("spec.validationActions[{at}]"), action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
            response and headers serves no purpose)";
        report.invalid("spec.validationActions", actions, detail);
    }
}

pub(super) fn check_mutating_binding(report: &mut Report<'_>) {
    check_binding(report);
    check_mutable(report, report.at("/spec/matchResources"), "spec.matchResources");
}

/// Checks the fields that the bindings of validating and of mutating policies have.
fn check_binding(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    if text(&spec["policyName"]).is_empty() {
        report.required("spec.policyName", "");
    } else {
        report.subdomain("spec.policyName".to_owned(), &spec["policyName"]);
    }
    if spec["paramRef"].is_object() {
        check_param_ref(report, &spec["paramRef"]);
    }
    check_match(report, &spec["matchResources"], "spec.matchResources");
}

/// Checks which parameters a binding names. Any namespace is valid, also none.
fn check_param_ref(report: &mut Report<'_>, reference: &Value) {
    let has_name = !text(&reference["name"]).is_empty();
    let has_selector = reference["selector"].is_object();
    report.path_segment("spec.paramRef.name", &reference["name"]);
    report.selector("spec.paramRef.selector", &reference["selector"]);
    if has_name && has_selector {
        for path in ["spec.paramRef.name", "spec.paramRef.selector"] {
            report.forbidden(path, "name and selector are mutually exclusive");
        }
    }
    if !has_name && !has_selector {
        report.required("spec.paramRef", "one of name or selector must be specified");
    }
    let (path, action) = ("spec.paramRef.parameterNotFoundAction", &reference["parameterNotFoundAction"]);
    match text(action) {
        "" => report.required(path, ""),
        "Allow" | "Deny" => {}
        _ => report.unsupported(path, action, &["Deny", "Allow"]),
    }
}

/// Returns whether a text can be the name of a variable in CEL.
fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && !WORDS_OF_CEL.split(' ').any(|word| word == text)
}

#[cfg(test)]
mod tests;
