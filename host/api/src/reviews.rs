//! Reviews: who a caller is, and what they may do. A review is answered, and nothing is stored.
//!
//! Source: the groups `authentication.k8s.io` and `authorization.k8s.io` of Kubernetes.

use std::sync::Arc;

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use homeostat_builtin::protobuf;
use serde_json::{Value, json};

use crate::access;
use crate::negotiate;
use crate::rbac::role_book::{AUTHENTICATED, RoleBook};
use crate::rbac::{Attributes, PolicyRule};
use crate::request::RequestContext;
use crate::status::Failure;
use crate::tokens::Caller;

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
    negotiate::check_whole(http.headers)?;
    let mut review = http.document()?;
    let fields = review.as_object_mut().ok_or_else(|| Failure::bad_request("the body is not an object"))?;
    fields.insert("apiVersion".to_owned(), format!("{}/v1", http.target.group).into());
    fields.insert("kind".to_owned(), kind.into());
    fields.entry("metadata").or_insert_with(|| json!({}));
    let caller = http.caller.as_deref();
    let status = match kind {
        "SelfSubjectReview" => json!({ "userInfo": user(caller) }),
        "TokenReview" => token_review(http, &review).await,
        "SelfSubjectRulesReview" => rules(caller, &http.api.roles.book(), &review["spec"]),
        "SelfSubjectAccessReview" => access(caller, &http.api.roles.book(), &review["spec"]),
        _ => {
            let subject = subject(http, &review["spec"]).await;
            access(subject.as_deref(), &http.api.roles.book(), &review["spec"])
        }
    };
    review["status"] = status;
    let is_protobuf = http.headers.get("accept").is_some_and(|accept| accept == protobuf::CONTENT_TYPE);
    if is_protobuf {
        let body = protobuf::encode(&review).map_err(|error| Failure::internal(error.to_string()))?;
        return Ok((StatusCode::CREATED, [("content-type", protobuf::CONTENT_TYPE)], body).into_response());
    }
    Ok((StatusCode::CREATED, Json(review)).into_response())
}

/// Returns the user of a caller.
fn user(caller: Option<&Caller>) -> Value {
    let name = caller.map_or(LOCAL_USER, |caller| &caller.name);
    let groups = caller.map_or(&[][..], |caller| &caller.groups);
    let groups: Vec<&str> = groups.iter().map(String::as_str).chain([AUTHENTICATED]).collect();
    json!({ "username": name, "groups": groups })
}

/// Returns the user and the groups that a review names, with the rights of the token of that name; `None` on a host
/// without tokens, where everybody may do everything.
async fn subject(http: &RequestContext<'_>, spec: &Value) -> Option<Arc<Caller>> {
    let tokens = http.api.tokens.as_ref()?;
    let name = spec["user"].as_str().unwrap_or_default();
    let named = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let (rules, access, mut groups) = match tokens.find(name).await {
        Some(found) => (found.rules.clone(), found.access, found.groups.clone()),
        None => (Vec::new(), None, Vec::new()),
    };
    groups.extend(named);
    Some(Arc::new(Caller { name: name.to_owned(), groups, access, rules }))
}

/// Returns whether a caller may do what a review asks for.
fn access(caller: Option<&Caller>, roles: &RoleBook, spec: &Value) -> Value {
    let allowed = match (caller, Attributes::of_review(spec)) {
        (None, _) => true,
        (Some(caller), Some(request)) => access::is_allowed(caller, roles, &request),
        (Some(_), None) => false,
    };
    json!({ "allowed": allowed })
}

/// Returns the rules of a caller in the namespace of a review.
fn rules(caller: Option<&Caller>, roles: &RoleBook, spec: &Value) -> Value {
    let everything = [PolicyRule::everywhere(&["*"])];
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    let rules: Vec<&PolicyRule> = match caller {
        None => everything.iter().collect(),
        Some(caller) => caller.rules.iter().chain(roles.rules(&caller.name, &caller.groups)).collect(),
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
    let of_everybody = json!({ "verbs": ["get"], "nonResourceURLs": access::paths_of_everybody() });
    json!({
        "resourceRules": of_resources.chain(of_self).collect::<Vec<_>>(),
        "nonResourceRules": of_paths.chain([of_everybody]).collect::<Vec<_>>(),
        "incomplete": false,
    })
}

async fn token_review(http: &RequestContext<'_>, review: &Value) -> Value {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    let found = match http.api.tokens.as_ref() {
        Some(tokens) => tokens.owner(token).await,
        None => None,
    };
    match found {
        Some(caller) => json!({ "authenticated": true, "user": user(Some(&caller)) }),
        None => json!({ "authenticated": false, "user": {}, "error": "the token is not known" }),
    }
}
