//! Warnings about a written resource, in the words of Kubernetes.

use homeostat_runtime::Error::{self, Store};
use homeostat_store::definition::{finalizer_warnings, format_warnings};
use homeostat_store::{Error as StoreError, Resource, Subresource, WriteResponse};

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

/// Returns the warnings about the unknown fields of a refused document: one of them may be the field that it lacks.
pub(crate) fn of_refusal(request: &ResourceRequest<'_>, error: &Error) -> Vec<String> {
    match error {
        Store(StoreError::InvalidFields { unknown_fields, .. }) => of_unknown_fields(request, unknown_fields),
        _ => Vec::new(),
    }
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
