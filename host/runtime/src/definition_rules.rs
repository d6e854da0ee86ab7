//! The defaults of definitions, and the rules that a definition obeys when it is written, beyond the needs of its kind. A
//! definition that was stored without them is served all the same.
//!
//! Source: `pkg/apis/apiextensions` of `k8s.io/apiextensions-apiserver`.

mod conversion;
mod names;
mod schema;
mod versions;

use homeostat_cel::names::NameForm;
use homeostat_store::schema::{KindRules, Reason, Schema, VIOLATIONS_MAX, Violation};
use homeostat_store::{Kind, Subresource};
use serde_json::{Map, Value, json};

use self::versions::Versions;
use crate::conditions::Condition;

/// The annotation that names the approval of a definition in a group of Kubernetes.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// The port of a service that answers webhooks.
const HTTPS: u16 = 443;

/// Returns the schema of definitions: any fields, with these defaults.
pub(crate) fn schema(_: &Kind) -> Option<Schema> {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Schema::parse_with_rules(&open, &DefinitionRules).ok()
}

struct DefinitionRules;

impl KindRules for DefinitionRules {
    fn set_defaults(&self, definition: &mut Value, _old: Option<&Value>) {
        let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
        let set = |fields: &mut Map<String, Value>, name: &str, value: Value| {
            if fields.get(name).is_none_or(|given| given.is_null() || given == "") {
                fields.insert(name.to_owned(), value);
            }
        };
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
            && let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned)
            && !kind.is_empty()
        {
            set(names, "singular", kind.to_lowercase().into());
            set(names, "listKind", format!("{kind}List").into());
        }
        set(spec, "conversion", json!({ "strategy": "None" }));
        let service =
            spec.get_mut("conversion").and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"));
        if let Some(service) = service.and_then(Value::as_object_mut) {
            set(service, "port", HTTPS.into());
        }
        // Kubernetes stores no false value of it.
        if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
            spec.remove("preserveUnknownFields");
        }
    }

    /// The rules are checked before the store decides the write: see [`violations`].
    fn check(&self, _definition: &Value, _old: Option<&Value>, _subresource: Option<Subresource>) -> Vec<Violation> {
        Vec::new()
    }

    fn first_status(&self, _definition: &Value) -> Value {
        Value::Null
    }
}

/// Returns a definition with its defaults.
pub(crate) fn with_defaults(definition: &Value) -> Value {
    let mut definition = definition.clone();
    DefinitionRules.set_defaults(&mut definition, None);
    definition
}

/// Returns what violates the rules in a definition with its defaults. `old` is the definition before the write, `None` for one
/// that is created.
pub(crate) fn violations(definition: &Value, old: Option<&Value>) -> Vec<Violation> {
    let (spec, mut violations) = (&definition["spec"], Vec::new());
    if old.is_none_or(|old| old["spec"] != *spec) {
        if old.is_none() {
            names::check_definition_name(definition, &mut violations);
        }
        let versions = Versions::of(spec);
        check_specification(spec, &versions, &mut violations);
        match old {
            Some(old) => names::check_unchanged(spec, old, &mut violations),
            None => versions.check_stored(&mut violations),
        }
        if versions.is_empty() {
            violations.extend(versions.missing(&definition["status"]));
        }
    }
    violations.extend(unapproved(definition, old));
    if spec["preserveUnknownFields"] == true && old.is_none_or(|old| old["spec"]["preserveUnknownFields"] != true) {
        let words = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                     instead";
        violations.push(invalid("spec.preserveUnknownFields", format!("true: {words}")));
    }
    violations
}

/// Returns a violation for each version that a definition has lost, and in which resources may be stored.
pub(crate) fn missing_versions(definition: &Value) -> Vec<Violation> {
    Versions::of(&definition["spec"]).missing(&definition["status"]).collect()
}

/// Checks a specification, in the order of Kubernetes.
fn check_specification(spec: &Value, versions: &Versions<'_>, violations: &mut Vec<Violation>) {
    names::check_place(spec, violations);
    versions.check_each(violations);
    names::check_names(&spec["names"], violations);
    versions.check_shared(violations);
    conversion::check(&spec["conversion"], violations);
    violations.truncate(VIOLATIONS_MAX);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks that a text has a form.
fn form(path: String, value: &Value, form: &NameForm, violations: &mut Vec<Violation>) {
    let faults = form.faults(text(value));
    if !faults.is_empty() {
        violations.push(invalid(path, format!("{:?}: {}", text(value), faults.join(","))));
    }
}

fn violation(path: impl Into<String>, reason: Reason, detail: impl Into<String>) -> Violation {
    Violation { path: path.into(), reason, detail: detail.into() }
}

fn invalid(path: impl Into<String>, detail: impl Into<String>) -> Violation {
    violation(path, Reason::Invalid, detail)
}

/// The approval of a definition, as its annotation states it.
#[derive(PartialEq)]
enum Approval {
    Missing,
    Given,
    Bypassed,
    Invalid,
}

impl Approval {
    fn of(definition: &Value) -> Self {
        match definition["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default() {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            text if has_host(text) => Self::Given,
            _ => Self::Invalid,
        }
    }
}

/// Returns whether a text is a URL with a scheme and a host.
fn has_host(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        !scheme.is_empty() && scheme.bytes().all(is_name) && !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
    })
}

/// Returns whether a definition is in a group of Kubernetes.
fn is_of_kubernetes(definition: &Value) -> bool {
    let group = text(&definition["spec"]["group"]);
    let is_in = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    is_in("k8s.io") || is_in("kubernetes.io")
}

/// The condition that tells the approval of a definition in a group of Kubernetes.
pub(crate) const APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";

/// Returns the condition [`APPROVED`] of a definition; `None` if it is in no group of Kubernetes.
pub(crate) fn approval_condition(definition: &Value) -> Option<Condition> {
    if !is_of_kubernetes(definition) {
        return None;
    }
    let given = text(&definition["metadata"]["annotations"][APPROVAL]);
    let (holds, reason, message) = match Approval::of(definition) {
        Approval::Given => (true, "ApprovedAnnotation", format!("approved in {given}")),
        Approval::Bypassed => (false, "UnapprovedAnnotation", format!("not approved: {given:?}")),
        Approval::Missing => (false, "MissingAnnotation", format!("the annotation {APPROVAL:?} is missing")),
        Approval::Invalid => {
            (false, "InvalidAnnotation", format!("the annotation {APPROVAL:?} names no URL: {given:?}"))
        }
    };
    Some((APPROVED, holds, reason, message))
}

/// Returns the violation of a definition in a group of Kubernetes that nobody approved. It may stay as it is.
fn unapproved(definition: &Value, old: Option<&Value>) -> Option<Violation> {
    let approval = Approval::of(definition);
    if !is_of_kubernetes(definition) || old.is_some_and(|old| Approval::of(old) == approval) {
        return None;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    let needed = format!("groups of Kubernetes need the annotation {APPROVAL:?}");
    match approval {
        Approval::Given | Approval::Bypassed => None,
        Approval::Missing => Some(violation(path, Reason::Required, needed)),
        Approval::Invalid => {
            let given = &definition["metadata"]["annotations"][APPROVAL];
            let detail = format!("{given}: {needed} with a URL, or with a reason that begins with \"unapproved\"");
            Some(invalid(path, detail))
        }
    }
}

#[cfg(test)]
mod tests;
