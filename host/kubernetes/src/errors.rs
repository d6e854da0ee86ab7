//! The failures of a request, and the error of the store that each becomes.

use homeostat_store::schema::{Reason, VIOLATIONS_MAX, Violation};
use homeostat_store::{Error, FieldConflict, Key, Revision};
use http::StatusCode;
use serde::Deserialize;

/// Longest text of a server in an error, in bytes. Its texts can have whole documents in them.
const TEXT_BYTES_MAX: usize = 2048;
/// Largest body of a request. Source: the default of kube-apiserver.
const REQUEST_BYTES_MAX: u64 = 3 << 20;
/// Largest document. Source: the default of etcd.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 3 << 19;
/// The texts that the server passes on for a document that is too large: of etcd, and of its client.
const TOO_LARGE: [&str; 2] = ["request is too large", "trying to send message larger than max"];
/// The server's text about an apply whose fields do not have the types of the schema.
const UNTYPED: &str = "failed to create typed patch object";
/// The server's text about a field of an apply that the schema does not know.
const UNDECLARED: &str = ": field not declared in schema";

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The server answered with an error.
    Refused(Box<Status>),
    /// There was no answer, or half of one. A write may have happened.
    Lost(String),
    /// The request was not sent.
    Unsent(String),
    /// The answer is larger than the limit, in bytes.
    TooLong(u64),
    /// The store was closed.
    Closed,
}

/// The error document of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// The HTTP code.
    pub(crate) code: u16,
    /// The reason as one word, as `AlreadyExists`; may be empty.
    pub(crate) reason: String,
    /// The reason, for a person.
    pub(crate) message: String,
    /// More about it.
    pub(crate) details: Option<Details>,
}

/// The details of an error document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Details {
    /// The name of the resource.
    pub(crate) name: String,
    /// The uid of the resource.
    pub(crate) uid: String,
    /// The mistakes, one by one.
    pub(crate) causes: Vec<Cause>,
    /// How long to wait before the next try, in seconds.
    pub(crate) retry_after_seconds: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Cause {
    /// The reason as one word, as `FieldValueInvalid`.
    pub(crate) reason: String,
    /// The reason, for a person.
    pub(crate) message: String,
    /// The path of the field, as `spec.replicas`.
    pub(crate) field: String,
}

impl Status {
    /// Parses the body of an answer with an error. A proxy in between answers with other documents than a
    /// server of Kubernetes.
    pub(crate) fn parse(code: StatusCode, body: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<Self>(body).ok();
        let text = || shortened(String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]).trim());
        let mut status = parsed.unwrap_or_else(|| Self { message: text(), ..Self::default() });
        status.code = code.as_u16();
        status.message = shortened(&status.message);
        status
    }

    /// Returns whether the server has no such kind, rather than no such resource.
    pub(crate) fn is_about_kind(&self) -> bool {
        self.code == 404 && self.details.as_ref().is_none_or(|details| details.name.is_empty())
    }

    /// Returns whether another resource is missing: the namespace.
    pub(crate) fn is_about_other(&self, name: &str) -> bool {
        self.code == 404 && self.details.as_ref().is_some_and(|details| details.name != name)
    }

    /// Returns whether a cause has this reason.
    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        self.causes().iter().any(|cause| cause.reason == reason)
    }

    pub(crate) fn causes(&self) -> &[Cause] {
        self.details.as_ref().map_or(&[], |details| &details.causes)
    }

    /// Returns whether a precondition on the uid or the revision did not hold. The server answers 409, and 422
    /// to a patch: the `test` of a JSON patch, and a `metadata.uid` that differs.
    pub(crate) fn is_conflict(&self, has_uid: bool) -> bool {
        let names_uid = || self.causes().iter().any(|cause| cause.field == "metadata.uid");
        let is_test = || self.causes().is_empty() && self.reason == "Invalid";
        match self.code {
            409 => self.reason != "AlreadyExists" && !self.has_cause("FieldManagerConflict"),
            422 => has_uid && (names_uid() || is_test()),
            _ => false,
        }
    }

    /// Returns the text for a person, quoted: the server wrote it.
    pub(crate) fn text(&self) -> String {
        match (self.message.as_str(), self.reason.as_str()) {
            ("", "") => format!("the server answered {}", self.code),
            ("", reason) => format!("the server answered {} {reason:?}", self.code),
            (message, _) => format!("the server answered {}: {message:?}", self.code),
        }
    }
}

impl RequestError {
    /// Returns the error of a request that is about one resource.
    pub(crate) fn about_key(self, verb: &str, key: &Key) -> Error {
        match self {
            Self::Refused(status) => refused(*status, verb, &format!("{verb} of {key}"), Some(key)),
            other => other.about(&format!("{verb} of {key}")),
        }
    }

    /// Returns the error of any other request. `what` is for a person, as `list of v1/Secret`.
    pub(crate) fn about(self, what: &str) -> Error {
        match self {
            Self::Refused(status) => refused(*status, what, what, None),
            Self::Lost(reason) => Error::unavailable(format!("{what}: {reason}")),
            Self::Unsent(reason) => Error::unavailable(format!("{what} was not sent: {reason}")),
            Self::TooLong(bytes_max) => {
                Error::unavailable(format!("{what}: the answer has more than {bytes_max} bytes"))
            }
            Self::Closed => Error::Closed,
        }
    }

    /// Returns the error document, if the server sent one.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Lost(_) | Self::Unsent(_) | Self::TooLong(_) | Self::Closed => None,
        }
    }
}

/// Returns the error of an error document. A caller that knows the current revision puts it into conflicts.
fn refused(status: Status, verb: &str, what: &str, key: Option<&Key>) -> Error {
    match (status.code, key) {
        (404, Some(key)) => Error::NotFound { what: key.to_string() },
        (404, None) => Error::NotFound { what: what.to_owned() },
        (409, Some(key)) if status.has_cause("FieldManagerConflict") => {
            Error::ApplyConflict { key: key.clone(), conflicts: conflicts(&status) }
        }
        (409, Some(key)) if status.reason == "AlreadyExists" && verb == "create" => {
            Error::AlreadyExists { key: key.clone(), current: Revision::ZERO }
        }
        (409, Some(key)) => Error::Conflict { key: key.clone(), current: None },
        (422, _) if !strict_fields(&status).is_empty() => Error::UnknownFields { fields: strict_fields(&status) },
        (422, _) if !status.causes().is_empty() => {
            Error::invalid_fields(key.map_or_else(|| what.to_owned(), named), violations(&status))
        }
        (400, _) => match unknown_fields(&status.message) {
            fields if fields.is_empty() => Error::invalid("document", status.text()),
            fields => Error::UnknownFields { fields },
        },
        // Only a patch is refused without causes: it does not fit.
        (422, _) => Error::invalid("patch", status.text()),
        // An apply with fields that the schema does not know. The server takes it for its own error.
        (500, _) if status.message.contains(UNDECLARED) || status.message.contains(UNTYPED) => {
            match undeclared_fields(&status.message) {
                Some(fields) => Error::UnknownFields { fields },
                None => Error::invalid("document", status.text()),
            }
        }
        // The credentials are bad for every request: the store is away until it has others.
        (401, _) => {
            Error::unavailable(format!("{what}: the server does not accept the credentials: {}", status.text()))
        }
        (403, _) => Error::Forbidden { what: what.to_owned(), reason: status.text() },
        (405 | 406 | 415, _) => Error::Unsupported { what: what.to_owned(), reason: status.text() },
        (410, _) => Error::Expired { oldest: Revision::ZERO },
        (413, _) => Error::TooLarge {
            what: "the request".to_owned(),
            bytes: REQUEST_BYTES_MAX + 1,
            bytes_max: REQUEST_BYTES_MAX,
        },
        // The server passes on etcd's refusal of a large document as its own error.
        (500, _) if TOO_LARGE.iter().any(|text| status.message.contains(text)) => Error::TooLarge {
            what: "the document".to_owned(),
            bytes: DOCUMENT_BYTES_MAX + 1,
            bytes_max: DOCUMENT_BYTES_MAX,
        },
        _ => Error::unavailable(format!("{what}: {}", status.text())),
    }
}

/// Names a resource as the server does, as `Widget.demo.dev "a"`.
fn named(key: &Key) -> String {
    match key.kind().group.as_str() {
        "" => format!("{} {:?}", key.kind().name, key.name()),
        group => format!("{}.{group} {:?}", key.kind().name, key.name()),
    }
}

/// Returns the fields that an apply would take from their managers.
fn conflicts(status: &Status) -> Vec<FieldConflict> {
    let causes = status.causes().iter().filter(|cause| cause.reason == "FieldManagerConflict");
    let mut conflicts: Vec<_> = causes.take(VIOLATIONS_MAX).map(conflict).collect();
    conflicts.sort_by(|one, other| (&one.manager, &one.field).cmp(&(&other.manager, &other.field)));
    conflicts
}

/// Parses a cause, as `conflict with "kubectl" with subresource "status" using apps/v1 at 2026-01-02T03:04:05Z`.
fn conflict(cause: &Cause) -> FieldConflict {
    let text = cause.message.strip_prefix("conflict with ").unwrap_or(&cause.message);
    let (manager, rest) = quoted(text).unwrap_or_else(|| (shortened(text), ""));
    let subresource = rest.strip_prefix(" with subresource ").and_then(quoted);
    let (subresource, rest) = match subresource {
        Some((name, rest)) => (Some(name), rest),
        None => (None, rest),
    };
    let version = rest.strip_prefix(" using ").and_then(|rest| rest.split(' ').next()).map(shortened);
    FieldConflict { field: shortened(&cause.field), manager, version, subresource }
}

/// Parses a text in quotes, as Go writes it, at the beginning. Returns it and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let parsed = stream.next()?.ok()?;
    Some((shortened(&parsed), &text[stream.byte_offset()..]))
}

/// Returns what is wrong with a document, in the order of the fields.
fn violations(status: &Status) -> Vec<Violation> {
    let mut violations: Vec<_> = status.causes().iter().take(VIOLATIONS_MAX).map(violation).collect();
    violations.sort_by(|one, other| one.path.cmp(&other.path));
    violations
}

fn violation(cause: &Cause) -> Violation {
    let (reason, prefix) = match cause.reason.as_str() {
        "FieldValueRequired" => (Reason::Required, "Required value"),
        "FieldValueTypeInvalid" => (Reason::TypeInvalid, "Invalid value"),
        "FieldValueInvalid" => (Reason::Invalid, "Invalid value"),
        "FieldValueNotSupported" => (Reason::Unsupported, "Unsupported value"),
        "FieldValueDuplicate" => (Reason::Duplicate, "Duplicate value"),
        "FieldValueTooLong" => (Reason::TooLong, "Too long"),
        "FieldValueTooMany" => (Reason::TooMany, "Too many"),
        _ => (Reason::Invalid, ""),
    };
    let detail = cause.message.strip_prefix(prefix).unwrap_or(&cause.message);
    let detail = detail.strip_prefix(": ").unwrap_or(detail);
    let path = if cause.field.is_empty() || cause.field == "<nil>" { "document" } else { &cause.field };
    Violation { path: shortened(path), reason, detail: shortened(detail) }
}

/// Returns the fields that the server names in a warning or an error of strict decoding, as
/// `strict decoding error: unknown field "spec.color", unknown field "spec.size"`.
pub(crate) fn unknown_fields(text: &str) -> Vec<String> {
    let parts = text.split("unknown field ").skip(1);
    parts.filter_map(quoted).map(|(field, _)| field).take(VIOLATIONS_MAX).collect()
}

/// Returns the fields that an apply has and the schema does not know, as `metadata.ownerReferences[uid="u"].since`.
/// `None` where anything else is wrong with the apply, or with the fields that other managers have applied.
fn undeclared_fields(text: &str) -> Option<Vec<String>> {
    let errors = text.split_once(UNTYPED)?.1.split_once("): ")?.1;
    let errors = errors.strip_prefix("errors:\n").unwrap_or(errors);
    let field = |line: &str| Some(shortened(line.trim().strip_prefix('.')?.strip_suffix(UNDECLARED)?));
    let mut fields = errors.lines().take(VIOLATIONS_MAX).map(field).collect::<Option<Vec<_>>>()?;
    fields.sort();
    Some(fields)
}

/// Returns the fields that a strict patch would bring into a document. The text of the document comes before them.
fn strict_fields(status: &Status) -> Vec<String> {
    let parts = status.causes().iter().filter_map(|cause| cause.message.rsplit_once("strict decoding error: "));
    parts.flat_map(|(_, errors)| unknown_fields(errors)).take(VIOLATIONS_MAX).collect()
}

fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

#[cfg(test)]
mod tests;
