//! Warnings about a written resource, in the words of Kubernetes.

use homeostat_store::definition::{finalizer_warnings, format_warnings};
use homeostat_store::{Resource, Subresource, WriteResponse};

use crate::request::ResourceRequest;
use crate::{event_versions, inert_resources};

/// Returns what the client should know of a resource that it has written, and of the fields that were dropped. `part` is the
/// subresource that it wrote.
pub(crate) fn of(request: &ResourceRequest<'_>, part: Option<Subresource>, written: &WriteResponse) -> Vec<String> {
    let WriteResponse { resource, change, previous, unknown_fields } = written;
    let named = |path: &String| match request.http.has_event_version() {
        true => event_versions::path_from_core(path),
        false => path.clone(),
    };
    let mut found: Vec<String> = unknown_fields.iter().map(|path| format!("unknown field {:?}", named(path))).collect();
    found.extend(of_resource(request, part, resource, previous.as_deref()));
    if change.is_some() {
        found.extend(inert_resources::warnings(request.info, resource));
    }
    found
}

/// Returns what the client should know of a deletion that does not say what becomes of dependents.
pub(crate) fn of_deletion(request: &ResourceRequest<'_>, has_propagation: bool) -> Option<String> {
    const ADVICE: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
        them or set propagationPolicy=Orphan to suppress this warning";
    let known = request.info.built_in().filter(|_| !has_propagation)?;
    (known.group == "batch" && known.name == "Job").then(|| ADVICE.to_owned())
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
        Some(_) => Vec::new(),
        None if request.info.is_definition() => format_warnings(resource.document(), previous.map(Resource::document)),
        None => finalizer_warnings(resource, previous),
    }
}
