//! Describes the kinds in OpenAPI v3: one document for each group and version, made from the schemas of the
//! kinds.
//!
//! A document has the parts that clients read: the fields of each kind and its operations. It is not a
//! complete description of the API. The document in OpenAPI v2 describes no kind.

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use homeostat_runtime::KindInfo;
use serde_json::{Map, Value, json};

use crate::discovery;
use crate::status::Failure;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

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

/// Responds with a document in OpenAPI v2 that describes no kind. Clients read the others, and ask for this one before they
/// say that they do not know a kind.
pub(crate) fn version_2(headers: &HeaderMap) -> Response {
    const SWAGGER: &str = "2.0";
    let (title, version) = ("Homeostat", env!("CARGO_PKG_VERSION"));
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    if !accepted.contains("proto-openapi") {
        let info = json!({ "title": title, "version": version });
        return Json(json!({ "swagger": SWAGGER, "info": info, "paths": {}, "definitions": {} })).into_response();
    }
    // `Document` and `Info` of gnostic's OpenAPIv2.proto, whose first two fields these are.
    let info = [field(1, title.as_bytes()), field(2, version.as_bytes())].concat();
    let document = [field(1, SWAGGER.as_bytes()), field(2, &info)].concat();
    ([(header::CONTENT_TYPE, BINARY_VERSION_2)], document).into_response()
}

/// Encodes a field of protobuf: text, bytes or a message of at most 127 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    const BYTES: u8 = 2;
    let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 128).expect("the texts are short");
    [&[(number << 3) | BYTES, length][..], bytes].concat()
}

/// Responds with the document at `api/v1` or `apis/GROUP/VERSION`.
pub(crate) fn document(kinds: &[KindInfo], path: &str) -> Result<Response, Failure> {
    let kinds: Vec<&KindInfo> =
        kinds.iter().filter(|info| !info.keys_only && group_version_path(info) == path).collect();
    if kinds.is_empty() {
        return Err(Failure::not_found(format!("there is no description of {path}")));
    }
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas.extend(homeostat_builtin::published_type(OBJECT_META));
    let built_in = kinds.iter().filter(|info| info.built_in().is_some()).map(|info| &info.kind);
    schemas.extend(homeostat_builtin::published(built_in));
    for info in kinds {
        match schemas.get_mut(&schema_name(info)) {
            Some(published) => published["x-kubernetes-group-version-kind"] = json!([group_version_kind(info)]),
            None => drop(schemas.insert(schema_name(info), schema(info))),
        }
        let all = format!("/{path}/{}", info.plural);
        // Only the served verbs, by their OpenAPI methods.
        let served = discovery::verbs(info);
        let operations = |verbs: &[(&str, &str, &str)]| {
            let verbs = verbs.iter().filter(|(verb, ..)| served.contains(verb));
            Value::Object(verbs.map(|(_, method, action)| ((*method).to_owned(), operation(info, action))).collect())
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
    let info = json!({ "title": "Homeostat", "version": env!("CARGO_PKG_VERSION") });
    Ok(Json(json!({ "openapi": "3.0.0", "info": info, "paths": paths, "components": { "schemas": schemas } }))
        .into_response())
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
    if let Some(known) = info.built_in() {
        return known.definition.clone();
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
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(info)]);
    schema
}

fn group_version_kind(info: &KindInfo) -> Value {
    json!({ "group": info.kind.group, "version": info.kind.version, "kind": info.kind.name })
}

/// Returns the description of one operation: its parameters, request body and response.
fn operation(info: &KindInfo, verb: &str) -> Value {
    let reference = json!({ "$ref": format!("#/components/schemas/{}", schema_name(info)) });
    let content = json!({ "application/json": { "schema": reference } });
    let query = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
    let mut operation = json!({
        "x-kubernetes-group-version-kind": group_version_kind(info),
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
