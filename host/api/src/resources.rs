//! Reads and writes resources: one function per verb, each one call of the store or the host.

use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use homeostat_builtin::{autoscaler, json_types};
use homeostat_runtime::KindInfo;
use homeostat_store::{Change, EventType, Key, Precondition, Write, WriteResponse};
use serde_json::{Map, Value, json};

use crate::encoder::ResourceEncoder;
use crate::path::Target;
use crate::request::{RequestContext, ResourceRequest};
use crate::state::Api;
use crate::status::{Failure, success};
use crate::{binding, collection, event_versions, events, eviction, health, list, scale, watch};

/// Reports the result of a write, which Kubernetes does not: `created`, `configured` or `unchanged`.
const CHANGE: HeaderName = HeaderName::from_static("homeostat-change");

/// How often a patch that was computed from a resource is tried when others write the resource meanwhile.
const PATCH_TRIES: u32 = 5;

/// Maximum size of all warnings of one response, in bytes. Source: Kubernetes.
const WARNING_BYTES_MAX: usize = 4096;

/// Answers one request.
pub(crate) async fn answer(http: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(answer) = binding::answer_collection(http).await {
        return answer;
    }
    let info = kind(http.api, &http.target)?;
    if info.kind.group.is_empty() && info.plural == events::PLURAL && info.built_in().is_none() {
        return events::answer(http, &info).await;
    }
    let mut answer = answer_of(&ResourceRequest::new(http, &info)?).await?;
    warn(&mut answer, info.deprecation.into_iter());
    Ok(answer)
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
            Method::DELETE => collection::delete(request).await,
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
    match (http.method, target.subresource) {
        (&Method::GET, None | Some("status")) => {
            let store = http.api.host.store();
            let resource = if params.is_live() { store.get_live(&key).await? } else { store.get(&key).await? };
            Ok(ResourceEncoder::of(request).response(&resource))
        }
        (&Method::PUT, None) => update(request, &key).await,
        (&Method::PUT, Some("status")) => update_status(request, key).await,
        (&Method::PATCH, None) => patch(request, key).await,
        (&Method::PATCH, Some("status")) => patch_status(request, key).await,
        (&Method::DELETE, None) => delete(request, key).await,
        (&Method::PUT, Some("finalize")) if is_namespace(info) => finalize(request, key).await,
        (_, Some("scale")) => scale::answer(request, key).await,
        (_, Some(part @ ("binding" | "eviction"))) if info.built_in().is_some_and(|known| known.has(part)) => {
            match (http.method, part) {
                (&Method::POST, "binding") => binding::answer(request, &key).await,
                (&Method::POST, _) => eviction::answer(request, &key).await,
                _ => Err(http.not_allowed()),
            }
        }
        (_, None | Some("status")) => Err(http.not_allowed()),
        (_, Some(_)) => Err(Failure::unknown_path()),
    }
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
        None if kinds.has_built_in_version(group, version) => Failure::unknown_path(),
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
    write(request, Write::Create { document }).await.map_err(|failure| failure.named(&name))
}

async fn update(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let mut document = request.http.document()?;
    fill_in(&mut document, request, namespace(key), Some(key.name()))?;
    let revision = document.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    if request.info.is_of_definition() && revision.is_empty() {
        return Err(Failure::no_revision(key.name()));
    }
    write(request, Write::Update { document, precondition: Precondition::default() }).await
}

async fn update_status(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    let mut document = request.http.document()?;
    fill_in(&mut document, request, namespace(&key), Some(key.name()))?;
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let revision = text("/metadata/resourceVersion").map(str::parse).transpose()?;
    let precondition = Precondition { uid: text("/metadata/uid").map(str::to_owned), revision };
    let status = document.get("status").cloned().unwrap_or(Value::Null);
    write(request, Write::UpdateStatus { key, status, precondition }).await
}

fn is_namespace(info: &KindInfo) -> bool {
    info.kind.group.is_empty() && info.kind.name == "Namespace"
}

/// Replaces the finalizers of the content of a namespace.
async fn finalize(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    let document = request.http.document()?;
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let revision = text("/metadata/resourceVersion").map(str::parse).transpose()?;
    let precondition = Precondition { uid: text("/metadata/uid").map(str::to_owned), revision };
    let finalizers = document.pointer("/spec/finalizers").filter(|names| names.is_array());
    let change = json!({ "spec": { "finalizers": finalizers.cloned().unwrap_or_else(|| json!([])) } });
    write(request, Write::Patch { key, change: Change::Merge(change), precondition }).await
}

/// Patches or applies a status. The rest of the body is ignored.
async fn patch_status(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    if request.http.applies() {
        let (document, manager) = read_apply(request, &key)?;
        return write(request, Write::ApplyStatus { document, manager, force: request.params.forces() }).await;
    }
    if request.http.has_autoscaler_version() {
        return patch_autoscaler(request, &key).await;
    }
    write(request, Write::PatchStatus { key, change: change(request)? }).await
}

/// Patches an autoscaler, or its status, in the version that is not stored.
async fn patch_autoscaler(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let (change, host) = (change(request)?, &request.http.api.host);
    let mut tries = PATCH_TRIES;
    loop {
        let current = host.store().get_live(key).await?;
        let mut document = autoscaler::to_v2(change.apply(&autoscaler::to_v1(current.document().clone()))?);
        let revision = document.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::parse);
        let precondition = Precondition { uid: None, revision: revision.transpose()? };
        let is_ours = precondition.revision == Some(current.revision());
        let changed = if request.http.target.subresource.is_some() {
            let status = document["status"].take();
            Write::UpdateStatus { key: key.clone(), status, precondition }
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
fn change(request: &ResourceRequest<'_>) -> Result<Change, Failure> {
    let change = request.http.change()?;
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
        Change::Merge(patch) if !patch.is_object() => {
            Err(wrong(patch, "map[string]interface {}").after("error decoding patch: "))
        }
        Change::Strategic(patch) if !patch.is_object() => Err(wrong(patch, "map[string]interface {}")),
        Change::Merge(patch) | Change::Strategic(patch)
            if request.info.built_in().is_some() && !request.http.has_autoscaler_version() =>
        {
            let Err(reason) = json_types::check(&request.info.kind, patch) else { return Ok(change) };
            let is_merge = matches!(change, Change::Merge(_));
            let reason = if is_merge { reason } else { json_types::words_of_merge(&reason) };
            Err(Failure::bad_patch(&patch_text(request), &reason))
        }
        _ => Ok(change),
    }
}

async fn patch(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    if request.http.applies() {
        let (document, manager) = read_apply(request, &key)?;
        return write(request, Write::Apply { document, manager, force: request.params.forces() }).await;
    }
    if request.http.has_autoscaler_version() {
        return patch_autoscaler(request, &key).await;
    }
    let change = change(request)?;
    write(request, Write::Patch { key, change, precondition: Precondition::default() }).await
}

/// Parses an applied document, and returns it with its field manager.
fn read_apply(request: &ResourceRequest<'_>, key: &Key) -> Result<(Value, String), Failure> {
    let mut document = request.http.document()?;
    let manager = request.params.field_manager.clone().filter(|manager| !manager.is_empty());
    let manager = manager.ok_or_else(Failure::no_manager)?;
    fill_in(&mut document, request, namespace(key), Some(key.name()))?;
    if document.pointer("/metadata/managedFields").is_some_and(|owners| !owners.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    Ok((document, manager))
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
    let (precondition, propagation) = (deletion.precondition()?, deletion.propagation()?);
    let kind = key.kind().clone();
    let mut write = request.write(Write::Delete { key, precondition, propagation })?;
    write.dry_run |= deletion.is_dry_run()?;
    let WriteResponse { resource, change, unknown_fields: _ } = request.http.api.host.write(write).await?;
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
async fn write(request: &ResourceRequest<'_>, write: Write) -> Result<Response, Failure> {
    let duplicates = request.duplicates()?;
    let written = request.http.api.host.write(request.write(write)?).await;
    let WriteResponse { resource, change, unknown_fields: unknown } =
        written.map_err(|error| refusal(request, error))?;
    let (code, word) = match change {
        Some(EventType::Added) => (StatusCode::CREATED, "created"),
        Some(_) => (StatusCode::OK, "configured"),
        None => (StatusCode::OK, "unchanged"),
    };
    let mut response = (code, [(CHANGE, word)], ResourceEncoder::of(request).response(&resource)).into_response();
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    warn(&mut response, duplicates.chain(unknown));
    Ok(response)
}

/// Returns the refusal of a write, in the words of Kubernetes.
fn refusal(request: &ResourceRequest<'_>, error: homeostat_runtime::Error) -> Failure {
    let kind = &request.info.kind;
    let is_patch = request.http.method == Method::PATCH && !request.http.applies();
    match &error {
        homeostat_runtime::Error::Store(unknown @ homeostat_store::Error::UnknownFields { .. }) if is_patch => {
            Failure::bad_patch(&patch_text(request), &unknown.to_string())
        }
        homeostat_runtime::Error::Store(homeostat_store::Error::UnknownFields { fields }) if request.http.applies() => {
            undeclared_fields(request, fields)
        }
        homeostat_runtime::Error::Store(homeostat_store::Error::UnknownFields { .. }) => {
            let place = format!("{} in version {:?} cannot be handled as a {}: ", kind.name, kind.version, kind.name);
            Failure::from(error).after(&place)
        }
        homeostat_runtime::Error::Store(homeostat_store::Error::Invalid { path, .. })
            if is_patch && path.starts_with("patch[") =>
        {
            Failure::failed_patch()
        }
        _ => error.into(),
    }
}

/// Returns a patch as a refusal shows it: one by merge keys as Go prints it.
fn patch_text(request: &ResourceRequest<'_>) -> String {
    match request.http.change() {
        Ok(Change::Strategic(patch)) => json_types::go_text(&patch),
        _ => String::from_utf8_lossy(&request.http.body).into_owned(),
    }
}

/// Refuses an apply with unknown fields. Items of lists have their names in the paths.
fn undeclared_fields(request: &ResourceRequest<'_>, fields: &[String]) -> Failure {
    let document = request.http.document().unwrap_or_default();
    let kind = &request.info.kind;
    let text = |field: &str| document["metadata"][field].as_str().unwrap_or_default();
    let namespace = request.http.target.namespace.unwrap_or_default();
    let name = [namespace, text("name")].join("/");
    let what = format!("{}; {}, Kind={}", name.trim_start_matches('/'), kind.api_version(), kind.name);
    let paths: Vec<String> = fields.iter().map(|path| named_path(&document, path)).collect();
    Failure::undeclared_fields(&what, &paths)
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

/// Adds warnings to a response, up to [`WARNING_BYTES_MAX`]. Clients print them.
fn warn(response: &mut Response, warnings: impl Iterator<Item = String>) {
    let mut room = WARNING_BYTES_MAX;
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // 299 is a miscellaneous persistent warning, and `-` is an unnamed agent. Source: RFC 7234, 5.5.
        let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) else { continue };
        let Some(left) = room.checked_sub(value.len()) else { return };
        room = left;
        response.headers_mut().append(header::WARNING, value);
    }
}

fn namespace(key: &Key) -> Option<&str> {
    Some(key.namespace()).filter(|namespace| !namespace.is_empty())
}

/// Fills in the document's kind, namespace and name from the path. Refuses a document that contradicts the
/// path or has no kind.
fn fill_in(
    document: &mut Value,
    request: &ResourceRequest<'_>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(), Failure> {
    let info = request.info;
    if info.built_in().is_some() {
        without_nulls(document);
        json_types::check(&info.kind, document).map_err(Failure::bad_request)?;
    }
    let fields = document.as_object_mut().ok_or_else(|| Failure::bad_request("the body is not an object"))?;
    let (api_version, kind) = (info.kind.api_version(), &info.kind.name);
    if request.http.applies() || !is_compiled_in(&info.kind.group) {
        require_text(fields, "kind")?;
        require_text(fields, "apiVersion")?;
    }
    set_or_match(fields.entry("apiVersion"), "apiVersion", Some(&api_version))?;
    if !is_compiled_in(&info.kind.group)
        && let Some(other) = fields.get("kind").and_then(Value::as_str).filter(|other| *other != kind)
    {
        let name = fields.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        return Err(Failure::other_kind(&info.kind, other, name));
    }
    set_or_match(fields.entry("kind"), "kind", Some(kind))?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or_else(|| Failure::bad_request("metadata: must be an object"))?;
    if !info.namespaced && metadata.get("namespace").is_some_and(|namespace| !namespace.is_null() && namespace != "") {
        return Err(Failure::bad_request(format!("metadata.namespace: {} are cluster-scoped", info.plural)));
    }
    set_or_match(metadata.entry("namespace"), "metadata.namespace", namespace)?;
    set_or_match(metadata.entry("name"), "metadata.name", name)
}

/// Replaces nulls in the metadata as the types of Kubernetes do.
fn without_nulls(document: &mut Value) {
    let Some(fields) = document.as_object_mut() else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    for list in ["labels", "annotations"] {
        let entries = metadata.get_mut(list).and_then(Value::as_object_mut).into_iter().flatten();
        entries.filter(|(_, value)| value.is_null()).for_each(|(_, value)| *value = "".into());
    }
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

/// Sets a missing entry to the expected value, and refuses an entry with another value. `None` accepts any
/// value.
fn set_or_match(entry: serde_json::map::Entry<'_>, path: &str, expected: Option<&str>) -> Result<(), Failure> {
    let Some(expected) = expected else { return Ok(()) };
    let found = entry.or_insert_with(|| expected.into());
    if found.as_str() == Some("") || found.is_null() {
        *found = expected.into();
    }
    if *found == expected {
        Ok(())
    } else {
        Err(Failure::bad_request(format!(
            "{path}: the document says {found}, the path of the request says \"{expected}\""
        )))
    }
}
