//! Reads and writes resources: one function per verb, each one call of the store or the host.

use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use homeostat_builtin::{autoscaler, json_types};
use homeostat_runtime::KindInfo;
use homeostat_store::schema::Reason;
use homeostat_store::{Change, Error, EventType, FieldValidation, Key, Precondition, Request, Write, WriteResponse};
use serde_json::{Value, json};

use crate::encoder::ResourceEncoder;
use crate::named_document::{fill_in, precondition, set_name};
use crate::path::Target;
use crate::request::{RequestContext, ResourceRequest};
use crate::state::Api;
use crate::status::{Failure, success};
use crate::{
    binding, certificate_requests, collection, event_versions, event_writes, events, eviction, health, list, negotiate,
    pod_streams, scale, status_part, token_request, warnings, watch, write_refusals, write_warnings,
};

/// Reports the result of a write, which Kubernetes does not: `created`, `configured` or `unchanged`.
const CHANGE: HeaderName = HeaderName::from_static("homeostat-change");

/// How often a patch that was computed from a resource is tried when others write the resource meanwhile.
pub(crate) const PATCH_TRIES: u32 = 5;

/// Answers one request.
pub(crate) async fn answer(http: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(answer) = binding::answer_collection(http).await {
        return answer;
    }
    let info = kind(http.api, &http.target)?;
    if info.kind.group.is_empty() && info.plural == events::PLURAL && info.built_in().is_none() {
        return events::answer(http, &info).await;
    }
    negotiate::check_accepted(http.headers, info.is_typed())?;
    let answer = answer_of(&ResourceRequest::new(http, &info)?).await;
    let recorded = http.warnings.take().into_iter().chain(http.requester.take_warnings());
    let said = info.deprecation.into_iter().chain(recorded);
    match answer {
        Ok(mut answer) => {
            warnings::write(answer.headers_mut(), said);
            Ok(answer)
        }
        Err(failure) => Err(failure.with_warnings(said.collect())),
    }
}

/// Answers one request for resources of a known kind.
async fn answer_of(request: &ResourceRequest<'_>) -> Result<Response, Failure> {
    let ResourceRequest { http, info, params } = request;
    let target = &http.target;
    let Some(name) = target.name else {
        return match *http.method {
            Method::GET if params.is_watch() => watch::answer(request).await,
            Method::GET => list::answer(request).await,
            Method::POST => create(request).await,
            Method::DELETE if !(info.built_in().is_some() && is_namespace(info)) => collection::delete(request).await,
            // As in Kubernetes, whose kinds of definitions have no paths of their own.
            Method::PUT | Method::PATCH if info.is_of_definition() => {
                Err(Failure::bad_request("name must be provided"))
            }
            _ => Err(http.not_allowed()),
        };
    };
    if info.namespaced && target.namespace.is_none() {
        return Err(Failure::not_found(format!("{} are namespaced: add a namespace to the path", info.plural)));
    }
    if target.subresource == Some("status") && !info.has_status {
        return Err(Failure::unknown_path());
    }
    let key = Key::new(info.kind.clone(), target.namespace.unwrap_or_default(), name);
    let serves = |part| info.built_in().is_some_and(|known| known.has(part));
    match (http.method, target.subresource) {
        (&Method::GET, None | Some("status")) => read(request, &key).await,
        (&Method::POST, None) if info.is_of_definition() => create(request).await,
        (&Method::PUT, None) => update(request, &key).await,
        (&Method::PUT, Some("status")) => status_part::update(request, key).await,
        (_, Some("approval")) if serves("approval") => status_part::approval(request, key).await,
        (&Method::PATCH, None) => patch(request, key).await,
        (&Method::PATCH, Some("status")) => status_part::patch(request, key).await,
        (&Method::DELETE, None) => delete(request, key).await,
        (method, Some("finalize")) if serves("finalize") => match *method {
            Method::PUT => finalize(request, &key).await,
            _ => Err(http.not_allowed()),
        },
        (method, Some(part @ ("ephemeralcontainers" | "resize"))) if serves(part) => match *method {
            Method::GET => read(request, &key).await,
            Method::PUT => update(request, &key).await,
            Method::PATCH => patch(request, key).await,
            _ => Err(http.not_allowed()),
        },
        (_, Some("scale")) => scale::answer(request, key).await,
        (method, Some(part @ ("binding" | "eviction" | "token"))) if serves(part) => match (method, part) {
            (&Method::POST, "binding") => binding::answer(request, &key).await,
            (&Method::POST, "eviction") => eviction::answer(request, &key).await,
            (&Method::POST, _) => token_request::answer(request, &key).await,
            _ => Err(http.not_allowed()),
        },
        (_, Some(part @ ("log" | "exec" | "attach" | "portforward"))) if serves(part) => {
            pod_streams::answer(request, &key, part).await
        }
        (_, None | Some("status")) => Err(http.not_allowed()),
        (_, Some(_)) => Err(Failure::unknown_path()),
    }
}

/// Responds with one resource.
pub(crate) async fn read(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let store = request.http.api.host.store();
    request.params.check_revision_of_one()?;
    if let Some(asked) = request.params.requested_revision()? {
        list::check_known(&*store, key.kind(), asked).await?;
    }
    let resource = if request.params.is_live() { store.get_live(key).await? } else { store.get(key).await? };
    Ok(ResourceEncoder::of(request).response(&resource))
}

fn kind(api: &Api, target: &Target<'_>) -> Result<KindInfo, Failure> {
    let Target { group, version, namespace, plural, .. } = target;
    let kinds = api.host.kinds();
    // Both groups have the same events, and both versions the same autoscalers.
    let group = if *group == event_versions::GROUP && *plural == events::PLURAL { "" } else { group };
    let is_autoscaler = target.is_autoscaler() && kinds.has_built_in_version(group, version);
    let version = if is_autoscaler { "v2" } else { version };
    let found = kinds.by_plural(group, version, plural).filter(|info| !info.keys_only);
    let info = found.ok_or_else(|| match health::why_unknown(api) {
        // Not 404: clients would take existing resources for deleted.
        Some(why) => Failure::unready(format!("the kind of {plural} is not known yet: {why}")),
        // As in an API server, each built-in group answers for its paths.
        None if kinds.has_built_in_group(group) => Failure::unknown_path(),
        None => Failure::unknown_page(),
    })?;
    if namespace.is_some() && !info.namespaced {
        return Err(Failure::not_found(format!("{plural} are cluster-scoped")));
    }
    Ok(info)
}

async fn create(request: &ResourceRequest<'_>) -> Result<Response, Failure> {
    let ResourceRequest { http, info, .. } = request;
    let mut document = http.document()?;
    if info.namespaced && http.target.namespace.is_none() {
        return Err(Failure::method_not_allowed(format!(
            "{} are namespaced: add a namespace to the path",
            info.plural
        )));
    }
    if http.api.host.kinds().is_ending(&info.kind) {
        return Err(Failure::method_not_allowed("create not allowed while custom resource definition is terminating"));
    }
    fill_in(&mut document, request, http.target.namespace, None)?;
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    certificate_requests::set_requester(info, &mut document, http.caller.as_deref());
    write(request, Write::Create { document }).await.map_err(|failure| failure.named(&name))
}

async fn update(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let mut document = request.http.document()?;
    fill_in(&mut document, request, namespace(key), Some(key.name()))?;
    let revision = document.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    if needs_revision(request.info) && revision.is_empty() {
        request.http.warnings.add(write_warnings::of_document(request, &document));
        request.http.api.host.store().get_live(key).await?;
        return Err(Failure::no_revision(key.name()));
    }
    write(request, Write::Update { document, precondition: Precondition::default() }).await
}

/// Built-in kinds whose updates name a revision. Source: `AllowUnconditionalUpdate` in the registries of Kubernetes.
const CONDITIONAL: [(&str, &str); 13] = [
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("coordination.k8s.io", "Lease"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodDisruptionBudget"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// Returns whether an update of the kind names the revision that it replaces.
fn needs_revision(info: &KindInfo) -> bool {
    let kind = (info.kind.group.as_str(), info.kind.name.as_str());
    info.is_of_definition() || (info.built_in().is_some() && CONDITIONAL.contains(&kind))
}

fn is_namespace(info: &KindInfo) -> bool {
    info.kind.group.is_empty() && info.kind.name == "Namespace"
}

/// Replaces a namespace, with the finalizers of its content.
async fn finalize(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let mut document = request.http.document()?;
    fill_in(&mut document, request, None, Some(key.name()))?;
    let precondition = precondition(&document)?;
    write(request, Write::Update { document, precondition }).await
}

/// Patches an autoscaler, or its status, in the version that is not stored.
pub(crate) async fn patch_autoscaler(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let (change, host) = (change(request)?, &request.http.api.host);
    let mut tries = PATCH_TRIES;
    loop {
        let current = host.store().get_live(key).await?;
        let document = autoscaler::to_v2(change.apply(&autoscaler::to_v1(current.document().clone()))?);
        let revision = document.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::parse);
        let precondition = Precondition { uid: None, revision: revision.transpose()? };
        let is_ours = precondition.revision == Some(current.revision());
        let changed = if request.http.target.subresource.is_some() {
            Write::PatchStatus { key: key.clone(), change: status_part::replacement(&document) }
        } else {
            Write::Update { document, precondition }
        };
        tries -= 1;
        match write(request, changed).await {
            Err(failure) if failure.is_conflict() && is_ours && tries > 0 => {}
            answer => return answer,
        }
    }
}

/// Parses the patch in the body.
pub(crate) fn change(request: &ResourceRequest<'_>) -> Result<Change, Failure> {
    let change = request.http.change()?;
    if request.params.forces() {
        let detail = "may not be specified for non-apply patch";
        return Err(Failure::bad_option("PatchOptions", Reason::Forbidden, "force", detail));
    }
    // As in Kubernetes, a definition has no merge keys. Components declare kinds that clients have built in.
    if matches!(change, Change::Strategic(_)) && request.info.is_of_definition() {
        return Err(Failure::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ));
    }
    let wrong = |value: &Value, wanted: &str| {
        let found = json_types::type_name(value);
        Failure::bad_request(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
    };
    match &change {
        Change::Json(patch) if !patch.is_array() => {
            Err(wrong(patch, "[]handlers.jsonPatchOp").after("error decoding patch: "))
        }
        Change::Json(Value::Array(operations)) if operations.iter().any(|operation| !operation.is_object()) => {
            let operation = operations.iter().find(|operation| !operation.is_object()).unwrap_or(&Value::Null);
            Err(wrong(operation, "handlers.jsonPatchOp").after("error decoding patch: "))
        }
        Change::Merge(patch) if !patch.is_object() => {
            Err(wrong(patch, "map[string]interface {}").after("error decoding patch: "))
        }
        Change::Strategic(patch) if !patch.is_object() => Err(wrong(patch, "map[string]interface {}")),
        _ => Ok(change),
    }
}

async fn patch(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    if request.http.applies() {
        let (document, manager, name) = read_apply(request, &key)?;
        let applied = Write::Apply { document, manager, force: request.params.forces() };
        return write_named(request, applied, name).await;
    }
    if request.http.has_autoscaler_version() {
        return patch_autoscaler(request, &key).await;
    }
    let change = change(request)?;
    write(request, Write::Patch { key, change, precondition: Precondition::default() }).await
}

/// Writes an applied document. An API server compares the name of a document last, so another refusal comes first.
pub(crate) async fn write_named(
    request: &ResourceRequest<'_>,
    applied: Write,
    name: Result<(), Failure>,
) -> Result<Response, Failure> {
    let Err(misnamed) = name else { return write(request, applied).await };
    let asked = Request { dry_run: true, field_validation: FieldValidation::Strict, ..request.write(applied)? };
    match request.http.api.host.write_unreviewed(asked).await.map_err(|error| write_refusals::of(request, error)) {
        Err(failure) if [409, 500].contains(&failure.code()) => Err(failure),
        _ => Err(misnamed),
    }
}

/// Parses an applied document, and returns it with its field manager, and whether its name is that of the path.
pub(crate) fn read_apply(
    request: &ResourceRequest<'_>,
    key: &Key,
) -> Result<(Value, String, Result<(), Failure>), Failure> {
    let mut document = request.http.document()?;
    let manager = request.params.apply_manager()?;
    fill_in(&mut document, request, namespace(key), None)?;
    let name = set_name(&mut document, request.http.method, key.name());
    if document.pointer("/metadata/managedFields").is_some_and(|owners| !owners.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    Ok((document, manager, name))
}

/// The namespaces that cannot be deleted. Source: the admission plug-in `NamespaceLifecycle` of Kubernetes.
const NAMESPACES_KEPT: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The priority classes that cannot be deleted. Source: the registry of priority classes of Kubernetes.
const CLASSES_KEPT: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Refuses the deletion of a resource that always exists.
fn check_deletion(info: &KindInfo, name: &str) -> Result<(), Failure> {
    let (what, reason) = match info.built_in().map(|known| known.name.as_str()) {
        Some("Namespace") if NAMESPACES_KEPT.contains(&name) => ("namespaces", "this namespace may not be deleted"),
        Some("PriorityClass") if CLASSES_KEPT.contains(&name) => {
            ("priorityclasses.scheduling.k8s.io", "this is a system priority class and cannot be deleted")
        }
        _ => return Ok(()),
    };
    Err(Failure::forbidden(format!("{what} {name:?} is forbidden: {reason}")))
}

/// Built-in kinds whose deletion is answered with the resource. Source: `ReturnDeletedObject` in the registries of
/// Kubernetes.
const RETURNED: [(&str, &str); 11] = [
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Pod"),
    ("", "PodTemplate"),
    ("", "ResourceQuota"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
];

fn returns_deleted(info: &KindInfo) -> bool {
    info.built_in().is_some() && RETURNED.contains(&(info.kind.group.as_str(), info.kind.name.as_str()))
}

async fn delete(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    check_deletion(request.info, key.name())?;
    let deletion = request.deletion()?;
    let propagation = deletion.propagation(request.default_propagation())?;
    let precondition = deletion.precondition()?;
    let kind = key.kind().clone();
    let grace_seconds = deletion.grace_seconds();
    let wanted = precondition.clone();
    let mut write = request.write(Write::Delete { key: key.clone(), precondition, propagation, grace_seconds })?;
    write.dry_run |= deletion.is_dry_run()?;
    request.http.warnings.add(write_warnings::of_deletion(request, deletion.has_propagation()));
    let WriteResponse { resource, change, .. } = match request.submit(write).await {
        Ok(deleted) => deleted,
        Err(error @ homeostat_runtime::Error::Store(Error::Conflict { .. })) => {
            let current = request.http.api.host.store().get_live(&key).await.ok();
            return Err(write_refusals::of_precondition(request, &wanted, current.as_deref(), error));
        }
        Err(error) => return Err(error.into()),
    };
    if change != Some(EventType::Deleted) || returns_deleted(request.info) {
        // The resource waits for its finalizers, or clients expect it.
        return Ok(ResourceEncoder::of(request).response(&resource));
    }
    let mut details = json!({ "name": resource.key().name(), "kind": request.info.plural, "uid": resource.uid() });
    if !kind.group.is_empty() {
        details["group"] = kind.group.into();
    }
    Ok(success(Some(details)))
}

/// Writes, and responds with the resulting resource.
pub(crate) async fn write(request: &ResourceRequest<'_>, write: Write) -> Result<Response, Failure> {
    if request.http.has_event_version() {
        event_writes::write(request, write).await
    } else {
        carry_out(request, write).await
    }
}

/// As [`write()`], without the checks of a group that is not stored.
pub(crate) async fn carry_out(request: &ResourceRequest<'_>, write: Write) -> Result<Response, Failure> {
    let duplicates = request.duplicates()?;
    let mut asked = request.write(write)?;
    if asked.field_validation == FieldValidation::Strict && !duplicates.is_empty() {
        return Err(write_refusals::of_duplicates(request, &duplicates, asked).await);
    }
    if request.http.applies() {
        // An apply owns what it names, so it names no field that the kind does not have.
        asked.field_validation = FieldValidation::Strict;
    }
    let part = asked.written_part();
    let warnings = &request.http.warnings;
    warnings.add(duplicates.iter().map(|path| write_warnings::duplicate_field(path)));
    let written = match request.submit(asked).await {
        Ok(written) => written,
        Err(error) => {
            warnings.add(write_warnings::of_refusal(request, &error).await);
            return Err(write_refusals::of(request, error));
        }
    };
    warnings.add(write_warnings::of(request, part, &written));
    let (code, word) = match written.change {
        Some(EventType::Added) => (StatusCode::CREATED, "created"),
        Some(_) => (StatusCode::OK, "configured"),
        None => (StatusCode::OK, "unchanged"),
    };
    Ok((code, [(CHANGE, word)], ResourceEncoder::of(request).response(&written.resource)).into_response())
}

pub(crate) fn namespace(key: &Key) -> Option<&str> {
    Some(key.namespace()).filter(|namespace| !namespace.is_empty())
}
