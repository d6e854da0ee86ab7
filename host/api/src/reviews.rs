//! Reviews: who a caller is, and what they may do. A review is answered, and nothing is stored.
//!
//! Source: the groups `authentication.k8s.io` and `authorization.k8s.io` of Kubernetes.

mod check;

use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::rbac::role_book::RoleBook;
use crate::rbac::{Attributes, PolicyRule};
use crate::request::RequestContext;
use crate::status::Failure;
use crate::{access, service_accounts};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// The reviews: group, plural, kind, and whether they are asked in a namespace.
const REVIEWS: [(&str, &str, &str, bool); 6] = [
    (AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", false),
    (AUTHENTICATION, "tokenreviews", "TokenReview", false),
    (AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    (AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    (AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    (AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", false),
];

/// The name of a caller on a host without tokens: whoever is on this machine.
const LOCAL_USER: &str = "local";

/// Returns the reviews of a group for discovery: plural, kind, and whether they are asked in a namespace.
pub(crate) fn of_group(group: &str) -> impl Iterator<Item = (&'static str, &'static str, bool)> + '_ {
    REVIEWS
        .iter()
        .filter(move |review| review.0 == group)
        .map(|(_, plural, kind, namespaced)| (*plural, *kind, *namespaced))
}

/// Returns the groups that have reviews alone.
pub(crate) fn groups() -> [&'static str; 2] {
    [AUTHENTICATION, AUTHORIZATION]
}

/// Returns whether a request is a review of the caller's own rights, which each caller may ask.
pub(crate) fn is_of_self(group: &str, plural: &str) -> bool {
    matches!(group, AUTHENTICATION | AUTHORIZATION) && plural.starts_with("selfsubject")
}

/// Answers a review; `None` for a request that is none.
pub(crate) async fn answer(http: &RequestContext<'_>) -> Option<Result<Response, Failure>> {
    let target = &http.target;
    let is_meant = |review: &&(&str, &str, &str, bool)| review.0 == target.group && review.1 == target.plural;
    let (.., kind, _) = REVIEWS.iter().find(is_meant).filter(|_| target.version == "v1")?;
    if *http.method != Method::POST || target.name.is_some() {
        return Some(Err(http.not_allowed()));
    }
    Some(review(http, kind).await)
}

async fn review(http: &RequestContext<'_>, kind: &str) -> Result<Response, Failure> {
    let mut review = http.document()?;
    let fields = review.as_object_mut().ok_or_else(|| Failure::bad_request("the body is not an object"))?;
    fields.insert("apiVersion".to_owned(), format!("{}/v1", http.target.group).into());
    fields.insert("kind".to_owned(), kind.into());
    fields.entry("metadata").or_insert_with(|| json!({}));
    check::check(http, kind, &review)?;
    let caller = http.caller.as_deref();
    let status = match kind {
        "SelfSubjectReview" => json!({ "userInfo": user(caller) }),
        "TokenReview" => token_review(http, &review).await?,
        "SelfSubjectRulesReview" => rules(caller, &*http.api.roles.book().await, &review["spec"]),
        "SelfSubjectAccessReview" => access(caller, &*http.api.roles.book().await, &review["spec"]),
        _ => {
            let subject = subject(http, &review["spec"]).await;
            access(subject.as_ref(), &*http.api.roles.book().await, &review["spec"])
        }
    };
    review["status"] = status;
    http.created(review)
}

/// Returns the user of a caller.
pub(crate) fn user(caller: Option<&Caller>) -> Value {
    match caller {
        Some(caller) => caller.user_info(),
        None => Caller { name: LOCAL_USER.to_owned(), ..Caller::default() }.user_info(),
    }
}

/// Returns the user and the groups that a review names, with the rights of the token of that name; `None` for a program on
/// this machine, on a host without tokens.
async fn subject(http: &RequestContext<'_>, spec: &Value) -> Option<Caller> {
    let name = spec["user"].as_str().unwrap_or_default();
    let named = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let known = match &http.api.tokens {
        None if name == LOCAL_USER => return None,
        None => None,
        Some(tokens) => tokens.owner(name).await,
    };
    let mut caller = known.map_or_else(Caller::default, |known| Caller::clone(&known));
    caller.name = name.to_owned();
    caller.groups.extend(named);
    Some(caller)
}

/// Returns whether a caller may do what a review asks for.
fn access(caller: Option<&Caller>, roles: &RoleBook, spec: &Value) -> Value {
    let (Some(caller), request) = (caller, Attributes::of_review(spec)) else { return json!({ "allowed": true }) };
    if request.as_ref().is_some_and(|request| access::is_allowed(caller, roles, request)) {
        return json!({ "allowed": true });
    }
    match roles.missing(caller, request.and_then(|request| request.namespace())) {
        Some(reason) => json!({ "allowed": false, "reason": reason }),
        None => json!({ "allowed": false }),
    }
}

/// Returns the rules of a caller in the namespace of a review.
fn rules(caller: Option<&Caller>, roles: &RoleBook, spec: &Value) -> Value {
    let everything = [PolicyRule::everywhere(&["*"])];
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    let rules: Vec<&PolicyRule> = match caller {
        None => everything.iter().collect(),
        Some(caller) => caller.rules.iter().chain(roles.rules(caller)).collect(),
    };
    let applies =
        |rule: &&&PolicyRule| rule.namespaces.is_empty() || rule.namespaces.iter().any(|one| one == namespace);
    let of_resources = rules.iter().filter(applies).filter(|rule| !rule.resources.is_empty()).map(|rule| {
        let PolicyRule { verbs, api_groups, resources, resource_names, .. } = rule;
        json!({ "verbs": verbs, "apiGroups": api_groups, "resources": resources, "resourceNames": resource_names })
    });
    let of_paths = rules.iter().filter(|rule| !rule.paths.is_empty());
    let of_paths = of_paths.map(|rule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths }));
    let of_self = [
        (AUTHENTICATION, &["selfsubjectreviews"][..]),
        (AUTHORIZATION, &["selfsubjectaccessreviews", "selfsubjectrulesreviews"][..]),
    ];
    let of_self =
        of_self.map(|(group, resources)| json!({ "verbs": ["create"], "apiGroups": [group], "resources": resources }));
    let of_everybody = json!({ "verbs": ["get"], "nonResourceURLs": access::patterns_of(caller) });
    json!({
        "resourceRules": of_resources.chain(of_self).collect::<Vec<_>>(),
        "nonResourceRules": of_paths.chain([of_everybody]).collect::<Vec<_>>(),
        "incomplete": false,
    })
}

/// Returns whose token a review has. A token of the file is for the audience of this API, as one of a service account is if
/// it names none.
async fn token_review(http: &RequestContext<'_>, review: &Value) -> Result<Value, Failure> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted = review["spec"]["audiences"].as_array().into_iter().flatten();
    let wanted: Vec<String> = wanted.filter_map(Value::as_str).map(str::to_owned).collect();
    let is_own = wanted.is_empty() || wanted.iter().any(|audience| audience == service_accounts::ISSUER);
    if let Some(tokens) = http.api.tokens.as_ref().filter(|_| is_own)
        && let Some(known) = tokens.find(token).await
    {
        return Ok(json!({
            "authenticated": true, "user": known.owner.user_info(), "audiences": [service_accounts::ISSUER],
        }));
    }
    Ok(match http.api.service_accounts.authenticate(token, &wanted).await {
        Ok(Some(token)) => {
            json!({ "authenticated": true, "user": token.caller.user_info(), "audiences": token.audiences })
        }
        Ok(None) => json!({ "authenticated": false, "user": {}, "error": "the token is not known" }),
        Err(error) => {
            json!({ "authenticated": false, "user": {}, "error": format!("[invalid bearer token, {error}]") })
        }
    })
}
