//! Requests of Kubernetes clients beyond the plain verbs: formats, subresources, ownership and schemas.

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const ALL_GROUPS: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn as_form(server: &Server, path: &str, accept: &str) -> Value {
    let answered = answer(server.send("GET", path, accept, "").await).await;
    assert_eq!(answered.code, 200, "{path}: {}", answered.body);
    answered.body
}

fn site(spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "one" }, "spec": spec })
}

/// Declares sites with a schema, columns and a scale.
async fn sites() -> Server {
    let server = Server::start().await;
    let mut definition = site_definition();
    definition["spec"]["versions"][0]["schema"] = json!({ "openAPIV3Schema": { "type": "object", "properties": {
        "spec": { "type": "object", "required": ["host"], "properties": {
            "host": { "type": "string", "description": "Where the site is" },
            "copies": { "type": "integer", "minimum": 0, "default": 1 },
        } },
        "status": { "type": "object", "properties": { "copies": { "type": "integer" } } },
    } } });
    definition["spec"]["versions"][0]["subresources"] = json!({ "status": {}, "scale": {
        "specReplicasPath": ".spec.copies", "statusReplicasPath": ".status.copies",
    } });
    definition["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{ "name": "Host", "type": "string", "jsonPath": ".spec.host" }]);
    let created = server.ask("POST", DEFINITIONS, &definition).await;
    assert_eq!(created.code, 201, "{}", created.body);
    server
}

const SITES: &str = "/apis/example.com/v1/sites";

#[tokio::test]
async fn lists_and_watches_come_as_tables() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let table = as_form(&server, SITES, TABLE).await;
    assert_eq!((&table["kind"], &table["columnDefinitions"][1]["name"]), (&json!("Table"), &json!("Host")));
    assert_eq!(table["rows"][0]["cells"], json!(["one", "a.example"]));
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "one");
    let one = as_form(&server, &format!("{SITES}/one?includeObject=Object"), TABLE).await;
    assert_eq!(one["rows"][0]["object"]["spec"]["copies"], 1);
    let response = server.send("GET", &format!("{SITES}?watch=1"), TABLE, "").await;
    let mut lines = Lines { body: response.into_body(), buffer: String::new() };
    let first = lines.next().await.unwrap();
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    server.ask("DELETE", &format!("{SITES}/one"), &Value::Null).await;
    let second = lines.next().await.unwrap();
    assert_eq!((&second["type"], &second["object"]["columnDefinitions"]), (&json!("DELETED"), &Value::Null));
    assert_eq!(second["object"]["rows"][0]["cells"][0], "one");
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let list = as_form(&server, SITES, METADATA).await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
    assert_eq!(list["items"][0].get("spec"), None);
}

#[tokio::test]
async fn kinds_are_discovered_at_once_and_described() {
    let server = sites().await;
    let groups = as_form(&server, "/apis", ALL_GROUPS).await;
    let group = groups["items"].as_array().unwrap().iter().find(|group| group["metadata"]["name"] == "example.com");
    let found = &group.unwrap()["versions"][0]["resources"][0];
    assert_eq!((&found["resource"], &found["scope"]), (&json!("sites"), &json!("Cluster")));
    let parts: Vec<&Value> =
        found["subresources"].as_array().unwrap().iter().map(|part| &part["subresource"]).collect();
    assert_eq!(parts, ["status", "scale"]);
    let core = as_form(&server, "/api", ALL_GROUPS).await;
    assert_eq!(core["items"].as_array().unwrap().len(), 1);
    let index = server.get("/openapi/v3").await;
    let path = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let described = server.get(&path).await;
    let schema = &described["components"]["schemas"]["com.example.v1.Site"];
    assert_eq!(schema["properties"]["spec"]["properties"]["host"]["description"], "Where the site is");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Site");
    assert_eq!(server.ask("GET", "/openapi/v3/apis/nobody/v1", &Value::Null).await.code, 404);
}

#[tokio::test]
async fn openapi_omits_verbs_that_are_not_served() {
    let server = sites().await;
    let methods = async |document: &str, path: &str| {
        let described = server.get(&format!("/openapi/v3/{document}")).await;
        let methods = described["paths"][path].as_object().unwrap_or_else(|| panic!("no {path}"));
        methods.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let events = "/api/v1/namespaces/{namespace}/events";
    assert_eq!(methods("api/v1", events).await, "get");
    assert_eq!(methods("api/v1", &format!("{events}/{{name}}")).await, "get");
    let controllers = "/apis/homeostat.dev/v1alpha1/controllers";
    assert_eq!(
        methods("apis/homeostat.dev/v1alpha1", &format!("{controllers}/{{name}}")).await,
        "delete get patch put"
    );
    assert_eq!(methods("apis/example.com/v1", SITES).await, "delete get post");
    assert_eq!(methods("apis/example.com/v1", &format!("{SITES}/{{name}}")).await, "delete get patch put");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[tokio::test]
async fn apply_conflict_names_field_and_owner() {
    let server = sites().await;
    let apply = async |manager: &str, host: &str, force: bool| {
        let path = format!("{SITES}/one?fieldManager={manager}&force={force}");
        let document = site(&json!({ "host": host })).to_string();
        answer(server.send("PATCH", &path, "application/apply-patch+yaml", &document).await).await
    };
    assert_eq!(apply("one", "a.example", false).await.code, 201);
    let refused = apply("two", "b.example", false).await;
    assert_eq!((refused.code, &refused.body["reason"]), (409, &json!("Conflict")));
    let cause = json!({ "reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.host" });
    assert_eq!(refused.body["details"]["causes"], json!([cause]));
    assert_eq!(apply("two", "b.example", true).await.code, 200);
    assert_eq!(apply("one", "a.example", false).await.code, 409, "it was taken over");
}

#[tokio::test]
async fn a_refused_definition_tells_all_causes() {
    let server = Server::start().await;
    let mut definition = site_definition();
    definition["metadata"]["labels"] = json!({ "no label": "x" });
    definition["spec"]["scope"] = "Nowhere".into();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["id"] = "x".into();
    let fields = |refused: &Answer| -> Vec<String> {
        let causes = refused.body["details"]["causes"].as_array().unwrap().iter();
        causes.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect()
    };
    let refused = server.ask("POST", DEFINITIONS, &definition).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(fields(&refused), ["metadata.labels", "spec.scope", "spec.validation.openAPIV3Schema.id"]);
    definition["metadata"]["labels"] = Value::Null;
    assert_eq!(
        fields(&server.ask("POST", DEFINITIONS, &definition).await),
        ["spec.scope", "spec.validation.openAPIV3Schema.id"]
    );
    assert_eq!(server.get(DEFINITIONS).await["items"], json!([]), "nothing is stored");
}

#[tokio::test]
async fn schema_violations_name_every_field() {
    let server = sites().await;
    let refused = server.ask("POST", SITES, &site(&json!({ "copies": -1, "unknown": true }))).await;
    assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")));
    let fields: Vec<&Value> =
        refused.body["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, ["spec.host", "spec.copies", ".spec.copies"], "the schema and the scale are checked");
    let created = server.ask("POST", SITES, &site(&json!({ "host": "a.example", "unknown": true }))).await;
    assert_eq!(created.body["spec"], json!({ "host": "a.example", "copies": 1 }));
}

#[tokio::test]
async fn a_scale_is_read_and_set() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let path = format!("{SITES}/one/scale");
    let scale = server.get(&path).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    let patch = r#"{"spec":{"replicas":5}}"#;
    let scaled = answer(server.send("PATCH", &path, "application/merge-patch+json", patch).await).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(5)));
    let old = server.ask("PUT", &path, &scale).await;
    assert_eq!(old.code, 409, "the scale has the revision of what it was read from");
    assert_eq!(server.get(&format!("{SITES}/one")).await["spec"]["copies"], 5);
    assert_eq!(server.ask("GET", &format!("{DEFINITIONS}/sites.example.com/scale"), &Value::Null).await.code, 404);
}

#[tokio::test]
async fn a_scale_is_applied_by_its_owners() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let apply = async |name: &str, query: &str, replicas: u32| {
        let body = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": name }, "spec": { "replicas": replicas },
        });
        let path = format!("{SITES}/{name}/scale?{query}");
        answer(server.send("PATCH", &path, "application/apply-patch+yaml", &body.to_string()).await).await
    };
    assert_eq!(apply("one", "fieldManager=one", 3).await.code, 409, "the default belongs to the creator");
    let applied = apply("one", "fieldManager=one&force=true", 3).await;
    assert_eq!((applied.code, &applied.body["spec"]["replicas"]), (200, &json!(3)), "{}", applied.body);
    let stored = server.get(&format!("{SITES}/one")).await;
    assert_eq!(stored["spec"], json!({ "host": "a.example", "copies": 3 }));
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "one").unwrap();
    assert_eq!((&entry["operation"], &entry["subresource"]), (&json!("Apply"), &json!("scale")));
    assert_eq!(entry["fieldsV1"], json!({ "f:spec": { "f:copies": {} } }));
    let conflict = apply("one", "fieldManager=two", 4).await;
    assert_eq!((conflict.code, &conflict.body["details"]["causes"][0]["field"]), (409, &json!(".spec.copies")));
    assert_eq!(apply("one", "fieldManager=two&force=true", 4).await.body["spec"]["replicas"], 4);
    assert_eq!(apply("one", "", 4).await.code, 422, "an apply has a manager");
    assert_eq!(apply("none", "fieldManager=one", 4).await.code, 404, "it creates nothing");
}

#[tokio::test]
async fn a_scale_reads_and_writes_the_paths_of_its_definition() {
    let server = Server::start().await;
    let mut definition = site_definition();
    definition["spec"]["versions"][0]["subresources"] = json!({ "scale": {
        "specReplicasPath": ".spec.a.copies", "statusReplicasPath": ".status.b.copies",
    } });
    assert_eq!(server.ask("POST", DEFINITIONS, &definition).await.code, 201);
    server.ask("POST", SITES, &site(&json!({ "a": { "copies": 2, "other": true } }))).await;
    let status = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "one" }, "status": { "b": { "copies": 1 } } });
    server.ask("PUT", &format!("{SITES}/one/status"), &status).await;
    let path = format!("{SITES}/one/scale");
    let scale = server.get(&path).await;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(1)));
    let patch = r#"{"spec":{"replicas":5}}"#;
    assert_eq!(answer(server.send("PATCH", &path, "application/merge-patch+json", patch).await).await.code, 200);
    let spec = json!({ "a": { "copies": 5, "other": true } });
    assert_eq!(server.get(&format!("{SITES}/one")).await["spec"], spec);
}

#[tokio::test]
async fn a_patch_of_a_status_changes_the_status_alone() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let patch = r#"{"status":{"copies":3},"spec":{"host":"other"}}"#;
    let path = format!("{SITES}/one/status");
    let patched = answer(server.send("PATCH", &path, "application/merge-patch+json", patch).await).await;
    assert_eq!((&patched.body["status"]["copies"], &patched.body["spec"]["host"]), (&json!(3), &json!("a.example")));
    let refused =
        answer(server.send("PATCH", &path, "application/merge-patch+json", r#"{"status":{"copies":"x"}}"#).await);
    assert_eq!(refused.await.code, 422);
}

#[tokio::test]
async fn a_status_is_applied_by_its_owners() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let apply = async |query: &str, copies: u32| {
        let mut body = site(&json!({ "host": "other" }));
        body["status"] = json!({ "copies": copies });
        let body = body.to_string();
        let path = format!("{SITES}/one/status?{query}");
        answer(server.send("PATCH", &path, "application/apply-patch+yaml", &body).await).await
    };
    let applied = apply("fieldManager=one", 3).await;
    assert_eq!((applied.code, &applied.body["status"]), (200, &json!({ "copies": 3 })), "{}", applied.body);
    assert_eq!(applied.body["spec"]["host"], "a.example");
    let entries = applied.body["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "one").unwrap();
    assert_eq!((&entry["operation"], &entry["subresource"]), (&json!("Apply"), &json!("status")));
    assert_eq!(entry["fieldsV1"], json!({ "f:status": { "f:copies": {} } }));
    let conflict = apply("fieldManager=two", 4).await;
    assert_eq!((conflict.code, &conflict.body["details"]["causes"][0]["field"]), (409, &json!(".status.copies")));
    assert_eq!(apply("fieldManager=two&force=true", 4).await.body["status"]["copies"], 4);
    assert_eq!(apply("", 4).await.code, 422, "an apply has a manager");
    let absent = format!("{SITES}/two/status?fieldManager=one");
    let mut other = site(&json!({}));
    other["metadata"]["name"] = "two".into();
    let absent = server.send("PATCH", &absent, "application/apply-patch+yaml", &other.to_string()).await;
    assert_eq!(answer(absent).await.code, 404, "a status makes no resource");
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_warned_about_or_refused() {
    let server = sites().await;
    let body = r#"{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"one"},"spec":{"host":"a","host":"b","color":"red","a\"b":1}}"#;
    let send = async |method: &str, query: &str, body: &str| {
        let path = if method == "POST" { format!("{SITES}?{query}") } else { format!("{SITES}/one?{query}") };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let response = server.send(method, &path, kind, body).await;
        let warnings = response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
        let warnings: Vec<String> = warnings.collect();
        (warnings, answer(response).await)
    };
    let (warnings, refused) = send("POST", "fieldValidation=Strict", body).await;
    assert_eq!((warnings.len(), refused.code), (0, 400));
    let wanted =
        r#"strict decoding error: unknown field "spec.a\"b", unknown field "spec.color", duplicate field "spec.host""#;
    assert_eq!(refused.body["message"], wanted);
    assert_eq!(server.get(SITES).await["items"], json!([]));
    let (warnings, created) = send("POST", "dryRun=All", body).await;
    let expected = [
        r#"299 - "duplicate field \"spec.host\"""#,
        r#"299 - "unknown field \"spec.a\\\"b\"""#,
        r#"299 - "unknown field \"spec.color\"""#,
    ];
    assert_eq!((created.code, warnings), (201, expected.map(str::to_owned).to_vec()));
    let (warnings, created) = send("POST", "fieldValidation=Ignore", body).await;
    assert_eq!((created.code, warnings.len(), &created.body["spec"]["host"]), (201, 0, &json!("b")));

    let patch = r#"{"spec":{"copies":2,"size":1}}"#;
    let (_, refused) = send("PATCH", "fieldValidation=Strict", patch).await;
    let message = format!(
        " \"\" is invalid: patch: Invalid value: {patch:?}: strict decoding error: unknown field \"spec.size\""
    );
    assert_eq!((refused.code, &refused.body["message"]), (422, &json!(message)));
    let (warnings, patched) = send("PATCH", "fieldValidation=Warn", patch).await;
    assert_eq!((patched.code, warnings), (200, vec![r#"299 - "unknown field \"spec.size\"""#.to_owned()]));
    let (warnings, _) = send("PATCH", "", r#"{"spec":{"copies":3}}"#).await;
    assert_eq!(warnings.len(), 0);
    assert_eq!(send("PATCH", "fieldValidation=Maybe", patch).await.1.code, 422);
}

/// As in Kubernetes, which decodes a body before it compares it with anything.
#[tokio::test]
async fn a_body_that_is_refused_for_what_it_says_has_warnings_of_unknown_fields() {
    let server = sites().await;
    assert_eq!(server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await.code, 201);
    let one = format!("{SITES}/one");
    let warned = async |method: &str, path: &str, kind: &str, body: &Value| {
        let response = server.send(method, path, kind, &body.to_string()).await;
        let warnings = response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
        let warnings: Vec<String> = warnings.collect();
        (response.status().as_u16(), warnings)
    };
    let unknown = |code: u16| (code, vec![r#"299 - "unknown field \"spec.color\"""#.to_owned()]);
    let put = async |metadata: Value| {
        let mut body = site(&json!({ "host": "a.example", "color": "red" }));
        body["metadata"] = metadata;
        warned("PUT", &one, "application/json", &body).await
    };
    assert_eq!(put(json!({ "name": "two" })).await, unknown(400), "another name");
    assert_eq!(put(json!({ "name": "one" })).await, unknown(422), "no revision");
    assert_eq!(put(json!({ "name": "one", "resourceVersion": "1" })).await, unknown(409), "an old revision");
    let merge = async |body: Value| warned("PATCH", &one, "application/merge-patch+json", &body).await;
    let old = json!({ "metadata": { "resourceVersion": "1" }, "spec": { "color": "red" } });
    assert_eq!(merge(old).await, unknown(409));
    assert_eq!(merge(json!({ "metadata": { "uid": "x" }, "spec": { "color": "red" } })).await, unknown(409));
    let exists = site(&json!({ "host": "a.example", "color": "red" }));
    assert_eq!(warned("POST", SITES, "application/json", &exists).await, unknown(409));
    let ignored = format!("{SITES}?fieldValidation=Ignore");
    assert_eq!(warned("POST", &ignored, "application/json", &exists).await, (409, Vec::new()));
}

#[tokio::test]
async fn a_deprecated_version_warns_whoever_uses_it() {
    let server = Server::start().await;
    let mut definition = site_definition();
    definition["spec"]["versions"][0]["deprecated"] = true.into();
    assert_eq!(server.ask("POST", DEFINITIONS, &definition).await.code, 201);
    let response = server.send("GET", SITES, "application/json", "").await;
    assert_eq!(response.headers()["warning"], r#"299 - "example.com/v1 Site is deprecated""#);
}

#[tokio::test]
async fn a_dry_run_responds_and_stores_nothing() {
    let server = sites().await;
    let created = server.ask("POST", &format!("{SITES}?dryRun=All"), &site(&json!({ "host": "a.example" }))).await;
    assert_eq!((created.code, &created.body["spec"]["copies"]), (201, &json!(1)));
    assert_eq!(server.get(SITES).await["items"], json!([]));
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let gone = server.ask("DELETE", &format!("{SITES}/one"), &json!({ "dryRun": ["All"] })).await;
    assert_eq!(gone.code, 200);
    server.get(&format!("{SITES}/one")).await;
}

#[tokio::test]
async fn a_collection_delete_removes_all_selected_resources() {
    let server = Server::start().await;
    for (name, app) in [("one", "web"), ("two", "web"), ("three", "api")] {
        let mut document = deployment(name, app, 1);
        document["metadata"]["labels"] = json!({ "app": app });
        assert_eq!(server.ask("POST", DEPLOYMENTS, &document).await.code, 201);
    }
    let deleted = server.ask("DELETE", &format!("{DEPLOYMENTS}?labelSelector=app%3Dweb"), &Value::Null).await;
    assert_eq!((deleted.code, deleted.body["items"].as_array().unwrap().len()), (200, 2));
    let left = server.get(DEPLOYMENTS).await;
    assert_eq!((left["items"].as_array().unwrap().len(), &left["items"][0]["metadata"]["name"]), (1, &json!("three")));
}

#[tokio::test]
async fn events_are_resources_in_the_namespace_of_their_object() {
    let server = Server::start().await;
    let key = homeostat_store::Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web");
    note_from(&server, EventSource::Guest, Some(key), "Scaled");
    note_from(&server, EventSource::Host, None, "Scaled");
    let about =
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dweb,involvedObject.kind%3DDeployment";
    let found = server.get(about).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found["items"][0]["reason"], &found["items"][0]["count"]), (&json!("Scaled"), &json!(1)));
    let told_by = |event: &Value| (event["source"]["component"].clone(), event["reportingInstance"].clone());
    assert_eq!(told_by(&found["items"][0]), (json!("web"), json!("")));
    let of_host = server.get(&format!("{EVENTS}?fieldSelector=involvedObject.kind%3DController")).await;
    assert_eq!(told_by(&of_host["items"][0]), (json!("homeostat"), json!("web")), "{of_host}");
    let name = found["items"][0]["metadata"]["name"].as_str().unwrap();
    server.get(&format!("/api/v1/namespaces/default/events/{name}")).await;
    assert_eq!(server.ask("POST", "/api/v1/namespaces/default/events", &json!({})).await.code, 405);
}

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Records an event of the deployment `web`.
fn note(server: &Server, reason: &str) {
    let key = homeostat_store::Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web");
    note_from(server, EventSource::Host, Some(key), reason);
}

/// Records an event of the controller `web`.
fn note_from(server: &Server, source: EventSource, key: Option<homeostat_store::Key>, reason: &str) {
    let (controller, severity) = (&"web".into(), Severity::Normal);
    let event = NewEvent { controller, source, key, severity, reason, message: "text" };
    server.host.events().record("2026-11-20T08:00:00Z".into(), event);
}

#[tokio::test]
async fn a_repeated_event_is_the_same_one_with_a_greater_count() {
    let server = Server::start().await;
    note(&server, "Scaled");
    let list = server.get(EVENTS).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = server.follow(&format!("{EVENTS}?watch=1&resourceVersion={revision}")).await;
    note(&server, "Scaled");
    note(&server, "Failed");
    let (again, other) = (watch.next().await.unwrap(), watch.next().await.unwrap());
    assert_eq!((&again["type"], &again["object"]["count"]), (&json!("MODIFIED"), &json!(2)));
    let (before, now) = (&list["items"][0]["metadata"], &again["object"]["metadata"]);
    assert!(before["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{before}");
    assert_eq!((&before["name"], &before["uid"]), (&now["name"], &now["uid"]));
    assert_ne!(before["resourceVersion"], now["resourceVersion"]);
    assert_eq!((&other["type"], &other["object"]["reason"]), (&json!("ADDED"), &json!("Failed")));
    assert_ne!(now["uid"], other["object"]["metadata"]["uid"]);
}

#[tokio::test]
async fn events_of_another_process_or_of_a_future_cannot_be_watched_from() {
    let (before, server) = (Server::start().await, Server::start().await);
    note(&before, "Scaled");
    note(&server, "Scaled");
    let revision = |list: Value| list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let (old, now) = (revision(before.get(EVENTS).await), revision(server.get(EVENTS).await));
    for revision in [1, old, now + 1] {
        let mut watch = server.follow(&format!("{EVENTS}?watch=1&resourceVersion={revision}")).await;
        let line = watch.next().await.unwrap();
        assert_eq!((&line["type"], &line["object"]["code"]), (&json!("ERROR"), &json!(410)), "{revision}");
        assert!(watch.next().await.is_none(), "{revision}");
    }
}

#[tokio::test]
async fn a_watch_of_events_that_misses_some_ends_with_expired() {
    let server = Server::start().await;
    note(&server, "First");
    let mut watch = server.follow(&format!("{EVENTS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    // No other task runs meanwhile: the watch reads none of the events before the first are evicted.
    (0..homeostat_runtime::events::EVENTS_MAX + 1).for_each(|count| note(&server, &format!("Another{count}")));
    let line = watch.next().await.unwrap();
    assert_eq!((&line["type"], &line["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn event_watch_sends_tables_and_ends_initial_events_with_a_bookmark() {
    let server = Server::start().await;
    note(&server, "Scaled");
    let path =
        format!("{EVENTS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let response = server.send("GET", &path, TABLE, "").await;
    let mut lines = Lines { body: response.into_body(), buffer: String::new() };
    let first = lines.next().await.unwrap();
    assert_eq!(
        (&first["object"]["kind"], &first["object"]["rows"][0]["cells"][2]),
        (&json!("Table"), &json!("Scaled"))
    );
    let mark = lines.next().await.unwrap();
    let annotations = &mark["object"]["rows"][0]["object"]["metadata"]["annotations"];
    assert_eq!((&mark["type"], &annotations["k8s.io/initial-events-end"]), (&json!("BOOKMARK"), &json!("true")));
    note(&server, "Failed");
    assert_eq!(lines.next().await.unwrap()["object"]["columnDefinitions"], Value::Null);
}

#[tokio::test]
async fn events_are_selected_as_clients_ask_for_those_of_a_resource() {
    let server = Server::start().await;
    note(&server, "Scaled");
    let host = homeostat_store::Key::new(Kind::new("", "v1", "Namespace"), "", "prod");
    note_from(&server, EventSource::Host, Some(host), "Seen");
    let count = async |selector: &str| {
        server.get(&format!("/api/v1/events?{selector}")).await["items"].as_array().unwrap().len()
    };
    let about = "fieldSelector=involvedObject.name%3Dprod,involvedObject.kind%3DNamespace,involvedObject.namespace%3D";
    assert_eq!(count(&format!("{about},involvedObject.uid%3Dany")).await, 1);
    assert_eq!(count("fieldSelector=involvedObject.kind%3DDeployment,involvedObject.name%3Dweb").await, 1);
    assert_eq!(count("fieldSelector=involvedObject.namespace%3D").await, 1);
    assert_eq!(count("labelSelector=app%3Dweb").await, 0, "events have no labels");
    assert_eq!(count("fieldSelector=type%3DNormal,count%3D1").await, 2);
}

#[tokio::test]
async fn missing_resource_is_named_in_the_words_of_kubernetes() {
    let server = Server::start().await;
    let missing = server.ask("GET", &format!("{DEPLOYMENTS}/web"), &Value::Null).await;
    assert_eq!(missing.body["message"], "deployments.apps \"web\" not found");
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    let again = server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    assert_eq!(again.body["message"], "deployments.apps \"web\" already exists");
}

/// Sends requests until a response has this code.
async fn until_code(server: &Server, path: &str, code: u16) {
    let asking = async {
        while server.ask("GET", path, &Value::Null).await.code != code {
            tokio::task::yield_now().await;
        }
    };
    soon(asking).await;
}

#[tokio::test]
async fn a_kind_and_its_resources_go_with_their_definition_and_the_name_can_be_used_again() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let deleted = server.ask("DELETE", &format!("{DEFINITIONS}/sites.example.com"), &Value::Null).await;
    assert_eq!(deleted.code, 200);
    until_code(&server, &format!("{DEFINITIONS}/sites.example.com"), 404).await;
    until_code(&server, SITES, 404).await;
    let mut other = site_definition();
    other["spec"]["versions"][0]["name"] = "v2".into();
    assert_eq!(server.ask("POST", DEFINITIONS, &other).await.code, 201);
    assert_eq!(server.get("/apis/example.com/v2/sites").await["items"], json!([]));
}

#[tokio::test]
async fn terminating_kind_refuses_creates_and_accepts_updates() {
    let server = sites().await;
    let mut held = site(&json!({ "host": "a.example" }));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(server.ask("POST", SITES, &held).await.code, 201);
    server.ask("DELETE", &format!("{DEFINITIONS}/sites.example.com"), &Value::Null).await;
    let mut other = site(&json!({ "host": "b.example" }));
    other["metadata"]["name"] = "two".into();
    let refused = async {
        loop {
            let tried = server.ask("POST", &format!("{SITES}?dryRun=All"), &other).await;
            if tried.code != 201 {
                return tried;
            }
        }
    };
    let refused = soon(refused).await;
    assert_eq!((refused.code, &refused.body["reason"]), (405, &json!("MethodNotAllowed")));
    let message = "create not allowed while custom resource definition is terminating";
    assert_eq!(refused.body["message"], message);
    let free = json!({ "metadata": { "finalizers": [] } }).to_string();
    let freed = server.send("PATCH", &format!("{SITES}/one"), "application/merge-patch+json", &free).await;
    assert_eq!(freed.status(), 200);
    until_code(&server, &format!("{DEFINITIONS}/sites.example.com"), 404).await;
    assert_eq!(server.ask("POST", DEFINITIONS, &site_definition()).await.code, 201);
    assert_eq!(server.ask("POST", SITES, &other).await.code, 201, "the name can be used again");
}

#[tokio::test]
async fn a_definition_that_anybody_writes_declares_its_kind() {
    let server = Server::start().await;
    let document = site_definition();
    server.host.store().write(homeostat_store::Write::Create { document }).await.unwrap();
    until_code(&server, SITES, 200).await;
}

#[tokio::test]
async fn invalid_subresource_is_refused_and_changes_nothing() {
    let server = sites().await;
    server.ask("POST", SITES, &site(&json!({ "host": "a.example" }))).await;
    let before = server.get(&format!("{SITES}/one")).await;
    let cases = [
        ("PATCH", "status", "application/merge-patch+json", "5", 400),
        ("PATCH", "status", "application/merge-patch+json", r#"{"metadata":1}"#, 422),
        ("PATCH", "status", "application/json-patch+json", r#"[{"op":"replace","path":"","value":[]}]"#, 422),
        ("PUT", "status", "application/json", "[]", 400),
        (
            "PUT",
            "status",
            "application/json",
            r#"{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"two"}}"#,
            400,
        ),
        ("PATCH", "scale", "application/merge-patch+json", r#"{"spec":{"replicas":"5"}}"#, 422),
        ("PATCH", "scale", "application/merge-patch+json", r#"{"spec":{"replicas":-1}}"#, 422),
        ("PATCH", "scale", "application/json-patch+json", r#"[{"op":"test","path":"/spec/replicas","value":7}]"#, 422),
    ];
    for (method, part, content_type, body, code) in cases {
        let refused = answer(server.send(method, &format!("{SITES}/one/{part}"), content_type, body).await).await;
        assert_eq!(refused.code, code, "{method} {part} {body}: {}", refused.body);
    }
    assert_eq!(server.get(&format!("{SITES}/one")).await, before);
}

#[tokio::test]
async fn ambiguous_deletion_is_refused() {
    let server = Server::start().await;
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    assert_eq!(server.ask("DELETE", "/apis/apps/v1/deployments", &Value::Null).await.code, 405);
    let tried = server.ask("DELETE", &format!("{DEPLOYMENTS}/web"), &json!({ "dryRun": ["Server"] })).await;
    assert_eq!(tried.code, 422);
    server.get(&format!("{DEPLOYMENTS}/web")).await;
}

#[tokio::test]
async fn a_definition_says_when_its_kind_is_served() {
    let server = sites().await;
    let path = format!("{DEFINITIONS}/sites.example.com");
    let waiting = async {
        loop {
            let conditions = server.get(&path).await["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
                return;
            }
        }
    };
    soon(waiting).await;
    assert_eq!(server.get(&path).await["metadata"]["generation"], 1);
}

#[tokio::test]
async fn fields_of_any_scalar_can_be_selected_by() {
    let server = Server::start().await;
    for (name, replicas) in [("one", 1), ("two", 2)] {
        server.ask("POST", DEPLOYMENTS, &deployment(name, "web", replicas)).await;
    }
    let found = server.get(&format!("{DEPLOYMENTS}?fieldSelector=spec.replicas%3D2,spec.paused%3D")).await;
    assert_eq!((found["items"].as_array().unwrap().len(), &found["items"][0]["metadata"]["name"]), (1, &json!("two")));
}

/// S8: a watch delivers every later change, in order, once.
#[tokio::test]
async fn watch_from_an_unknown_revision_ends_with_expired() {
    let server = Server::start().await;
    let mut lines = server.follow(&format!("{DEPLOYMENTS}?watch=1&resourceVersion=999999")).await;
    let error = lines.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(error["object"]["reason"], "Expired");
    assert!(lines.next().await.is_none(), "nothing comes after it");
}

/// S8: a watch delivers every later change, in order, once.
#[tokio::test]
async fn a_revision_from_the_future_tells_clients_to_list_anew() {
    let server = Server::start().await;
    let refused = server.ask("GET", &format!("{DEPLOYMENTS}?resourceVersion=999999"), &Value::Null).await;
    assert_eq!(
        (refused.code, &refused.body["details"]["causes"][0]["reason"]),
        (504, &json!("ResourceVersionTooLarge"))
    );
}

#[tokio::test]
async fn a_deletion_names_the_precondition_that_does_not_hold() {
    let server = Server::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let created = server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await.body;
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let refused = server.ask("DELETE", &path, &json!({ "preconditions": { "uid": "other" } })).await;
    let words = format!(
        "Operation cannot be fulfilled on Deployment.apps \"web\": the UID in the precondition (other) does not match the UID in \
         record ({uid}). The object might have been deleted and then recreated"
    );
    assert_eq!((refused.code, &refused.body["message"]), (409, &json!(words)));
    let refused = server.ask("DELETE", &path, &json!({ "preconditions": { "resourceVersion": "999" } })).await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(refused.code == 409 && message.contains("the ResourceVersion in the precondition (999)"), "{message}");
}

#[tokio::test]
async fn a_json_patch_of_too_many_operations_is_too_large() {
    let server = Server::start().await;
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    let patch = |count: usize| json!(vec![json!({ "op": "test", "path": "/kind", "value": "Deployment" }); count]);
    let send = async |count| {
        let body = patch(count).to_string();
        answer(server.send("PATCH", &format!("{DEPLOYMENTS}/web"), "application/json-patch+json", &body).await).await
    };
    assert_eq!(send(1000).await.code, 200);
    let refused = send(1001).await;
    let words = "The allowed maximum operations in a JSON patch is 1000, got 1001";
    assert_eq!((refused.code, &refused.body["message"]), (413, &json!(words)));
}
