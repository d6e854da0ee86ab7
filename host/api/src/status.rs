//! Every refusal, as the `Status` document that Kubernetes clients understand, and the same of a success.

use std::borrow::Cow;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use homeostat_store::Kind;
use homeostat_store::schema::Reason;
use serde_json::{Value, json};

use crate::document_response::respond;
use crate::path::Target;
use crate::warnings;

mod causes;

/// The `Retry-After` of a host that is starting, in seconds.
const UNREADY_S: u32 = 1;

/// A refused request: status code, CamelCase reason, and a message for people.
#[derive(Debug)]
pub(crate) struct Failure {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Box<Value>,
    /// The metadata of the `Status`.
    metadata: Box<Value>,
    /// The failure is about the resource itself, as the store has it.
    of_resource: bool,
    /// The resource's name, if the path has none.
    name: Option<Box<str>>,
    /// The failure is about no resource, as clients see it.
    is_bare: bool,
    /// The answer is a page of text, and no `Status`.
    is_page: bool,
    /// Seconds after which the client may retry.
    retry_after_s: Option<u32>,
    /// Warnings for the client.
    warnings: Vec<String>,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            reason: reason.into(),
            message,
            details: Box::new(json!({})),
            metadata: Box::new(json!({})),
            of_resource: false,
            name: None,
            is_bare: false,
            is_page: false,
            retry_after_s: None,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(crate) fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Refuses the page of a continue token that has expired, in the words of Kubernetes. With the token that the answer
    /// contains, the client can go on.
    pub(crate) fn expired_page(next: &str) -> Self {
        let mut failure = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
             the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
             Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the list.",
        );
        failure.metadata["continue"] = next.into();
        failure
    }

    /// Refuses a write whose precondition does not hold. As in Kubernetes, it names the kind in place of the plural.
    pub(crate) fn unmet(kind: &Kind, name: &str, reason: &str) -> Self {
        let whole = [kind.name.as_str(), kind.group.as_str()].join(".");
        let whole = whole.trim_end_matches('.');
        let message = format!("Operation cannot be fulfilled on {whole} \"{name}\": {reason}");
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message);
        *failure.details = json!({ "name": name, "kind": kind.name });
        if !kind.group.is_empty() {
            failure.details["group"] = kind.group.clone().into();
        }
        failure
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    }

    /// Refuses a request because a limit is reached for now.
    pub(crate) fn too_many(retry_after_s: u32, message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).for_now(retry_after_s)
    }

    /// Refuses a request that needs a host which is ready.
    pub(crate) fn unready(message: impl Into<String>) -> Self {
        Self::unavailable_for(UNREADY_S, message)
    }

    /// Refuses a request for now.
    pub(crate) fn unavailable_for(retry_after_s: u32, message: impl Into<String>) -> Self {
        Self::unavailable(message).for_now(retry_after_s)
    }

    /// Says after which time the client may retry.
    fn for_now(mut self, retry_after_s: u32) -> Self {
        self.details["retryAfterSeconds"] = retry_after_s.into();
        Self { retry_after_s: Some(retry_after_s), ..self }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// Refuses a path that no group has, in the words of Kubernetes: with a page of text.
    pub(crate) fn unknown_page() -> Self {
        Self { is_bare: true, is_page: true, ..Self::not_found("404 page not found") }
    }

    /// Refuses a path without a meaning in its group, in the words of Kubernetes.
    pub(crate) fn unknown_path() -> Self {
        Self::not_found("the server could not find the requested resource")
    }

    /// Refuses a request for one field, as Kubernetes does: `words` and the message of the cause.
    fn invalid_field(words: &str, reason: Reason, field: &str, detail: &str) -> Self {
        let message = format!("{reason}: {detail}");
        let whole = format!("{words}{field}: {message}");
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", whole);
        failure.details["causes"] = json!([{ "reason": reason.cause(), "message": message, "field": field }]);
        failure
    }

    /// Refuses a document that is not the resource of the path, in the words of Kubernetes. `of` is its group and kind.
    pub(crate) fn invalid_of(of: (&str, &str), name: &str, reason: Reason, field: &str, detail: &str) -> Self {
        let (group, kind) = of;
        let whole = [kind, group].join(".");
        let words = format!("{} {name:?} is invalid: ", whole.trim_end_matches('.'));
        let mut failure = Self::invalid_field(&words, reason, field, detail);
        failure.details["kind"] = kind.into();
        if !group.is_empty() {
            failure.details["group"] = group.into();
        }
        if !name.is_empty() {
            failure.details["name"] = name.into();
        }
        Self { is_bare: true, ..failure }
    }

    /// Refuses an option of a request, in the words of Kubernetes. `options` is their kind, as `PatchOptions`.
    pub(crate) fn bad_option(options: &str, reason: Reason, field: &str, detail: &str) -> Self {
        Self::invalid_of(("meta.k8s.io", options), "", reason, field, detail)
    }

    /// Says that a resource that the request is not about is missing, in the words of Kubernetes.
    pub(crate) fn not_found_of(plural: &str, name: &str) -> Self {
        let mut failure = Self::not_found(format!("{plural} {name:?} not found"));
        *failure.details = json!({ "name": name, "kind": plural });
        Self { is_bare: true, ..failure }
    }

    /// Adds another cause.
    pub(crate) fn with_cause(mut self, reason: Reason, field: &str, detail: &str) -> Self {
        let cause = json!({ "reason": reason.cause(), "message": format!("{reason}: {detail}"), "field": field });
        if let Some(causes) = self.details["causes"].as_array_mut() {
            causes.insert(0, cause);
        }
        self
    }

    /// Refuses a document that has faults, with a cause for each: the field, the reason and the detail. `of` is as for
    /// [`Failure::invalid_of`].
    pub(crate) fn check_faults(of: (&str, &str), name: &str, faults: &[(String, Reason, String)]) -> Result<(), Self> {
        let Some(((field, reason, detail), others)) = faults.split_last() else { return Ok(()) };
        let last = Self::invalid_of(of, name, *reason, field, detail);
        let with_other = |failure: Self, (field, reason, detail): &(String, Reason, String)| {
            failure.with_cause(*reason, field, detail)
        };
        Err(others.iter().rev().fold(last, with_other))
    }

    /// Refuses an apply without a field manager, in the words of Kubernetes.
    pub(crate) fn no_manager() -> Self {
        Self::bad_option("PatchOptions", Reason::Required, "fieldManager", "is required for apply patch")
    }

    /// Refuses a document of another namespace than that of its path, in the words of Kubernetes.
    pub(crate) fn other_namespace() -> Self {
        Self::bad_request("the namespace of the provided object does not match the namespace sent on the request")
    }

    /// Refuses a document of another kind than that of its path, in the words of Kubernetes.
    pub(crate) fn other_kind(kind: &Kind, other: &str, name: &str) -> Self {
        let detail = format!("{other:?}: must be {}", kind.name);
        Self::invalid_of((&kind.group, other), name, Reason::Invalid, "kind", &detail)
    }

    /// Refuses a request for a part of a resource in its present state, as Kubernetes does.
    pub(crate) fn conflict_of(what: &str, name: &str, reason: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {reason}");
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message);
        *failure.details = json!({ "name": name, "kind": what });
        Self { is_bare: true, ..failure }
    }

    /// Refuses an eviction that a disruption budget does not allow now, in the words of Kubernetes.
    pub(crate) fn disruption(retry_after_s: Option<u32>, cause: &str) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut failure = match retry_after_s {
            Some(seconds) => Self::too_many(seconds, message),
            None => Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message),
        };
        failure.details["causes"] = json!([{ "reason": "DisruptionBudget", "message": cause }]);
        Self { is_bare: true, ..failure }
    }

    /// Refuses an update that names no revision, in the words of Kubernetes.
    pub(crate) fn no_revision(name: &str) -> Self {
        let detail = "0: must be specified for an update";
        let failure = Self::invalid_field("", Reason::Invalid, "metadata.resourceVersion", detail);
        Self { name: Some(name.into()), ..failure }
    }

    /// Refuses a request with a `Status` that an admission webhook gave, or that is about it.
    fn of_status(status: &Value) -> Self {
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
        let failure = Self::new(code, "", text("message"));
        Self { reason: text("reason").into(), details: Box::new(status["details"].clone()), is_bare: true, ..failure }
    }

    /// Puts words before the message.
    pub(crate) fn after(mut self, words: &str) -> Self {
        self.message.insert_str(0, words);
        self
    }

    /// Refuses a patch that does not fit its resource, in the words of Kubernetes.
    pub(crate) fn bad_patch(patch: &str, reason: &str) -> Self {
        let detail = format!("{patch:?}: {reason}");
        Self { is_bare: true, ..Self::invalid_field(" \"\" is invalid: ", Reason::Invalid, "patch", &detail) }
    }

    /// Refuses a JSON patch one of whose operations fails, in the words of Kubernetes.
    pub(crate) fn failed_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self { is_bare: true, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// Refuses a document that cannot be applied, because it does not have the types of its kind, in the words of
    /// Kubernetes.
    pub(crate) fn untyped(kind: &Kind, document: &Value, reason: &str) -> Self {
        let text = |name: &str| document["metadata"][name].as_str().unwrap_or_default();
        let slash = if kind.group.is_empty() { "/" } else { "" };
        Self::unexplained(format!(
            "failed to create typed patch object ({}/{}; {slash}{}, Kind={}): {reason}",
            text("namespace"),
            text("name"),
            kind.api_version(),
            kind.name
        ))
    }

    /// Refuses a request as Kubernetes does where it expects no error: with the code 500, and without a reason.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self { is_bare: true, ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message) }
    }

    /// Sets the warnings of the response.
    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Names the resource that was to be created, if the failure does not.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.into());
        self
    }

    /// Names the kind of an invalid resource, as Kubernetes does.
    pub(crate) fn of_kind(mut self, kind: Option<&Kind>) -> Self {
        let Some(kind) = kind.filter(|_| self.reason == "Invalid" && !self.is_bare) else { return self };
        self.details["kind"] = kind.name.clone().into();
        if !self.message.contains(" is invalid: ") {
            let whole = [kind.name.as_str(), kind.group.as_str()].join(".");
            let name = self.details["name"].as_str().unwrap_or_default();
            self.message = format!("{} {name:?} is invalid: {}", whole.trim_end_matches('.'), self.message);
        }
        self
    }

    /// Adds the target of the request. A missing or existing resource is named in the words of Kubernetes.
    pub(crate) fn about(mut self, target: &Target<'_>) -> Self {
        if self.is_bare {
            return self;
        }
        let plural = [target.plural, target.group].join(".");
        let plural = plural.trim_end_matches('.');
        let name = target.name.map(Box::from).or(self.name.take());
        match (self.of_resource, &name) {
            (true, Some(name)) if self.reason == "NotFound" => self.message = format!("{plural} \"{name}\" not found"),
            (true, Some(name)) if self.reason == "AlreadyExists" => {
                self.message = format!("{plural} \"{name}\" already exists");
            }
            (true, Some(name)) if self.reason == "Conflict" => {
                self.message = format!(
                    "Operation cannot be fulfilled on {plural} \"{name}\": the object has been modified; please apply your \
                     changes to the latest version and try again"
                );
            }
            _ => {}
        }
        // It may be about another resource, as a namespace that is not there.
        if self.details.get("kind").is_some() || self.is_about_the_request() {
            return self;
        }
        let details = [("group", Some(target.group)), ("kind", Some(target.plural)), ("name", name.as_deref())];
        for (name, value) in details {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.details[name] = value.into();
            }
        }
        self
    }

    /// Returns whether the host did not understand the request. Then the answer names no resource.
    fn is_about_the_request(&self) -> bool {
        [StatusCode::BAD_REQUEST, StatusCode::NOT_ACCEPTABLE, StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::GONE]
            .contains(&self.code)
    }

    /// Returns the `Status` document.
    pub(crate) fn document(&self) -> Value {
        let mut document = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure",
            "message": homeostat_text::lines(&self.message), "reason": self.reason, "details": self.details, "code": self.code.as_u16(),
        });
        let has_no_details = match &*self.details {
            Value::Object(details) => details.is_empty() && self.is_about_the_request(),
            details => details.is_null(),
        };
        let left_out = [("reason", self.reason.is_empty()), ("details", has_no_details)];
        for (field, _) in left_out.into_iter().filter(|(_, is_left_out)| *is_left_out) {
            document.as_object_mut().and_then(|fields| fields.remove(field));
        }
        document
    }

    /// Returns whether another client wrote the resource first.
    pub(crate) fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Returns the status code of the response.
    pub(crate) fn code(&self) -> u16 {
        self.code.as_u16()
    }
}

/// Responds with the `Status` document of a creation that leaves no resource of its own.
pub(crate) fn created() -> Response {
    let document = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    respond(StatusCode::CREATED, document)
}

/// Responds with the `Status` document of a success that has no resource.
pub(crate) fn success(details: Option<Value>) -> Response {
    let mut document = success_document();
    if let Some(details) = details {
        document["details"] = details;
    }
    respond(StatusCode::OK, document)
}

/// Returns the `Status` document of a success without details.
pub(crate) fn success_document() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" })
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if self.is_page {
            let about =
                [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
            return (self.code, about, self.message + "\n").into_response();
        }
        let mut response = respond(self.code, self.document());
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        warnings::write(response.headers_mut(), self.warnings);
        response
    }
}

#[cfg(test)]
mod tests;
