//! Reads and writes resources: one function per verb, each a question to the store.

use axum::Json;
use axum::extract::Query as UriQuery;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use homeostat_runtime::KindInfo;
use homeostat_store::{Change, EventType, Key, Precondition, Resource, Write, Written};
use serde::Serialize;
use serde_json::{Value, json};

use crate::params::{Deletion, Params};
use crate::path::Target;
use crate::router::Api;
use crate::status::Failure;
use crate::watch;

/// Says what a write came to, which the dialect itself does not: `created`, `configured` or `unchanged`.
const CHANGE: HeaderName = HeaderName::from_static("homeostat-change");

/// One request for resources.
pub(crate) struct Ask<'r> {
    pub(crate) method: &'r Method,
    pub(crate) target: Target<'r>,
    pub(crate) uri: &'r Uri,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) body: Bytes,
}

impl Ask<'_> {
    pub(crate) fn params<P: serde::de::DeserializeOwned>(&self) -> Result<P, Failure> {
        let params = UriQuery::<P>::try_from_uri(self.uri).map_err(|error| Failure::bad_request(error.body_text()))?;
        Ok(params.0)
    }

    fn document(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::bad_request(format!("the body is not JSON: {error}")))
    }

    fn content_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim()
    }
}

/// Answers one request.
pub(crate) async fn answer(api: &Api, ask: &Ask<'_>) -> Result<Response, Failure> {
    let target = &ask.target;
    let info = kind(api, target)?;
    let params: Params = ask.params()?;
    if ask.method != Method::GET {
        params.refuse_dry_run()?;
    }
    let Some(name) = target.name else {
        return match *ask.method {
            Method::GET if params.is_watch() => watch::answer(api, &info, target.namespace, &params).await,
            Method::GET => list(api, &info, target, &params).await,
            Method::POST => create(api, &info, ask).await,
            _ => Err(not_allowed(ask)),
        };
    };
    if info.namespaced && target.namespace.is_none() {
        return Err(Failure::not_found(format!("{} live in namespaces: name one in the path", info.plural)));
    }
    let key = Key::new(info.kind.clone(), target.namespace.unwrap_or_default(), name);
    match (ask.method, target.part) {
        (&Method::GET, None | Some("status")) => Ok(Json(api.host.store().get(&key).await?.document()).into_response()),
        (&Method::PUT, None) => update(api, &key, ask.document()?).await,
        (&Method::PUT, Some("status")) => update_status(api, key, &ask.document()?).await,
        (&Method::PATCH, None) => patch(api, key, ask, &params).await,
        (&Method::DELETE, None) => delete(api, key, Deletion::read(&ask.body, &params)?).await,
        (_, None | Some("status")) => Err(not_allowed(ask)),
        (_, Some(part)) => Err(Failure::not_found(format!("resources have no part {part} here"))),
    }
}

fn not_allowed(ask: &Ask<'_>) -> Failure {
    Failure::method_not_allowed(format!("{} is not supported at {}", ask.method, ask.uri.path()))
}

fn kind(api: &Api, target: &Target<'_>) -> Result<KindInfo, Failure> {
    let Target { group, version, namespace, plural, .. } = target;
    let kinds = api.host.kinds();
    let found = kinds.by_plural(group, version, plural).filter(|info| !info.keys_only);
    let info = found.ok_or_else(|| {
        Failure::not_found("the server could not find the requested resource: its kind is not known here")
    })?;
    if namespace.is_some() && !info.namespaced {
        return Err(Failure::not_found(format!("{plural} do not live in namespaces")));
    }
    Ok(info)
}

async fn list(api: &Api, info: &KindInfo, target: &Target<'_>, params: &Params) -> Result<Response, Failure> {
    let query = params.query(info.kind.clone(), target.namespace)?;
    let page = api.host.store().list(&query).await?;
    let metadata = json!({ "resourceVersion": page.revision.to_string(), "continue": page.next.unwrap_or_default() });
    let items = page.items.iter().map(|resource| resource.document()).collect();
    Ok(Json(List { kind: format!("{}List", info.kind.name), api_version: info.kind.api_version(), metadata, items })
        .into_response())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: String,
    api_version: String,
    metadata: Value,
    items: Vec<&'a Value>,
}

async fn create(api: &Api, info: &KindInfo, ask: &Ask<'_>) -> Result<Response, Failure> {
    let mut document = ask.document()?;
    if info.namespaced && ask.target.namespace.is_none() {
        return Err(Failure::method_not_allowed(format!(
            "{} are created in a namespace: name one in the path",
            info.plural
        )));
    }
    fill_in(&mut document, info, ask.target.namespace, None)?;
    write(api, Write::Create { document }).await
}

async fn update(api: &Api, key: &Key, mut document: Value) -> Result<Response, Failure> {
    let info = api.host.kinds().of(key.kind()).ok_or_else(|| Failure::not_found("the kind is gone"))?;
    fill_in(&mut document, &info, namespace(key), Some(key.name()))?;
    write(api, Write::Update { document, precondition: Precondition::default() }).await
}

async fn update_status(api: &Api, key: Key, document: &Value) -> Result<Response, Failure> {
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let revision = text("/metadata/resourceVersion").map(str::parse).transpose()?;
    let precondition = Precondition { uid: text("/metadata/uid").map(str::to_owned), revision };
    let status = document.get("status").cloned().unwrap_or(Value::Null);
    write(api, Write::UpdateStatus { key, status, precondition }).await
}

async fn patch(api: &Api, key: Key, ask: &Ask<'_>, params: &Params) -> Result<Response, Failure> {
    let precondition = Precondition::default();
    match ask.content_type() {
        "application/merge-patch+json" => {
            let change = Change::Merge(ask.document()?);
            write(api, Write::Patch { key, change, precondition }).await
        }
        "application/json-patch+json" => {
            let change = Change::Json(ask.document()?);
            write(api, Write::Patch { key, change, precondition }).await
        }
        "application/apply-patch+yaml" | "application/apply-patch+json" => apply(api, &key, ask, params).await,
        other => Err(Failure::unsupported_media_type(format!(
            "a patch of the type `{other}` is not supported: use application/merge-patch+json, application/json-patch+json or \
             application/apply-patch+yaml"
        ))),
    }
}

async fn apply(api: &Api, key: &Key, ask: &Ask<'_>, params: &Params) -> Result<Response, Failure> {
    let text = std::str::from_utf8(&ask.body).map_err(|_| Failure::bad_request("the body is not UTF-8"))?;
    let mut document: Value = serde_json::from_str(text)
        .or_else(|_| serde_saphyr::from_str(text))
        .map_err(|error| Failure::bad_request(format!("the body is neither JSON nor YAML: {error}")))?;
    let manager = params.field_manager.clone().filter(|manager| !manager.is_empty());
    let manager = manager.ok_or_else(|| Failure::bad_request("fieldManager: say who applies"))?;
    let info = api.host.kinds().of(key.kind()).ok_or_else(|| Failure::not_found("the kind is gone"))?;
    fill_in(&mut document, &info, namespace(key), Some(key.name()))?;
    write(api, Write::Apply { document, manager, force: params.forces() }).await
}

async fn delete(api: &Api, key: Key, deletion: Deletion) -> Result<Response, Failure> {
    let (precondition, propagation) = (deletion.precondition()?, deletion.propagation()?);
    let kind = key.kind().clone();
    let Written { resource, change } = api.host.store().write(Write::Delete { key, precondition, propagation }).await?;
    if change != Some(EventType::Deleted) {
        // It waits for its finalizers.
        return Ok(Json(resource.document()).into_response());
    }
    let details =
        json!({ "name": resource.key().name(), "group": kind.group, "kind": kind.name, "uid": resource.uid() });
    Ok(Json(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details }))
        .into_response())
}

/// Writes, and answers with the resource as it is now.
async fn write(api: &Api, write: Write) -> Result<Response, Failure> {
    let Written { resource, change } = api.host.write(write.into()).await?;
    Ok(written(&resource, change))
}

fn written(resource: &Resource, change: Option<EventType>) -> Response {
    let (code, word) = match change {
        Some(EventType::Added) => (StatusCode::CREATED, "created"),
        Some(_) => (StatusCode::OK, "configured"),
        None => (StatusCode::OK, "unchanged"),
    };
    (code, [(CHANGE, word)], Json(resource.document())).into_response()
}

fn namespace(key: &Key) -> Option<&str> {
    Some(key.namespace()).filter(|namespace| !namespace.is_empty())
}

/// Gives a document what its path says, and refuses one that says otherwise.
fn fill_in(document: &mut Value, info: &KindInfo, namespace: Option<&str>, name: Option<&str>) -> Result<(), Failure> {
    let fields = document.as_object_mut().ok_or_else(|| Failure::bad_request("the body is not a document"))?;
    let (api_version, kind) = (info.kind.api_version(), &info.kind.name);
    agree(fields.entry("apiVersion"), "apiVersion", Some(&api_version))?;
    agree(fields.entry("kind"), "kind", Some(kind))?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or_else(|| Failure::bad_request("metadata: must be an object"))?;
    if !info.namespaced && metadata.get("namespace").is_some_and(|namespace| !namespace.is_null() && namespace != "") {
        return Err(Failure::bad_request(format!("metadata.namespace: {} do not live in namespaces", info.plural)));
    }
    agree(metadata.entry("namespace"), "metadata.namespace", namespace)?;
    agree(metadata.entry("name"), "metadata.name", name)
}

/// Sets an entry that is missing; one that is there must be the same. No expectation means that any value will do.
fn agree(entry: serde_json::map::Entry<'_>, path: &str, expected: Option<&str>) -> Result<(), Failure> {
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
