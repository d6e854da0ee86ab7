use homeostat_store::{Error, Kind};

use super::{Parameters, collection, item};
use crate::catalog::ServedKind;

fn served(group: &str, name: &str, plural: &str, namespaced: bool) -> ServedKind {
    ServedKind { namespaced, plural: plural.to_owned(), ..ServedKind::new(Kind::new(group, "v1", name)) }
}

#[test]
fn each_kind_has_the_path_of_its_group_and_scope() {
    let pods = served("", "Pod", "pods", true);
    let nodes = served("", "Node", "nodes", false);
    let widgets = served("example.dev", "Widget", "widgets", true);
    assert_eq!(collection(&pods, "v1", None).unwrap(), "/api/v1/pods");
    assert_eq!(collection(&pods, "v1", Some("a")).unwrap(), "/api/v1/namespaces/a/pods");
    assert_eq!(collection(&widgets, "v1beta1", Some("a")).unwrap(), "/apis/example.dev/v1beta1/namespaces/a/widgets");
    assert_eq!(item(&pods, "v1", "a", "b").unwrap(), "/api/v1/namespaces/a/pods/b");
    assert_eq!(item(&nodes, "v1", "", "n").unwrap(), "/api/v1/nodes/n");
}

#[test]
fn a_namespace_must_fit_the_scope_of_the_kind() {
    let nodes = served("", "Node", "nodes", false);
    let pods = served("", "Pod", "pods", true);
    for refused in [item(&nodes, "v1", "a", "n"), collection(&nodes, "v1", Some("a")), item(&pods, "v1", "", "p")] {
        assert!(matches!(refused, Err(Error::Invalid { path, .. }) if path == "metadata.namespace"));
    }
}

#[test]
fn no_name_leaves_its_segment() {
    let roles = served("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false);
    for name in ["", ".", "..", "a/b", "a%2fb"] {
        assert!(matches!(item(&roles, "v1", "", name), Err(Error::Invalid { path, .. }) if path == "metadata.name"));
    }
    let path = item(&roles, "v1", "", "system:a b?c#d").unwrap();
    assert_eq!(path, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3Fc%23d");
}

#[test]
fn parameters_are_encoded() {
    let parameters = Parameters::default().with("labelSelector", "a=b,c in (d,é)").with_some("limit", None);
    assert_eq!(parameters.after("/x"), "/x?labelSelector=a%3Db%2Cc%20in%20%28d%2C%C3%A9%29");
    assert_eq!(parameters.with("limit", "1").after(""), "?labelSelector=a%3Db%2Cc%20in%20%28d%2C%C3%A9%29&limit=1");
    assert_eq!(Parameters::default().after("/x"), "/x");
}
