//! Reviews: who a caller is, and what they may do. A review is answered, and nothing is stored.
//!
//! Source: the groups `authentication.k8s.io` and `authorization.k8s.io` of Kubernetes.

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use homeostat_builtin::protobuf;
use serde_json::{Value, json};

use crate::request::RequestContext;
use crate::status::Failure;
use crate::tokens::{Access, Caller};

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
/// The group of all callers that are authenticated.
const AUTHENTICATED: &str = "system:authenticated";

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
    let caller = http.caller.as_deref();
    let status = match kind {
        "SelfSubjectReview" => json!({ "userInfo": user(caller) }),
        "TokenReview" => token_review(http, &review).await,
        "SelfSubjectRulesReview" => rules(caller),
        "SelfSubjectAccessReview" => access(caller.map_or(Access::Write, |caller| caller.access), &review["spec"]),
        // Tokens have the users of a host, and no other user has rights.
        _ => {
            let name = review["spec"]["user"].as_str().unwrap_or_default();
            match http.api.tokens.as_ref() {
                Some(tokens) => match tokens.find(name).await {
                    Some(found) => access(found.access, &review["spec"]),
                    None => json!({ "allowed": false, "reason": "no token has this user" }),
                },
                None => access(Access::Write, &review["spec"]),
            }
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
    json!({ "username": name, "groups": [AUTHENTICATED] })
}

/// Returns whether an access allows what a review asks for.
fn access(access: Access, spec: &Value) -> Value {
    let verb = spec.pointer("/resourceAttributes/verb").or_else(|| spec.pointer("/nonResourceAttributes/verb"));
    let verb = verb.and_then(Value::as_str).unwrap_or_default();
    if access == Access::Write || matches!(verb, "get" | "list" | "watch" | "head" | "options") {
        return json!({ "allowed": true });
    }
    json!({ "allowed": false, "reason": "the token is read-only" })
}

fn rules(caller: Option<&Caller>) -> Value {
    let writes = caller.is_none_or(|caller| caller.access == Access::Write);
    let verbs = if writes { json!(["*"]) } else { json!(["get", "list", "watch"]) };
    json!({
        "resourceRules": [{ "verbs": verbs, "apiGroups": ["*"], "resources": ["*"] }],
        "nonResourceRules": [{ "verbs": verbs, "nonResourceURLs": ["*"] }],
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
