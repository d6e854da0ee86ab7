use serde_json::json;

use super::*;

pub(crate) fn kinds() -> Kinds {
    serde_json::from_value(document()).unwrap()
}

/// A host's response to the request for its kinds.
pub(crate) fn document() -> Value {
    let kind = |group, version, name, plural, short: &[&str], namespaced| {
        json!({
            "kind": { "group": group, "version": version, "name": name }, "plural": plural, "namespaced": namespaced,
            "singular": str::to_lowercase(name), "shortNames": short, "keysOnly": false, "schema": null, "source": "test",
        })
    };
    json!({ "items": [
        kind("apps", "v1", "Deployment", "deployments", &["deploy"], true),
        kind("", "v1", "Pod", "pods", &["po"], true),
        kind("", "v1", "Namespace", "namespaces", &["ns"], false),
        kind("homeostat.dev", "v1alpha1", "Controller", "controllers", &[], false),
    ] })
}

#[test]
fn a_kind_is_found_by_plural_singular_and_short_name() {
    let kinds = kinds();
    let words = ["deployments", "deployment", "deploy", "Deployment", "deployments.apps", "deploy.v1.apps"];
    assert!(words.iter().all(|word| kinds.find(word).unwrap().name() == "Deployment"));
    assert!(kinds.find("deployments.extensions").is_err());
}

#[test]
fn a_misspelt_kind_gets_a_suggestion() {
    for (word, meant) in
        [("deplyoments", "deployments"), ("pod.v2", "pods"), ("contoller", "controllers"), ("opds", "pods")]
    {
        let message = kinds().find(word).unwrap_err().to_string();
        assert!(message.contains(&format!("did you mean {meant}")), "{word}: {message}");
    }
    assert!(kinds().find("gizmos").unwrap_err().to_string().contains("get crd"));
}

#[test]
fn a_path_has_a_namespace_only_where_the_kind_has_one() {
    let kinds = kinds();
    let deployment = kinds.find("deploy").unwrap();
    assert_eq!(deployment.path(None), "/apis/apps/v1/deployments");
    assert_eq!(deployment.path_of("default", "web"), "/apis/apps/v1/namespaces/default/deployments/web");
    assert_eq!(kinds.find("ns").unwrap().path_of("default", "a"), "/api/v1/namespaces/a");
    assert_eq!(deployment.key("default", "web"), "apps/v1/Deployment default/web");
    assert_eq!(deployment.qualified_name("web"), "deployment.apps/web");
}

#[test]
fn distance_counts_letters_and_swaps() {
    for (from, to, expected) in
        [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "axc", 1), ("abc", "ab", 1)]
    {
        assert_eq!(distance(from, to), expected, "{from} {to}");
    }
}
