//! The descriptions of kinds in OpenAPI.

use super::*;

const V2: &str = "/openapi/v2";
const BINARY: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

#[tokio::test]
async fn version_2_describes_every_kind() {
    let server = Server::with_built_in().await;
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &site_definition()).await;
    let document = server.get(V2).await;
    assert_eq!(document["swagger"], "2.0");
    let definitions = document["definitions"].as_object().unwrap();
    for name in ["io.k8s.api.core.v1.Pod", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", "com.example.v1.Site"] {
        assert!(definitions.contains_key(name), "{name}");
    }
    let pod = &definitions["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(pod["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(pod["description"].is_string(), "{pod}");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert!(patch["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "dryRun"), "{patch}");
    // What v2 has no word for would make clients refuse the whole document.
    assert!(!document.to_string().contains("#/components/"));
    let unknown: Vec<&str> = definitions.values().flat_map(words_of_version_3).collect();
    assert_eq!(unknown, [""; 0]);
}

/// Returns the keywords in a schema that only v3 has. The names of properties are none.
fn words_of_version_3(schema: &Value) -> Vec<&str> {
    let fields = schema.as_object().into_iter().flatten();
    fields
        .flat_map(|(name, value)| match name.as_str() {
            "properties" => {
                value.as_object().into_iter().flatten().flat_map(|(_, of)| words_of_version_3(of)).collect()
            }
            "items" | "additionalProperties" => words_of_version_3(value),
            "oneOf" | "anyOf" => vec![name.as_str()],
            "allOf" if value[0]["$ref"].is_string() => vec![name.as_str()],
            _ => Vec::new(),
        })
        .collect()
}

#[tokio::test]
async fn version_2_is_binary_for_clients_that_ask_for_it() {
    let server = Server::with_built_in().await;
    let response = server.send("GET", V2, BINARY, "").await;
    let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(response.headers()["content-type"], content_type);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(bytes.starts_with(b"\x0a\x032.0"), "{:?}", &bytes[..16]);
    let name = b"io.k8s.api.core.v1.PodSpec";
    assert!(bytes.windows(name.len()).any(|window| window == name));
}

#[tokio::test]
async fn a_document_has_a_tag_until_a_kind_changes() {
    let server = Server::with_built_in().await;
    for path in [V2, "/openapi/v3/apis/example.com/v1"] {
        if path != V2 {
            server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &site_definition()).await;
        }
        let tag = server.send("GET", path, "application/json", "").await.headers()["etag"].clone();
        let known = [("if-none-match", tag.to_str().unwrap())];
        assert_eq!(clients::ask_with(&server, "GET", path, &known, Vec::new()).await.code, 304, "{path}");
        let mut definition = site_definition();
        definition["metadata"]["name"] = "sites.other.dev".into();
        definition["spec"]["group"] = if path == V2 { "other.dev" } else { "example.com" }.into();
        if path == V2 {
            server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
            assert_eq!(clients::ask_with(&server, "GET", path, &known, Vec::new()).await.code, 200, "{path}");
        }
    }
}

#[tokio::test]
async fn the_fields_of_definitions_are_described() {
    let server = Server::with_built_in().await;
    let document = server.get("/openapi/v3/apis/apiextensions.k8s.io/v1").await;
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas[name]["x-kubernetes-group-version-kind"][0]["kind"], "CustomResourceDefinition");
    let versions = &schemas[format!("{name}Spec")]["properties"]["versions"];
    assert!(
        versions["description"].as_str().is_some_and(|words| words.contains("list of all API versions")),
        "{versions}"
    );
}
