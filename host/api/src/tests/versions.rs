//! Kinds that are served in several versions.

use super::*;

const V1: &str = "/apis/example.com/v1/sites";
const BETA: &str = "/apis/example.com/v1beta1/sites";

/// Returns a definition that serves two of three versions and stores one of them.
fn definition(stored: &str) -> Value {
    let version = |name: &str, served: bool| {
        let number = json!({ "type": "integer" });
        let spec = json!({ "type": "object", "properties": { "host": { "type": "string" }, name: number } });
        let status = json!({ "type": "object", "properties": { "copies": number } });
        let properties = json!({ "spec": spec, "status": status });
        json!({
            "name": name, "served": served, "storage": name == stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
            "additionalPrinterColumns": [{ "name": format!("In {name}"), "type": "string", "jsonPath": ".spec.host" }],
            "subresources": { "status": {}, "scale": {
                "specReplicasPath": format!(".spec.{name}"), "statusReplicasPath": ".status.copies",
            } },
        })
    };
    let mut definition = site_definition();
    definition["spec"]["versions"] = json!([version("v1alpha1", false), version("v1beta1", true), version("v1", true)]);
    definition
}

async fn sites() -> Server {
    let server = Server::start().await;
    let created = server.ask("POST", DEFINITIONS, &definition("v1")).await;
    assert_eq!(created.code, 201, "{}", created.body);
    server
}

fn site(version: &str, name: &str) -> Value {
    let (api_version, spec) = (format!("example.com/{version}"), json!({ "host": "a.example" }));
    json!({ "apiVersion": api_version, "kind": "Site", "metadata": { "name": name }, "spec": spec })
}

fn version(answer: &Value) -> &str {
    answer["apiVersion"].as_str().unwrap().strip_prefix("example.com/").unwrap()
}

#[tokio::test]
async fn a_resource_is_read_in_every_version_that_is_served() {
    let server = sites().await;
    let created = server.ask("POST", BETA, &site("v1beta1", "one")).await;
    assert_eq!((created.code, version(&created.body)), (201, "v1beta1"), "{}", created.body);
    for (path, served) in [(V1, "v1"), (BETA, "v1beta1")] {
        let mut one = server.get(&format!("{path}/one")).await;
        assert_eq!(version(&one), served);
        let list = server.get(path).await;
        assert_eq!((version(&list), version(&list["items"][0])), (served, served));
        assert_eq!(server.follow(&format!("{path}?watch=1")).await.next().await.unwrap()["object"], one);
        one["apiVersion"] = created.body["apiVersion"].clone();
        assert_eq!(one, created.body, "nothing else differs");
    }
    let hidden = server.ask("GET", "/apis/example.com/v1alpha1/sites", &Value::Null).await;
    assert_eq!(hidden.code, 404, "it is not served");
    let key = homeostat_store::Key::new(Kind::new("example.com", "v1", "Site"), "", "one");
    assert_eq!(version(server.host.store().get(&key).await.unwrap().document()), "v1");
}

#[tokio::test]
async fn every_version_is_written_by_its_own_schema_and_that_of_the_stored_version() {
    let server = sites().await;
    let apply = async |path: &str, version: &str, spec: Value| {
        let path = format!("{path}/one?fieldManager={version}");
        let document = json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Site", "metadata": { "name": "one" }, "spec": spec,
        });
        answer(server.send("PATCH", &path, "application/apply-patch+yaml", &document.to_string()).await).await
    };
    let beta = json!({ "host": "a.example", "v1beta1": 2 });
    let applied = apply(BETA, "v1beta1", beta.clone()).await.body;
    assert_eq!(applied["spec"], json!({ "host": "a.example" }), "the stored version does not know the other field");
    let stable = json!({ "host": "a.example", "v1": 1 });
    let applied = apply(V1, "v1", stable.clone()).await.body;
    assert_eq!(applied["spec"], stable, "v1 knows nothing of the other field");
    // As in Kubernetes, an apply names no field that its version does not know.
    let unknown = apply(V1, "v1", beta.clone()).await;
    assert_eq!(unknown.code, 500, "{}", unknown.body);
    let mixed = apply(V1, "v1beta1", beta).await;
    assert_eq!(mixed.code, 400, "{}", mixed.body);
    for (path, field, replicas) in [(V1, "v1", json!(5)), (BETA, "v1beta1", Value::Null)] {
        let patch = json!({ "spec": { field: 5 } }).to_string();
        let patched =
            answer(server.send("PATCH", &format!("{path}/one"), "application/merge-patch+json", &patch).await);
        assert_eq!(
            (patched.await.code, &server.get(&format!("{path}/one/scale")).await["spec"]["replicas"]),
            (200, &replicas)
        );
        let patch = json!({ "status": { "copies": 2, "other": 3 } }).to_string();
        let path = format!("{path}/one/status");
        let reported = answer(server.send("PATCH", &path, "application/merge-patch+json", &patch).await).await;
        assert_eq!((version(&reported.body), &reported.body["status"]), (field, &json!({ "copies": 2 })));
        let updated = server.ask("PUT", &path, &reported.body).await;
        assert_eq!((updated.code, version(&updated.body)), (200, field));
        let deleted = server.ask("DELETE", &format!("{}?dryRun=All", path.replace("/status", "")), &Value::Null).await;
        assert_eq!(deleted.code, 200);
    }
}

#[tokio::test]
async fn discovery_schemas_and_tables_are_those_of_each_version() {
    let server = sites().await;
    server.ask("POST", V1, &site("v1", "one")).await;
    let group = server.get("/apis/example.com").await;
    let mut versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|version| version["version"].as_str().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, ["v1", "v1beta1"]);
    for version in ["v1", "v1beta1"] {
        let kinds = server.get(&format!("/apis/example.com/{version}")).await;
        assert_eq!(kinds["resources"].as_array().unwrap().len(), 3, "{kinds}");
        let described = server.get(&format!("/openapi/v3/apis/example.com/{version}")).await.to_string();
        assert!(described.contains(&format!("\"{version}\":{{\"type\":\"integer\"")), "{described}");
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let path = format!("/apis/example.com/{version}/sites?includeObject=Object");
        let table = answer(server.send("GET", &path, accept, "").await).await.body;
        assert_eq!(table["columnDefinitions"][1]["name"], format!("In {version}"));
        assert_eq!(self::version(&table["rows"][0]["object"]), version);
    }
}

#[tokio::test]
async fn resources_are_brought_into_the_version_that_is_stored_from_now_on() {
    let server = Server::start().await;
    server.ask("POST", DEFINITIONS, &definition("v1beta1")).await;
    for name in ["one", "two"] {
        assert_eq!(server.ask("POST", V1, &site("v1", name)).await.code, 201);
    }
    let path = format!("{DEFINITIONS}/sites.example.com");
    let stored_versions = async |expected: Value| {
        let waiting = async {
            while server.get(&path).await["status"]["storedVersions"] != expected {
                tokio::task::yield_now().await;
            }
        };
        soon(waiting).await;
    };
    stored_versions(json!(["v1beta1"])).await;
    let before = server.get(&format!("{V1}/one")).await;
    let patch = json!({ "spec": definition("v1")["spec"] }).to_string();
    let changed = answer(server.send("PATCH", &path, "application/merge-patch+json", &patch).await).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let query = homeostat_store::Query::all(Kind::new("example.com", "v1", "Site"));
    let stored = server.host.store().list(&query).await.unwrap();
    assert_eq!(stored.items.iter().map(|item| version(item.document())).collect::<Vec<_>>(), ["v1", "v1"]);
    stored_versions(json!(["v1"])).await;
    let after = server.get(&format!("{V1}/one")).await;
    assert_eq!((&after["metadata"]["uid"], &after["metadata"]["generation"]), (&before["metadata"]["uid"], &json!(1)));
    assert_eq!(version(&server.get(&format!("{BETA}/two")).await), "v1beta1");
}

#[tokio::test]
async fn a_version_that_a_component_names_stays_the_stored_one() {
    let server = sites().await;
    let kind = Kind::new("example.com", "v1", "Site");
    let declaration =
        KindDeclaration { kind, plural: "sites".into(), namespaced: false, keys_only: false, schema: None };
    server.host.kinds().declare(KindInfo::declared(&declaration, "controller web")).unwrap();
    let refused = server.ask("PUT", &format!("{DEFINITIONS}/sites.example.com"), &definition("v1beta1")).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("version is `v1` by controller web"), "{message}");
}
