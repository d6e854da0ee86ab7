//! Kind, namespace and name of a document in a request: filled in from the path, and compared with it.

use axum::http::Method;
use homeostat_builtin::json_types;
use homeostat_store::semantics::empty_nulls;
use homeostat_store::{Kind, Precondition};
use serde_json::{Map, Value, json};

use crate::request::ResourceRequest;
use crate::status::Failure;
use crate::write_warnings;

/// Returns the precondition that the metadata of a document names.
pub(crate) fn precondition(document: &Value) -> Result<Precondition, Failure> {
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let revision = text("/metadata/resourceVersion").map(str::parse).transpose()?;
    Ok(Precondition { uid: text("/metadata/uid").map(str::to_owned), revision })
}

/// Fills in the document's kind, namespace and name from the path. Refuses a document that contradicts the
/// path or has no kind.
pub(crate) fn fill_in(
    document: &mut Value,
    request: &ResourceRequest<'_>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(), Failure> {
    set_kind(document, request)?;
    let filled_in = fill_in_metadata(document, request, namespace, name);
    if filled_in.is_err() {
        request.http.warnings.add(write_warnings::of_document(request, document));
    }
    filled_in
}

/// Checks the types of a document, and sets its kind to that of the path. Refuses a document of another kind.
fn set_kind(document: &mut Value, request: &ResourceRequest<'_>) -> Result<(), Failure> {
    let info = request.info;
    empty_nulls(document);
    if info.built_in().is_some() {
        if document.is_null() {
            *document = json!({});
        }
        let check = if request.http.applies() { json_types::check_shape } else { json_types::check };
        check(&info.kind, document).map_err(|reason| {
            let is_apply = request.http.applies() && names_its_kind(document, &info.kind);
            if is_apply {
                Failure::untyped(&info.kind, document, &reason)
            } else {
                Failure::bad_request(json_types::undecodable(&info.kind, document, &reason))
            }
        })?;
    }
    if info.built_in().is_none()
        && let Err(reason) = json_types::check_metadata(document)
    {
        return Err(if request.http.applies() {
            Failure::untyped(&info.kind, document, &reason)
        } else {
            Failure::bad_request(json_types::undecodable(&info.kind, document, &reason))
        });
    }
    let names_kind = names_its_kind(document, &info.kind);
    let fields = document.as_object_mut().ok_or_else(|| Failure::bad_request("the body is not an object"))?;
    let (api_version, kind) = (info.kind.api_version(), &info.kind.name);
    if !is_compiled_in(&info.kind.group) {
        require_text(fields, "kind")?;
        require_text(fields, "apiVersion")?;
    }
    if request.http.applies() && !names_kind {
        return Err(Failure::bad_request(format!("invalid object type: {}", group_version_kind(fields))));
    }
    set_or_match(fields.entry("apiVersion"), Some(&api_version)).map_err(|found| {
        Failure::bad_request(format!(
            "apiVersion: the document says {found}, the path of the request says \"{api_version}\""
        ))
    })?;
    if !is_compiled_in(&info.kind.group)
        && let Some(other) = fields.get("kind").and_then(Value::as_str).filter(|other| *other != kind)
    {
        let name = fields.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        return Err(Failure::other_kind(&info.kind, other, name));
    }
    set_or_match(fields.entry("kind"), Some(kind)).map_err(|found| {
        Failure::bad_request(format!("kind: the document says {found}, the path of the request says \"{kind}\""))
    })
}

/// Fills in the metadata from the path. Refuses metadata that contradicts the path.
fn fill_in_metadata(
    document: &mut Value,
    request: &ResourceRequest<'_>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(), Failure> {
    let info = request.info;
    let fields = document.as_object_mut().ok_or_else(|| Failure::bad_request("the body is not an object"))?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or_else(|| Failure::bad_request("metadata: must be an object"))?;
    if !info.namespaced {
        metadata.remove("namespace");
    }
    // As for Kubernetes, it is none.
    if metadata.get("resourceVersion").is_some_and(|revision| revision == "0") {
        metadata.remove("resourceVersion");
    }
    let revision = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
    if *request.http.method == Method::POST && !revision.is_empty() {
        // As in Kubernetes, whose store refuses it, and a dry run does not reach the store.
        if !request.params.is_dry_run()? {
            return Err(Failure::unexplained("resourceVersion should not be set on objects to be created"));
        }
    } else if !revision.is_empty() && revision.parse::<u64>().is_err() {
        return Err(Failure::unexplained(format!("strconv.ParseUint: parsing {revision:?}: invalid syntax")));
    }
    set_or_match(metadata.entry("namespace"), namespace).map_err(|_| Failure::other_namespace())?;
    match name {
        Some(name) => set_name(document, request.http.method, name),
        None => Ok(()),
    }
}

/// Sets the name of a document to that of the path. Refuses a document that has another one, or a PUT without one.
pub(crate) fn set_name(document: &mut Value, method: &Method, wanted: &str) -> Result<(), Failure> {
    let given = document["metadata"].get("name").cloned();
    document["metadata"]["name"] = wanted.into();
    let given = match given {
        None if *method == Method::PUT => Value::Null,
        None => return Ok(()),
        Some(given) => given,
    };
    match given.as_str() {
        Some(given) if given == wanted => Ok(()),
        None | Some("") => Err(Failure::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))),
        Some(given) => Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({wanted})"
        ))),
    }
}

/// Returns whether a document has this kind and version.
fn names_its_kind(document: &Value, kind: &Kind) -> bool {
    document["kind"] == kind.name.as_str() && document["apiVersion"] == kind.api_version()
}

/// Returns whether clients of Kubernetes have the kinds of a group built in. An API server accepts a document
/// of a built-in kind without `kind` and `apiVersion`, unless it is applied, because some clients (Python's)
/// leave them out.
///
/// Source: the groups that are reserved for Kubernetes, in its documentation of `CustomResourceDefinition`s.
fn is_compiled_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Refuses a document in which a field is missing, empty or not a string.
fn require_text(fields: &Map<String, Value>, name: &str) -> Result<(), Failure> {
    match fields.get(name).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(()),
        _ => Err(Failure::bad_request(format!("{name}: missing in the body"))),
    }
}

/// Returns group, version and kind of a document, as Go prints them.
fn group_version_kind(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", text("kind"))
}

/// Sets a missing entry to the expected value. `None` accepts any value.
///
/// # Errors
/// The value of an entry that has another one.
fn set_or_match(entry: serde_json::map::Entry<'_>, expected: Option<&str>) -> Result<(), Value> {
    let Some(expected) = expected else { return Ok(()) };
    let found = entry.or_insert_with(|| expected.into());
    if found.as_str() == Some("") || found.is_null() {
        *found = expected.into();
    }
    if *found == expected { Ok(()) } else { Err(found.clone()) }
}
