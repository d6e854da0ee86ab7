use homeostat_component::KindDeclaration;

use super::*;

/// One kind in several versions.
fn sites(versions: &[&str]) -> Vec<KindInfo> {
    let declared = |version: &&str| {
        let kind = Kind::new("example.com", *version, "Site");
        let declaration =
            KindDeclaration { kind, plural: "sites".into(), namespaced: false, keys_only: false, schema: None };
        KindInfo::declared(&declaration, "test")
    };
    versions.iter().map(declared).collect()
}

async fn body(response: Response) -> Value {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

const SHUFFLED: [&str; 12] = [
    "foo10",
    "v1",
    "v11alpha2",
    "v3beta1",
    "v12alpha1",
    "v10beta3",
    "v11beta2",
    "v2",
    "v10",
    "foo1",
    "v11beta10",
    "v1",
];
const RANKED: [&str; 11] =
    ["v10", "v2", "v1", "v11beta10", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];

#[tokio::test]
async fn the_versions_of_a_group_come_in_the_order_in_which_clients_prefer_them() {
    let kinds = sites(&SHUFFLED);
    let group = body(super::group(&kinds, "example.com").unwrap()).await;
    let names: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|version| version["version"].as_str().unwrap()).collect();
    assert_eq!(names, RANKED);
    assert_eq!(group["preferredVersion"], json!({ "groupVersion": "example.com/v10", "version": "v10" }));
    let groups = body(groups(&kinds)).await;
    let named = |name: &str| json!({ "name": name });
    let found = groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == "example.com").unwrap();
    assert_eq!(found["preferredVersion"]["version"], "v10");
    let all = body(aggregated(&kinds, false)).await;
    let items = all["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["metadata"] == named("example.com")).unwrap();
    let names: Vec<&str> =
        item["versions"].as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(names, RANKED);
}
