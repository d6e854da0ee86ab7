use homeostat_component::Grants;
use serde_json::json;

use super::masked;

#[test]
fn values_of_headers_are_never_told() {
    let grants: Grants = serde_json::from_value(json!({
        "resources": [{ "kinds": ["Pod"], "verbs": ["get"] }],
        "http": [{
            "urls": ["https://a.example/*"],
            "headers": { "authorization": { "value": "Bearer hush" }, "x-token": { "secret": "token" } },
        }],
    }))
    .unwrap();
    let told = json!(masked(grants.clone()));
    assert!(!told.to_string().contains("hush"), "{told}");
    let headers = json!({ "authorization": { "value": "***" }, "x-token": { "secret": "token" } });
    assert_eq!(told["http"][0]["headers"], headers);
    assert_eq!(told["resources"], json!(grants)["resources"]);
}
