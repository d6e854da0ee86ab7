//! The refusals that the errors of the store and of the runtime cause.

use axum::http::StatusCode;
use homeostat_store::FieldConflict;
use homeostat_store::schema::Violation;
use serde_json::json;

use super::Failure;

impl From<homeostat_store::Error> for Failure {
    fn from(error: homeostat_store::Error) -> Self {
        use homeostat_store::Error;
        let message = error.to_string();
        match error {
            Error::NotFound { .. } => Self { of_resource: true, ..Self::not_found(message) },
            Error::Conflict { .. } => {
                Self { of_resource: true, ..Self::new(StatusCode::CONFLICT, "Conflict", message) }
            }
            Error::Fenced { .. } => Self::new(StatusCode::CONFLICT, "Conflict", message),
            Error::AlreadyExists { key, .. } => Self {
                of_resource: true,
                name: Some(key.name().into()),
                ..Self::new(StatusCode::CONFLICT, "AlreadyExists", message)
            },
            Error::Invalid { path, reason } if path == "continue" => {
                Self::bad_request(format!("invalid continue token: continue key is not valid: {reason}"))
            }
            Error::Invalid { path, reason } => {
                let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
                let word = if reason.starts_with("must not be empty") { "Required" } else { "Invalid" };
                // Kubernetes names the labels, and not the one that is wrong.
                let field = if path.starts_with("metadata.labels[") { "metadata.labels" } else { &path };
                failure.details["causes"] =
                    json!([{ "reason": format!("FieldValue{word}"), "message": reason, "field": field }]);
                failure
            }
            Error::InvalidFields { what, violations } => {
                let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
                // `Widget.demo.dev "a"`
                failure.name = what.split('"').nth(1).map(Box::from);
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
            Error::MalformedPatch { .. } | Error::UnknownFields { .. } => Self::bad_request(message),
            Error::TooLarge { .. } => Self::too_large(message),
            Error::Expired { .. } => Self::expired(message),
            Error::FutureRevision { .. } => {
                // Clients recognise these words and list again.
                let mut failure =
                    Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Too large resource version: {message}"));
                failure.details["causes"] =
                    json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
                failure
            }
            Error::Forbidden { .. } => Self::forbidden(message),
            Error::Unsupported { .. } => Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message),
            Error::Unavailable { .. } | Error::Closed => Self::unavailable(message),
            // As in Kubernetes, without a reason.
            Error::Conversion { .. } => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message),
            _ => Self::internal(message),
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
            Error::Stopping => Self::unavailable(message),
            Error::NoRevision { .. } => Self::not_found(message),
            Error::Rejected(status) => Self::of_status(&status),
            Error::MissingNamespace(name) => {
                let mut failure = Self::not_found(message);
                *failure.details = json!({ "name": name, "kind": "namespaces" });
                failure
            }
            Error::TerminatingNamespace { namespace, .. } => {
                let mut failure = Self::forbidden(message);
                let cause = format!("namespace {namespace} is being terminated");
                failure.details["causes"] =
                    json!([{ "reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace" }]);
                failure
            }
            Error::ReservedKind(_) | Error::ReadOnlyKind(_) | Error::Forbidden(_) => Self::forbidden(message),
            Error::ManagedKindChanged { .. }
            | Error::PlacementChanged(_)
            | Error::NotHolder { .. }
            | Error::StartHook(_)
            | Error::KindDiffers { .. }
            | Error::Feeder { .. }
            | Error::NothingQueued(_)
            | Error::GivenUp(_)
            | Error::DeletionsFirst(_)
            | Error::Refused(_)
            | Error::NotGranted(_)
            | Error::Paused(_) => Self::new(StatusCode::CONFLICT, "Conflict", message),
            Error::NotManaged { .. } => Self::bad_request(message),
            Error::BadDocument(_) => {
                let of_field = message.split_once(": ").filter(|(path, _)| !path.contains(' '));
                let (field, reason) = of_field.unwrap_or(("", message.as_str()));
                let causes = json!([{ "reason": "FieldValueInvalid", "message": reason, "field": field }]);
                let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message.clone());
                failure.details["causes"] = causes;
                failure
            }
            Error::Store(error) => error.into(),
            Error::Component(error) => Self::internal(format!("{message}: {error}")),
        }
    }
}
