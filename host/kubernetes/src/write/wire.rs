//! Which request each write becomes. Pure.
//!
//! A write is one request. An update needs the revision that it replaces: the server refuses one without for
//! many kinds. A patch and an apply need none, and the server tries its own races again.

use std::borrow::Cow;

use bytes::Bytes;
use homeostat_store::{Change, Error, FieldValidation, Key, Kind, Precondition, Propagation, Result, Revision, Write};
use http::Method;
use serde_json::{Map, Value, json};

use crate::catalog::ServedKind;
use crate::path::{self, Parameters};
use crate::requests::Call;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// The parts of a request that every write has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form<'a> {
    /// The kind.
    pub(crate) served: &'a ServedKind,
    /// Put before the name of the manager.
    pub(crate) prefix: &'a str,
    /// The manager.
    pub(crate) manager: &'a str,
    /// Whether the server only says what it would do.
    pub(crate) dry_run: bool,
    /// How the server treats fields that it does not know.
    pub(crate) field_validation: FieldValidation,
}

/// The resource that a write is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    /// The name; empty when the server makes one.
    pub(crate) name: String,
}

impl Subject {
    /// Returns the resource that a write is about. The server checks names: it accepts more than this host, as
    /// those of roles with colons.
    ///
    /// # Errors
    /// `Invalid` for a document that does not name it.
    pub(crate) fn of(write: &Write) -> Result<Self> {
        match write {
            Write::Create { document }
            | Write::Update { document, .. }
            | Write::Apply { document, .. }
            | Write::ApplyStatus { document, .. } => {
                let text = |pointer| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                if !document.pointer("/metadata").is_some_and(Value::is_object) {
                    return Err(Error::invalid("metadata", "must be an object"));
                }
                Ok(Self {
                    kind: Kind::parse(text("/apiVersion"), text("/kind"))?,
                    namespace: text("/metadata/namespace").to_owned(),
                    name: text("/metadata/name").to_owned(),
                })
            }
            Write::UpdateStatus { key, .. }
            | Write::PatchStatus { key, .. }
            | Write::Patch { key, .. }
            | Write::Delete { key, .. } => Ok(Self {
                kind: key.kind().clone(),
                namespace: key.namespace().to_owned(),
                name: key.name().to_owned(),
            }),
        }
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(self.kind.clone(), &self.namespace, &self.name)
    }
}

/// A request, and the details for reading its answer.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) call: Call,
    /// The uid that the resource must have.
    pub(crate) uid: Option<String>,
    /// Whether the resource must have a uid or a revision.
    pub(crate) is_conditional: bool,
}

impl Form<'_> {
    /// Returns the request of any write but an update.
    ///
    /// # Errors
    /// `Invalid` for a write that cannot be sent.
    pub(crate) fn wire(&self, write: &Write, subject: &Subject) -> Result<Wire> {
        match write {
            Write::Create { document } => self.create(document, subject),
            Write::Update { document, precondition } => self.update(document, precondition, subject, None, None),
            Write::UpdateStatus { status, precondition, .. } => self.update_status(status, precondition, subject),
            Write::PatchStatus { change, .. } => {
                let change = status_alone(change);
                self.patch(&change, &Precondition::default(), subject, self.served.status)
            }
            Write::Patch { change, precondition, .. } => {
                let change = if self.served.status { Cow::Borrowed(change) } else { without_status(change) };
                self.patch(&change, precondition, subject, false)
            }
            Write::Apply { document, manager, force } => {
                let form = Form { manager, ..*self };
                form.apply(without(document, "status"), *force, subject, false)
            }
            Write::ApplyStatus { document, manager, force } => {
                let form = Form { manager, ..*self };
                form.apply(status_of(document), *force, subject, self.served.status)
            }
            Write::Delete { key: _, precondition, propagation, grace_seconds } => {
                self.delete(precondition, (*propagation, *grace_seconds), subject)
            }
        }
    }

    fn create(&self, document: &Value, subject: &Subject) -> Result<Wire> {
        if self.served.namespaced && subject.namespace.is_empty() {
            return Err(Error::invalid("metadata.namespace", "must not be empty for a namespaced kind"));
        }
        let version = self.served.version(&subject.kind.version);
        let path = path::collection(self.served, version, Some(&subject.namespace))?;
        let mut document = without(document, "status");
        let metadata = metadata(&mut document);
        if text_of(metadata, "resourceVersion").is_some() {
            return Err(Error::invalid("metadata.resourceVersion", "must not be set on a resource to be created"));
        }
        for field in ["uid", "managedFields"] {
            metadata.remove(field);
        }
        Ok(self.call("create", Method::POST, path, JSON, &document))
    }

    /// Returns the request of an update. `revision` is the one that it replaces, and `status` what the resource
    /// keeps, if the kind has no status apart from the rest.
    pub(crate) fn update(
        &self,
        document: &Value,
        precondition: &Precondition,
        subject: &Subject,
        revision: Option<Revision>,
        status: Option<&Value>,
    ) -> Result<Wire> {
        let path = self.item(subject, "")?;
        let mut document = without(document, "status");
        if let Some(status) = status.filter(|status| !self.served.status && !status.is_null()) {
            set(&mut document, "status", status.clone());
        }
        let revision = precondition.revision.or(revision);
        let metadata = metadata(&mut document);
        if let Some(revision) = revision {
            metadata.insert("resourceVersion".to_owned(), json!(revision.to_string()));
        }
        if let Some(uid) = &precondition.uid {
            metadata.insert("uid".to_owned(), json!(uid));
        }
        let uid = text_of(metadata, "uid");
        Ok(Wire { uid, is_conditional: true, ..self.call("update", Method::PUT, path, JSON, &document) })
    }

    /// Returns the request of an update of the status alone, with the whole resource.
    pub(crate) fn replace_status(&self, document: &Value, subject: &Subject) -> Result<Wire> {
        let path = self.item(subject, self.status_path())?;
        Ok(self.call("update", Method::PUT, path, JSON, document))
    }

    fn status_path(&self) -> &'static str {
        if self.served.status { "/status" } else { "" }
    }

    /// Replaces the status by a JSON patch: it needs neither the document nor its revision.
    fn update_status(&self, status: &Value, precondition: &Precondition, subject: &Subject) -> Result<Wire> {
        let path = self.item(subject, self.status_path())?;
        let mut operations = tests_of(precondition);
        let add = |status: &Value| json!({"op": "add", "path": "/status", "value": status});
        if status.is_null() {
            // Only what is there can be removed.
            operations.extend([add(&json!({})), json!({"op": "remove", "path": "/status"})]);
        } else {
            operations.push(add(status));
        }
        Ok(self.patch_call(&Change::Json(Value::Array(operations)), path, precondition.uid.clone()))
    }

    fn patch(&self, change: &Change, precondition: &Precondition, subject: &Subject, of_status: bool) -> Result<Wire> {
        let path = self.item(subject, if of_status { "/status" } else { "" })?;
        let change = match change {
            Change::Merge(patch) => Change::Merge(merged(patch.clone(), precondition)),
            Change::Strategic(patch) => Change::Strategic(merged(patch.clone(), precondition)),
            Change::Json(Value::Array(operations)) => {
                let all = tests_of(precondition).into_iter().chain(operations.iter().map(tested));
                Change::Json(all.collect())
            }
            Change::Json(_) => return Err(Error::invalid("patch", "must be a list of operations")),
        };
        let uid = precondition.uid.clone().or_else(|| uid_in(&change));
        Ok(self.patch_call(&change, path, uid))
    }

    fn patch_call(&self, change: &Change, path: String, uid: Option<String>) -> Wire {
        let (content_type, patch) = match change {
            Change::Merge(patch) => (MERGE, patch),
            Change::Strategic(patch) => (STRATEGIC, patch),
            Change::Json(patch) => (JSON_PATCH, patch),
        };
        let is_conditional = uid.is_some() || sets_revision(change);
        Wire { uid, is_conditional, ..self.call("patch", Method::PATCH, path, content_type, patch) }
    }

    fn apply(&self, mut document: Value, force: bool, subject: &Subject, of_status: bool) -> Result<Wire> {
        let path = self.item(subject, if of_status { "/status" } else { "" })?;
        let metadata = metadata(&mut document);
        for field in ["managedFields", "creationTimestamp", "generation", "selfLink"] {
            metadata.remove(field);
        }
        let uid = text_of(metadata, "uid");
        let is_conditional = uid.is_some() || text_of(metadata, "resourceVersion").is_some();
        let parameters = self.parameters().with("force", if force { "true" } else { "false" });
        let body = Some((APPLY, Bytes::from(document.to_string())));
        let call = Call::with_body("apply", Method::PATCH, parameters.after(&path), body);
        Ok(Wire { call, uid, is_conditional })
    }

    fn delete(
        &self,
        precondition: &Precondition,
        (propagation, grace_seconds): (Propagation, Option<u32>),
        subject: &Subject,
    ) -> Result<Wire> {
        let path = self.item(subject, "")?;
        let policy = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        if let Some(seconds) = grace_seconds {
            set(&mut options, "gracePeriodSeconds", json!(seconds));
        }
        let Precondition { uid, revision } = precondition;
        let mut preconditions = Map::new();
        preconditions.extend(uid.as_ref().map(|uid| ("uid".to_owned(), json!(uid))));
        preconditions.extend(revision.map(|revision| ("resourceVersion".to_owned(), json!(revision.to_string()))));
        if !preconditions.is_empty() {
            set(&mut options, "preconditions", Value::Object(preconditions));
        }
        // Where a deletion has a body, the server looks at no parameter.
        if self.dry_run {
            set(&mut options, "dryRun", json!(["All"]));
        }
        let body = Some((JSON, Bytes::from(options.to_string())));
        let call = Call::with_body("delete", Method::DELETE, path, body);
        Ok(Wire { call, uid: uid.clone(), is_conditional: uid.is_some() || revision.is_some() })
    }

    fn item(&self, Subject { kind, namespace, name }: &Subject, subresource: &str) -> Result<String> {
        let path = path::item(self.served, self.served.version(&kind.version), namespace, name)?;
        Ok(format!("{path}{subresource}"))
    }

    fn call(&self, verb: &'static str, method: Method, path: String, content_type: &'static str, body: &Value) -> Wire {
        let body = Some((content_type, Bytes::from(body.to_string())));
        Wire {
            call: Call::with_body(verb, method, self.parameters().after(&path), body),
            uid: None,
            is_conditional: false,
        }
    }

    fn parameters(&self) -> Parameters {
        let validation = match self.field_validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        Parameters::default()
            .with("fieldManager", &format!("{}{}", self.prefix, self.manager))
            .with("fieldValidation", validation)
            .with_some("dryRun", self.dry_run.then_some("All"))
    }
}

/// Returns the operations of a JSON patch that fail when a precondition does not hold. The server compares the
/// revision that a patch sets; of the uid it knows nothing, so the patch tests it.
fn tests_of(Precondition { uid, revision }: &Precondition) -> Vec<Value> {
    let uid = uid.as_ref().map(|uid| json!({"op": "test", "path": "/metadata/uid", "value": uid}));
    let revision = revision
        .map(|revision| json!({"op": "add", "path": "/metadata/resourceVersion", "value": revision.to_string()}));
    uid.into_iter().chain(revision).collect()
}

/// Adds preconditions to a merge patch: the server compares the revision, and the uid cannot be changed.
fn merged(mut patch: Value, Precondition { uid, revision }: &Precondition) -> Value {
    if uid.is_none() && revision.is_none() {
        return patch;
    }
    let metadata = metadata(&mut patch);
    metadata.extend(uid.as_ref().map(|uid| ("uid".to_owned(), json!(uid))));
    metadata.extend(revision.map(|revision| ("resourceVersion".to_owned(), json!(revision.to_string()))));
    patch
}

/// Returns an operation of a JSON patch; one that sets the uid becomes a test of it.
fn tested(operation: &Value) -> Value {
    let is = |field: &str, wanted: &str| operation.get(field).is_some_and(|value| value == wanted);
    let mut operation = operation.clone();
    if is_uid(&operation) && (is("op", "add") || is("op", "replace")) {
        set(&mut operation, "op", json!("test"));
    }
    operation
}

fn is_uid(operation: &Value) -> bool {
    operation.get("path").is_some_and(|path| path == "/metadata/uid")
}

/// Returns the uid that a patch sets: it is a precondition.
pub(crate) fn uid_in(change: &Change) -> Option<String> {
    let uid = match change {
        Change::Merge(patch) | Change::Strategic(patch) => patch.pointer("/metadata/uid")?,
        Change::Json(patch) => patch.as_array()?.iter().find(|operation| is_uid(operation))?.get("value")?,
    };
    uid.as_str().map(str::to_owned)
}

/// Returns whether a patch sets the revision, which the server compares.
fn sets_revision(change: &Change) -> bool {
    match change {
        Change::Merge(patch) | Change::Strategic(patch) => patch.pointer("/metadata/resourceVersion").is_some(),
        Change::Json(patch) => patch.as_array().is_some_and(|operations| {
            operations.iter().any(|one| one.get("path").is_some_and(|path| path == "/metadata/resourceVersion"))
        }),
    }
}

/// Returns a text of the metadata that is not empty.
pub(crate) fn text_of(metadata: &Map<String, Value>, field: &str) -> Option<String> {
    metadata.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns the part of a change that is about the status, with its preconditions. The server would ignore most
/// of the rest, but takes labels by the status of some kinds.
fn status_alone(change: &Change) -> Cow<'_, Change> {
    let keep = |patch: &Value| {
        let mut kept = json!({});
        for field in ["uid", "resourceVersion"] {
            if let Some(value) = patch.pointer(&format!("/metadata/{field}")) {
                metadata(&mut kept).insert(field.to_owned(), value.clone());
            }
        }
        if let Some(status) = patch.get("status") {
            set(&mut kept, "status", status.clone());
        }
        kept
    };
    Cow::Owned(match change {
        Change::Merge(patch) => Change::Merge(keep(patch)),
        Change::Strategic(patch) => Change::Strategic(keep(patch)),
        Change::Json(patch) => Change::Json(operations(patch, |path, is_test| {
            is_test || is_status(path) || matches!(path, "/metadata/uid" | "/metadata/resourceVersion")
        })),
    })
}

/// Returns a change without its part about the status.
fn without_status(change: &Change) -> Cow<'_, Change> {
    Cow::Owned(match change {
        Change::Merge(patch) => Change::Merge(without(patch, "status")),
        Change::Strategic(patch) => Change::Strategic(without(patch, "status")),
        Change::Json(patch) => Change::Json(operations(patch, |path, is_test| is_test || !is_status(path))),
    })
}

fn is_status(path: &str) -> bool {
    path == "/status" || path.starts_with("/status/")
}

/// Returns the operations of a JSON patch that `keep` accepts, by their path and whether they are tests.
/// Anything that is no list of operations stays as it is, for the server to refuse.
fn operations(patch: &Value, keep: impl Fn(&str, bool) -> bool) -> Value {
    let Some(operations) = patch.as_array() else { return patch.clone() };
    let text =
        |operation: &Value, field: &str| operation.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kept = operations.iter().filter(|one| keep(&text(one, "path"), text(one, "op") == "test"));
    kept.cloned().collect()
}

/// Returns the document that an apply of the status sends: the status, and the fields that name the resource.
fn status_of(document: &Value) -> Value {
    let mut kept = json!({});
    for field in ["apiVersion", "kind", "status"] {
        if let Some(value) = document.get(field) {
            set(&mut kept, field, value.clone());
        }
    }
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = document.pointer(&format!("/metadata/{field}")) {
            metadata(&mut kept).insert(field.to_owned(), value.clone());
        }
    }
    kept
}

/// Returns a document without one of its fields.
pub(crate) fn without(document: &Value, field: &str) -> Value {
    let mut document = document.clone();
    if let Some(fields) = document.as_object_mut() {
        fields.remove(field);
    }
    document
}

fn set(document: &mut Value, field: &str, value: Value) {
    if let Some(fields) = document.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

/// Returns the metadata of a document or patch, which gets some if it has none.
pub(crate) fn metadata(document: &mut Value) -> &mut Map<String, Value> {
    if !document.is_object() {
        *document = json!({});
    }
    let metadata = &mut document["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("it was made an object")
}

#[cfg(test)]
mod tests;
