//! Keeps callers from giving rights away that they do not have, by a role or a binding.

use axum::http::Method;
use serde_json::Value;

use crate::access::is_allowed;
use crate::rbac::role_book::{RoleBook, rules_of};
use crate::rbac::{Attributes, PolicyRule, Subject, escalation};
use crate::request::RequestContext;
use crate::role_watch::GROUP;
use crate::status::Failure;

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
    match escalation(&given, allowed) {
        None => Ok(()),
        Some(request) => Err(Failure::forbidden(format!(
            "user \"{}\" is attempting to grant RBAC permissions not currently held: {}",
            caller.name,
            shown(&request)
        ))),
    }
}

fn rules_of_reference(book: &RoleBook, namespace: Option<&str>, reference: &Value) -> Result<Vec<PolicyRule>, Failure> {
    let name = reference["name"].as_str().unwrap_or_default();
    let rules = book.role(namespace.unwrap_or_default(), reference).map(<[PolicyRule]>::to_vec);
    rules.ok_or_else(|| Failure::not_found(format!("the role {name:?} is not found")))
}

fn shown(request: &Attributes<'_>) -> String {
    let verb = request.verb;
    match request.about {
        Subject::Path(path) => format!("{verb} {path:?}"),
        Subject::Resource { group, plural, subresource, .. } => {
            let part = subresource.map(|part| format!("/{part}")).unwrap_or_default();
            format!("{verb} {:?} in the API group {group:?}", format!("{plural}{part}"))
        }
    }
}
