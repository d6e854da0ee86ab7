//! Keeps callers from giving rights away that they do not have, by a role or a binding.

use axum::http::Method;
use serde_json::Value;

use crate::access::is_allowed;
use crate::rbac::role_book::{RoleBook, rules_of};
use crate::rbac::{Attributes, PolicyRule, Subject, escalation};
use crate::request::RequestContext;
use crate::role_watch::GROUP;
use crate::status::Failure;

/// Most objects in the message of a refusal.
const SHOWN_MAX: usize = 100;

/// Refuses the write of a role whose rules its writer does not have, and of a binding to such a role.
///
/// The verb `escalate` on roles, or `bind` on the role, allows it. A patch needs them in any case, because its result is
/// not known before it is decided. Source: Kubernetes, which compares the result of a patch.
pub(crate) async fn check(http: &RequestContext<'_>) -> Result<(), Failure> {
    let Some(caller) = &http.caller else { return Ok(()) };
    let is_write = matches!(*http.method, Method::POST | Method::PUT | Method::PATCH);
    if http.target.group != GROUP || !is_write {
        return Ok(());
    }
    let book = http.api.roles.book().await;
    let allowed = |request: &Attributes<'_>| is_allowed(caller, &book, request);
    if escalation(&[PolicyRule::everywhere(&["*"])], allowed).is_none() {
        return Ok(());
    }
    let (plural, namespace) = (http.target.plural, http.target.namespace);
    let on = |verb, plural, name| {
        let about = Subject::Resource { group: GROUP, plural, subresource: None, namespace, name };
        allowed(&Attributes { verb, about })
    };
    let is_role = matches!(plural, "roles" | "clusterroles");
    if is_role && on("escalate", plural, http.target.name) {
        return Ok(());
    }
    if *http.method == Method::PATCH {
        let words = "a patch of it needs the verb `escalate` on roles: create it, or update it as a whole";
        return Err(Failure::forbidden(format!("{plural} are refused to user \"{}\": {words}", caller.name)));
    }
    let document = http.document()?;
    let given = if is_role {
        if !document["aggregationRule"].is_null() {
            return Err(Failure::forbidden("a role that aggregates others needs the verb `escalate` on clusterroles"));
        }
        rules_of(&document)
    } else {
        let reference = &document["roleRef"];
        let role = if reference["kind"] == "ClusterRole" { "clusterroles" } else { "roles" };
        if on("bind", role, reference["name"].as_str()) {
            return Ok(());
        }
        rules_of_reference(&book, namespace, reference)?
    };
    let given: Vec<PolicyRule> = match namespace {
        Some(namespace) => given.into_iter().map(|rule| rule.within(namespace)).collect(),
        None => given,
    };
    let missing = given.iter().flat_map(PolicyRule::requests).filter(|request| !allowed(request));
    let missing = compact(missing);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<&str> = caller.all_groups().collect();
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    Err(Failure::forbidden(format!(
        "{plural}.{GROUP} {name:?} is forbidden: user {:?} (groups={}) is attempting to grant RBAC permissions not currently \
         held:\n{}",
        caller.name,
        quoted(groups),
        missing.join("\n")
    )))
}

fn rules_of_reference(book: &RoleBook, namespace: Option<&str>, reference: &Value) -> Result<Vec<PolicyRule>, Failure> {
    let name = reference["name"].as_str().unwrap_or_default();
    let rules = book.role(namespace.unwrap_or_default(), reference).map(<[PolicyRule]>::to_vec);
    rules.ok_or_else(|| Failure::not_found(format!("the role {name:?} is not found")))
}

/// Returns requests as rules, in the words of Kubernetes: one for each object, with its verbs.
fn compact<'r>(requests: impl Iterator<Item = Attributes<'r>>) -> Vec<String> {
    let mut rules: Vec<(Subject<'r>, Vec<&'r str>)> = Vec::new();
    for Attributes { verb, about } in requests {
        match rules.iter().position(|(known, _)| *known == about) {
            Some(at) => rules[at].1.push(verb),
            None if rules.len() == SHOWN_MAX => break,
            None => rules.push((about, vec![verb])),
        }
    }
    let mut shown: Vec<String> = rules.into_iter().map(|(about, verbs)| rule(about, verbs)).collect();
    shown.sort_unstable();
    shown
}

fn rule(about: Subject<'_>, verbs: Vec<&str>) -> String {
    let verbs = quoted(verbs);
    match about {
        Subject::Path(path) => format!("{{NonResourceURLs:[{path:?}], Verbs:{verbs}}}"),
        Subject::Resource { group, plural, subresource, name, .. } => {
            let part = subresource.map(|part| format!("/{part}")).unwrap_or_default();
            let names = name.map(|name| format!(", ResourceNames:[{name:?}]")).unwrap_or_default();
            let resource = format!("{plural}{part}");
            format!("{{APIGroups:[{group:?}], Resources:[{resource:?}]{names}, Verbs:{verbs}}}")
        }
    }
}

/// Returns a list as Go prints it.
fn quoted(list: Vec<&str>) -> String {
    let list: Vec<String> = list.into_iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", list.join(" "))
}
