//! Tests of the schemas.

use serde_json::json;

use super::{published, schema};
use crate::kinds;

#[test]
fn every_built_in_kind_has_a_schema() {
    for known in kinds() {
        assert!(schema(&known.kind()).is_some(), "{}", known.name);
    }
}

#[test]
fn published_definitions_refer_to_each_other() {
    let kinds: Vec<_> = kinds().iter().filter(|known| known.group == "apps").map(crate::BuiltInKind::kind).collect();
    let published = published(&kinds);
    let spec = &published["io.k8s.api.apps.v1.DeploymentSpec"]["properties"];
    let name = "io.k8s.api.core.v1.PodTemplateSpec";
    assert_eq!(spec["template"]["allOf"], json!([{ "$ref": format!("#/components/schemas/{name}") }]));
    assert!(published.contains_key(name));
    assert!(!published.values().any(|definition| definition.to_string().contains("x-go")));
}
