//! Every refusal, as the `Status` document that clients of the dialect understand.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use homeostat_store::FieldConflict;
use homeostat_store::schema::Violation;
use serde_json::{Value, json};

use crate::path::Target;

/// Seconds after which a host that starts may be ready.
const UNREADY_S: u32 = 1;

/// A request that was not done: code, one CamelCase reason, and what a person reads.
#[derive(Debug)]
pub(crate) struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
    /// Whether it is about a resource as the store has it.
    of_resource: bool,
    /// The name of that resource, where the path has none.
    name: Option<String>,
    /// Seconds after which the same request is worth another try.
    retry_after_s: Option<u32>,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, reason, message, details: json!({}), of_resource: false, name: None, retry_after_s: None }
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

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    }

    /// Refuses for now what there will be room for later.
    pub(crate) fn too_many(retry_after_s: u32, message: impl Into<String>) -> Self {
        let mut failure = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        failure.details["retryAfterSeconds"] = retry_after_s.into();
        failure.retry_after_s = Some(retry_after_s);
        failure
    }

    /// Refuses for now what cannot be answered before the host is ready.
    pub(crate) fn unready(message: impl Into<String>) -> Self {
        let mut failure = Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message);
        failure.details["retryAfterSeconds"] = UNREADY_S.into();
        failure.retry_after_s = Some(UNREADY_S);
        failure
    }

    /// Adds what the request was about. A resource that is missing, or there already, is named as clients of the dialect expect it.
    pub(crate) fn about(mut self, target: &Target<'_>) -> Self {
        let plural = [target.plural, target.group].join(".");
        let plural = plural.trim_end_matches('.');
        let name = target.name.map(str::to_owned).or(self.name.take());
        match (self.of_resource, &name) {
            (true, Some(name)) if self.reason == "NotFound" => self.message = format!("{plural} \"{name}\" not found"),
            (true, Some(name)) if self.reason == "AlreadyExists" => {
                self.message = format!("{plural} \"{name}\" already exists");
            }
            _ => {}
        }
        let details = [("group", Some(target.group)), ("kind", Some(target.plural)), ("name", target.name)];
        for (name, value) in details {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.details[name] = value.into();
            }
        }
        self
    }

    /// Returns the `Status` document.
    pub(crate) fn document(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": homeostat_text::lines(&self.message), "reason": self.reason, "details": self.details, "code": self.code.as_u16(),
        })
    }

    /// Returns whether somebody else has written what was to be written.
    pub(crate) fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> u16 {
        self.code.as_u16()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.code, axum::Json(self.document())).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<homeostat_store::Error> for Failure {
    fn from(error: homeostat_store::Error) -> Self {
        use homeostat_store::Error;
        let message = error.to_string();
        match error {
            Error::NotFound { .. } => Self { of_resource: true, ..Self::not_found(message) },
            Error::Conflict { .. } => Self::new(StatusCode::CONFLICT, "Conflict", message),
            Error::AlreadyExists { key, .. } => Self {
                of_resource: true,
                name: Some(key.name().to_owned()),
                ..Self::new(StatusCode::CONFLICT, "AlreadyExists", message)
            },
            Error::Invalid { path, reason } => {
                let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
                failure.details["causes"] =
                    json!([{ "reason": "FieldValueInvalid", "message": reason, "field": path }]);
                failure
            }
            Error::InvalidFields { violations, .. } => {
                let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
                let cause = |violation: &Violation| json!({ "reason": violation.reason.cause(), "message": violation.message(), "field": violation.path });
                failure.details["causes"] = violations.iter().map(cause).collect();
                failure
            }
            Error::ApplyConflict { conflicts, .. } => {
                let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message);
                let cause = |conflict: &FieldConflict| {
                    let message = format!("conflict with {}", conflict.owner());
                    json!({ "reason": "FieldManagerConflict", "message": message, "field": conflict.field })
                };
                failure.details["causes"] = conflicts.iter().map(cause).collect();
                failure
            }
            Error::UnknownFields { .. } => Self::bad_request(message),
            Error::TooLarge { .. } => Self::too_large(message),
            Error::Expired { .. } => Self::expired(message),
            Error::FutureRevision { .. } => {
                // By these words clients know that they have to list anew.
                let mut failure =
                    Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Too large resource version: {message}"));
                failure.details["causes"] =
                    json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
                failure
            }
            Error::Unavailable { .. } | Error::Closed => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            }
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message),
        }
    }
}

impl From<homeostat_runtime::Error> for Failure {
    fn from(error: homeostat_runtime::Error) -> Self {
        use homeostat_runtime::Error;
        let message = error.to_string();
        match error {
            Error::UnknownController(_) | Error::UnknownKey(_) | Error::UnknownKind { .. } => Self::not_found(message),
            Error::NoRoom(_) | Error::TooManyControllers(_) => Self::too_many(1, message),
            Error::Stopping => Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message),
            Error::NoRevision { .. } => Self::not_found(message),
            Error::ReservedKind(_) => Self::forbidden(message),
            Error::ManagedKindChanged { .. }
            | Error::StartHook(_)
            | Error::KindDiffers { .. }
            | Error::NothingQueued(_)
            | Error::GivenUp(_)
            | Error::DeletionsFirst(_)
            | Error::Refused(_)
            | Error::NotGranted(_)
            | Error::Paused(_) => Self::new(StatusCode::CONFLICT, "Conflict", message),
            Error::NotManaged { .. } => Self::bad_request(message),
            Error::BadDocument(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message),
            Error::Store(error) => error.into(),
            Error::Component(error) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("{message}: {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
