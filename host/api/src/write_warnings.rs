//! Warnings about a written resource, in the words of Kubernetes.

use axum::http::Method;
use homeostat_runtime::Error::{self, Store};
use homeostat_store::definition::{finalizer_warnings, format_warnings};
use homeostat_store::semantics::{unknown_fields, unknown_fields_of};
use homeostat_store::{
    Error as StoreError, FieldValidation, Key, Precondition, Resource, Subresource, Write, WriteResponse,
};
use serde_json::Value;

use crate::request::ResourceRequest;
use crate::{event_versions, inert_resources};

/// Returns the warnings about a written resource, and about the fields that were dropped. `part` is the subresource that the
/// client wrote.
pub(crate) fn of(request: &ResourceRequest<'_>, part: Option<Subresource>, written: &WriteResponse) -> Vec<String> {
    let WriteResponse { resource, change, previous, unknown_fields } = written;
    let mut found = of_unknown_fields(request, unknown_fields);
    found.extend(of_resource(request, part, resource, previous.as_deref()));
    if change.is_some() {
        found.extend(inert_resources::warnings(request.info, resource));
    }
    found
}

/// Returns the warnings about the fields of a document that is refused although it has the types of its kind: an unknown field may
/// be the one that the document lacks.
pub(crate) fn of_document(request: &ResourceRequest<'_>, document: &Value) -> Vec<String> {
    if !warns(request) {
        return Vec::new();
    }
    let duplicates = request.duplicates().unwrap_or_default();
    let unknown = unknown_fields_in(request, document);
    duplicates.iter().map(|path| duplicate_field(path)).chain(of_unknown_fields(request, &unknown)).collect()
}

/// Returns the warnings about the unknown fields of a body whose write failed: of a document, or of the result of a patch.
pub(crate) async fn of_refusal(request: &ResourceRequest<'_>, error: &Error) -> Vec<String> {
    // As in Kubernetes, a body that cannot be decoded has no warnings.
    let is_decoded = !matches!(error, Store(StoreError::Mistyped { .. } | StoreError::UnknownFields { .. }));
    if !is_decoded || !warns(request) {
        return Vec::new();
    }
    let unknown = if *request.http.method == Method::PATCH {
        unknown_fields_of_patch(request).await
    } else {
        request.http.document().ok().map(|document| unknown_fields_in(request, &document))
    };
    of_unknown_fields(request, &unknown.unwrap_or_default())
}

/// Returns whether the client wants warnings about fields that are dropped. An apply with unknown fields is refused.
fn warns(request: &ResourceRequest<'_>) -> bool {
    !request.http.applies() && matches!(request.params.unknown(), Ok(FieldValidation::Warn))
}

fn unknown_fields_in(request: &ResourceRequest<'_>, document: &Value) -> Vec<String> {
    let store = request.http.api.host.store();
    let schema = store.schemas().and_then(|schemas| schemas.of(&request.info.kind).schema);
    unknown_fields_of(document, schema.as_deref())
}

/// Returns the unknown fields of the patched resource; `None` if there is none.
async fn unknown_fields_of_patch(request: &ResourceRequest<'_>) -> Option<Vec<String>> {
    let (http, kind) = (request.http, &request.info.kind);
    let key = Key::new(kind.clone(), http.target.namespace.unwrap_or_default(), http.target.name?);
    let store = http.api.host.store();
    let version = store.schemas()?.of(kind);
    let (change, current) = (http.change().ok()?, store.get_live(&key).await.ok()?);
    let patch = match http.target.subresource {
        Some("status") => Write::PatchStatus { key: key.clone(), change },
        _ => Write::Patch { key: key.clone(), change, precondition: Precondition::default() },
    };
    Some(unknown_fields(&key, Some(&current), &patch, &version))
}

/// Returns the warning about a deletion that does not say what becomes of dependents.
pub(crate) fn of_deletion(request: &ResourceRequest<'_>, has_propagation: bool) -> Option<String> {
    const ADVICE: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
        them or set propagationPolicy=Orphan to suppress this warning";
    let known = request.info.built_in().filter(|_| !has_propagation)?;
    (known.group == "batch" && known.name == "Job").then(|| ADVICE.to_owned())
}

fn of_unknown_fields(request: &ResourceRequest<'_>, fields: &[String]) -> Vec<String> {
    let named = |path: &String| match request.http.has_event_version() {
        true => event_versions::path_from_core(path),
        false => path.clone(),
    };
    fields.iter().map(|path| unknown_field(&named(path))).collect()
}

/// Returns the words about an unknown field, in a warning and in a refusal.
pub(crate) fn unknown_field(path: &str) -> String {
    format!("unknown field {path:?}")
}

/// Returns the words about a duplicate field, in a warning and in a refusal.
pub(crate) fn duplicate_field(path: &str) -> String {
    format!("duplicate field {path:?}")
}

fn of_resource(
    request: &ResourceRequest<'_>,
    part: Option<Subresource>,
    resource: &Resource,
    previous: Option<&Resource>,
) -> Vec<String> {
    if let Some(known) = request.info.built_in() {
        return homeostat_builtin::warnings(known, resource, previous, part);
    }
    match part {
        None if request.info.is_definition() => format_warnings(resource.document(), previous.map(Resource::document)),
        // The server of a far store does not tell which finalizers were there before.
        None if request.info.is_of_definition() => finalizer_warnings(resource, previous),
        _ => Vec::new(),
    }
}
