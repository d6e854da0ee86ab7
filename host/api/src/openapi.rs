//! Describes the kinds in OpenAPI v3: one document for each group and version, made from the schemas of the
//! kinds. `version_2` makes one document in v2 of all of them.
//!
//! A document has the parts that clients read: the fields of each kind and its operations. It is not a
//! complete description of the API. `document_cache` keeps the documents until a kind changes.

mod version_2;

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use homeostat_builtin::protobuf;
use homeostat_runtime::KindInfo;
use homeostat_store::Kind;
use serde_json::{Map, Value, json};

use crate::discovery;
use crate::state::Api;
use crate::status::Failure;

/// The names of published types: of definitions, and of the metadata of all kinds.
const DEFINITION: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The field that names the kind of a type.
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

// The fields of all kinds, in the words of Kubernetes' own definitions.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
    convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
    from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The type of the binary form of OpenAPI v2. Clients ask for it with an `@`, which no parser of types takes back.
const BINARY_VERSION_2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The operations on a collection: verb, method and action.
const COLLECTION: [(&str, &str, &str); 3] =
    [("list", "get", "list"), ("create", "post", "post"), ("deletecollection", "delete", "deletecollection")];

/// The operations on one resource.
const ONE: [(&str, &str, &str); 4] =
    [("get", "get", "get"), ("update", "put", "put"), ("patch", "patch", "patch"), ("delete", "delete", "delete")];

/// Responds with the index of documents.
pub(crate) fn index(kinds: &[KindInfo]) -> Response {
    let mut paths = Map::new();
    for info in kinds.iter().filter(|info| !info.keys_only) {
        let path = group_version_path(info);
        paths.insert(path.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{path}") }));
    }
    Json(json!({ "paths": paths })).into_response()
}

/// Responds with the document in OpenAPI v2, in JSON or in the binary form, which is the only one that clients in Go read.
///
/// # Errors
/// 500 if the document cannot be made.
pub(crate) async fn version_2(api: &Api, headers: &HeaderMap) -> Result<Response, Failure> {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    let is_binary = accepted.contains("proto-openapi");
    let (name, content_type) = if is_binary { ("v2 binary", BINARY_VERSION_2) } else { ("v2", "application/json") };
    let document = api.openapi.find_or_make(&api.host, name, move |kinds| {
        let document = version_2::document(kinds);
        Ok(if is_binary { protobuf::encode_openapi(&document) } else { document.to_string().into_bytes() })
    });
    Ok(document.await?.response(content_type, headers))
}

/// Responds with the document at `api/v1` or `apis/GROUP/VERSION`.
///
/// # Errors
/// 404 if there is no such group and version.
pub(crate) async fn document(api: &Api, path: &str, headers: &HeaderMap) -> Result<Response, Failure> {
    let group_version = path.to_owned();
    let document = api.openapi.find_or_make(&api.host, path, move |kinds| {
        let Description { paths, schemas } = Description::of(kinds, &group_version);
        if paths.is_empty() {
            return Err(Failure::unknown_page());
        }
        let document = json!({
            "openapi": "3.0.0", "info": information(), "paths": paths, "components": { "schemas": schemas },
        });
        Ok(document.to_string().into_bytes())
    });
    Ok(document.await?.response("application/json", headers))
}

/// Returns the name of the API and its version.
fn information() -> Value {
    json!({ "title": "Homeostat", "version": env!("CARGO_PKG_VERSION") })
}

/// The description of the kinds of a group and version.
struct Description {
    /// By path: its operations by method.
    paths: Map<String, Value>,
    /// By name.
    schemas: Map<String, Value>,
}

impl Description {
    /// Describes the kinds at `api/v1` or `apis/GROUP/VERSION`; without paths if there are none.
    fn of(kinds: &[KindInfo], path: &str) -> Self {
        let is_at = |info: &&KindInfo| !info.keys_only && group_version_path(info) == path;
        let kinds: Vec<&KindInfo> = kinds.iter().filter(is_at).collect();
        let (mut paths, mut schemas) = (Map::new(), Map::new());
        schemas.extend(homeostat_builtin::published_type(OBJECT_META));
        let built_in = kinds.iter().filter(|info| info.built_in().is_some()).map(|info| &info.kind);
        schemas.extend(homeostat_builtin::published(built_in));
        if kinds.iter().any(|info| schema_name(info) == DEFINITION) {
            schemas.extend(homeostat_builtin::published_type(DEFINITION));
        }
        // A kind may also be a part of another one, as a claim of a StatefulSet.
        for known in homeostat_builtin::kinds() {
            if let Some(published) = schemas.get_mut(&known.definition) {
                published[GROUP_VERSION_KIND] = json!([group_version_kind(&known.kind())]);
            }
        }
        for info in kinds {
            match schemas.get_mut(&schema_name(info)) {
                Some(published) => published[GROUP_VERSION_KIND] = json!([group_version_kind(&info.kind)]),
                None => drop(schemas.insert(schema_name(info), schema(info))),
            }
            let all = format!("/{path}/{}", info.plural);
            // Only the served verbs, by their OpenAPI methods.
            let served = discovery::verbs(info);
            let operations = |verbs: &[(&str, &str, &str)]| {
                let verbs = verbs.iter().filter(|(verb, ..)| served.contains(verb));
                Value::Object(
                    verbs.map(|(_, method, action)| ((*method).to_owned(), operation(info, action))).collect(),
                )
            };
            let (collection, one) = if info.namespaced {
                paths.insert(all, operations(&COLLECTION[..1]));
                let collection = format!("/{path}/namespaces/{{namespace}}/{}", info.plural);
                (collection.clone(), format!("{collection}/{{name}}"))
            } else {
                (all.clone(), format!("{all}/{{name}}"))
            };
            paths.insert(collection, operations(&COLLECTION));
            paths.insert(one, operations(&ONE));
        }
        Self { paths, schemas }
    }
}

fn group_version_path(info: &KindInfo) -> String {
    let kind = &info.kind;
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// Returns the name of a kind's schema: its group reversed, version and name. Built-in kinds have their published names.
fn schema_name(info: &KindInfo) -> String {
    if info.built_in().is_some()
        && let Some(published) = homeostat_builtin::definition_of(&info.kind)
    {
        return published.to_owned();
    }
    if info.is_definition() {
        return DEFINITION.to_owned();
    }
    let mut words: Vec<&str> = info.kind.group.split('.').rev().filter(|word| !word.is_empty()).collect();
    words.extend([info.kind.version.as_str(), info.kind.name.as_str()]);
    words.join(".")
}

fn schema(info: &KindInfo) -> Value {
    let mut schema = info.schema.clone().filter(Value::is_object).unwrap_or_else(|| json!({ "type": "object" }));
    let properties = schema.as_object_mut().map(|schema| schema.entry("properties").or_insert_with(|| json!({})));
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        let text = |words: &str| json!({ "type": "string", "description": words });
        properties.insert("apiVersion".to_owned(), text(API_VERSION));
        properties.insert("kind".to_owned(), text(KIND));
        let meta = json!({ "$ref": format!("#/components/schemas/{OBJECT_META}") });
        let meta = json!({ "description": METADATA, "allOf": [meta] });
        properties.insert("metadata".to_owned(), meta);
    }
    schema[GROUP_VERSION_KIND] = json!([group_version_kind(&info.kind)]);
    schema
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.name })
}

/// Returns the description of one operation: its parameters, request body and response.
fn operation(info: &KindInfo, verb: &str) -> Value {
    let reference = json!({ "$ref": format!("#/components/schemas/{}", schema_name(info)) });
    let content = json!({ "application/json": { "schema": reference } });
    let query = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
    let mut operation = json!({
        GROUP_VERSION_KIND: group_version_kind(&info.kind),
        "x-kubernetes-action": verb,
        "responses": { "200": { "description": "OK", "content": content } },
    });
    if matches!(verb, "post" | "put" | "patch") {
        operation["parameters"] = ["dryRun", "fieldManager", "fieldValidation"].map(query).into();
        operation["requestBody"] = json!({ "content": content });
    }
    if verb == "patch" {
        // Only the schemas of built-in kinds have the merge keys that clients look for.
        let mut types = vec!["apply-patch+yaml", "json-patch+json", "merge-patch+json"];
        types.extend(info.built_in().map(|_| "strategic-merge-patch+json"));
        let content =
            types.into_iter().map(|name| (format!("application/{name}"), json!({ "schema": { "type": "object" } })));
        operation["requestBody"] = json!({ "content": Map::from_iter(content) });
    }
    operation
}
