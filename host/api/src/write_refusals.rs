//! The refusals of writes, in the words of Kubernetes.

use axum::http::Method;
use homeostat_builtin::json_types;
use homeostat_runtime::Error::{self, Store};
use homeostat_store::{Change, Kind, Precondition, Request, Resource};
use serde_json::Value;

use crate::event_versions;
use crate::request::ResourceRequest;
use crate::status::Failure;
use crate::write_warnings::{duplicate_field, unknown_field};

/// Returns the refusal of a body with duplicate fields, which also names the unknown ones. A dry run finds those.
pub(crate) async fn of_duplicates(request: &ResourceRequest<'_>, duplicates: &[String], asked: Request) -> Failure {
    let refused = request.http.api.host.write_unreviewed(Request { dry_run: true, ..asked }).await.err();
    let unknown = match refused.map(|error| in_group(request, error)) {
        Some(Store(homeostat_store::Error::UnknownFields { fields })) => fields,
        _ => Vec::new(),
    };
    let unknown = unknown.iter().map(|path| unknown_field(path));
    let fields: Vec<String> = unknown.chain(duplicates.iter().map(|path| duplicate_field(path))).collect();
    Failure::bad_request(format!("strict decoding error: {}", fields.join(", ")))
}

/// Returns whether an error is that of an item of an applied list, which cannot be told apart from others.
fn is_of_list(path: &str, reason: &str) -> bool {
    let words = ["must be an object", "must be set: it identifies", "must be a string, a number"];
    let is_of_item = path.ends_with(']') || reason.ends_with("it identifies the items of the list");
    let is_item_fault = is_of_item && words.iter().any(|word| reason.starts_with(word));
    !path.starts_with("metadata") && (is_item_fault || reason.starts_with("duplicate entries for key"))
}

/// Returns the kind, in the group of the request.
fn kind_in_group(request: &ResourceRequest<'_>) -> Kind {
    if request.http.has_event_version() { event_versions::kind() } else { request.info.kind.clone() }
}

/// Returns an error with the names that fields have in the group of the request.
fn in_group(request: &ResourceRequest<'_>, error: Error) -> Error {
    match error {
        Store(error) if request.http.has_event_version() => Store(event_versions::error_from_core(error)),
        error => error,
    }
}

/// Returns the refusal of a write, in the words of Kubernetes.
pub(crate) fn of(request: &ResourceRequest<'_>, error: Error) -> Failure {
    let kind = &kind_in_group(request);
    let error = in_group(request, error);
    let is_patch = request.http.method == Method::PATCH && !request.http.applies();
    match &error {
        Store(unknown @ homeostat_store::Error::UnknownFields { .. }) if is_patch => {
            Failure::bad_patch(&patch_text(request), &unknown.to_string())
        }
        Store(homeostat_store::Error::UnknownFields { fields }) if request.http.applies() => {
            undeclared_fields(request, fields)
        }
        Store(homeostat_store::Error::UnknownFields { .. }) => {
            let place = format!("{} in version {:?} cannot be handled as a {}: ", kind.name, kind.version, kind.name);
            Failure::from(error).after(&place)
        }
        Store(homeostat_store::Error::Invalid { path, .. })
            if is_patch && (path.starts_with("patch[") || path == "patch") =>
        {
            Failure::failed_patch()
        }
        Store(homeostat_store::Error::Mistyped { reason }) if request.http.applies() => {
            Failure::untyped(kind, &request.http.document().unwrap_or_default(), reason)
        }
        Store(homeostat_store::Error::Mistyped { reason }) => {
            let is_strategic = matches!(request.http.change(), Ok(Change::Strategic(_)));
            let reason = if is_strategic { &json_types::words_of_merge(reason) } else { reason };
            Failure::bad_patch(&patch_text(request), reason)
        }
        Store(homeostat_store::Error::Invalid { path, reason })
            if request.http.applies() && is_of_list(path, reason) =>
        {
            let reason = format!(".{path}: {reason}");
            Failure::untyped(kind, &request.http.document().unwrap_or_default(), &reason)
        }
        Store(homeostat_store::Error::Invalid { path, reason }) if is_patch && path.starts_with("patch.") => {
            Failure::unexplained(reason)
        }
        Store(homeostat_store::Error::Invalid { path, reason })
            if is_patch
                && ["metadata.name", "metadata.namespace"].contains(&path.as_str())
                && reason.starts_with("the name") =>
        {
            Failure::bad_request(reason)
        }
        _ => error.into(),
    }
}

/// Returns the refusal of a deletion whose precondition does not hold for the current resource, if there is one.
pub(crate) fn of_precondition(
    request: &ResourceRequest<'_>,
    wanted: &Precondition,
    current: Option<&Resource>,
    error: Error,
) -> Failure {
    let words = |what: &str, wanted: &str, found: &str, advice: &str| {
        format!("the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {advice}")
    };
    let reason = match (current, wanted) {
        (Some(current), Precondition { uid: Some(uid), .. }) if uid != current.uid() => {
            words("UID", uid, current.uid(), "The object might have been deleted and then recreated")
        }
        (Some(current), Precondition { revision: Some(revision), .. }) if *revision != current.revision() => {
            let [wanted, found] = [*revision, current.revision()].map(|revision| revision.to_string());
            words("ResourceVersion", &wanted, &found, "The object might have been modified")
        }
        _ => return error.into(),
    };
    Failure::unmet(&request.info.kind, current.map_or("", |current| current.key().name()), &reason)
}

/// Returns a patch as a refusal shows it: one by merge keys as Go prints it.
pub(crate) fn patch_text(request: &ResourceRequest<'_>) -> String {
    match request.http.change() {
        Ok(Change::Strategic(patch)) if request.http.has_event_version() => {
            json_types::go_text(&event_versions::from_core(patch))
        }
        Ok(Change::Strategic(patch)) => json_types::go_text(&patch),
        _ => String::from_utf8_lossy(&request.http.body).into_owned(),
    }
}

/// Refuses an apply with unknown fields. Items of lists have their names in the paths.
fn undeclared_fields(request: &ResourceRequest<'_>, fields: &[String]) -> Failure {
    let document = request.http.document().unwrap_or_default();
    let line = |path: &String| format!("{}: field not declared in schema", named_path(&document, path));
    let reason = match fields {
        [path] => line(path),
        paths => format!("errors:\n  {}", paths.iter().map(line).collect::<Vec<_>>().join("\n  ")),
    };
    Failure::untyped(&kind_in_group(request), &document, &reason)
}

/// Returns `.spec.containers[name="a"].x` for `spec.containers[0].x`, if the item has a name.
fn named_path(document: &Value, path: &str) -> String {
    let (mut named, mut value) = (String::new(), document);
    for word in path.split('.') {
        let (field, index) = word.split_once('[').map_or((word, None), |(field, rest)| (field, rest.strip_suffix(']')));
        value = &value[field];
        named += &format!(".{field}");
        if let Some(index) = index {
            value = index.parse::<usize>().ok().and_then(|at| value.get(at)).unwrap_or(&Value::Null);
            named += &match value["name"].as_str() {
                Some(name) => format!("[name={name:?}]"),
                None => format!("[{index}]"),
            };
        }
    }
    named
}
