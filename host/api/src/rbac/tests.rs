use serde_json::{Value, json};

use super::role_book::{RoleBook, RoleDocuments};
use super::*;
use crate::caller::Caller;

fn caller(name: &str, groups: &[&str]) -> Caller {
    let groups = groups.iter().map(|name| (*name).to_owned()).collect();
    Caller { name: name.to_owned(), groups, ..Caller::default() }
}

fn rule(value: Value) -> PolicyRule {
    serde_json::from_value(value).unwrap()
}

fn resource<'r>(verb: &'r str, group: &'r str, plural: &'r str) -> Attributes<'r> {
    let about = Subject::Resource { group, plural, subresource: None, namespace: Some("a"), name: None };
    Attributes { verb, about }
}

fn part<'r>(verb: &'r str, plural: &'r str, part: &'r str, name: Option<&'r str>) -> Attributes<'r> {
    let about = Subject::Resource { group: "", plural, subresource: Some(part), namespace: Some("a"), name };
    Attributes { verb, about }
}

#[test]
fn a_rule_allows_its_verbs_groups_resources_and_namespaces_only() {
    let reads = rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]}));
    assert!(reads.allows(&resource("get", "", "pods")) && reads.allows(&part("get", "pods", "log", Some("x"))));
    for other in [resource("watch", "", "pods"), resource("get", "apps", "pods"), resource("get", "", "secrets")] {
        assert!(!reads.allows(&other), "{other:?}");
    }
    assert!(!reads.allows(&part("get", "pods", "status", None)));
    let all_parts = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]}));
    assert!(
        all_parts.allows(&part("update", "pods", "status", None)) && !all_parts.allows(&resource("get", "", "pods"))
    );
    let there = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["b"]}));
    assert!(!there.allows(&resource("get", "", "pods")));
    assert!(there.clone().within("a").allows(&resource("get", "", "pods")));
}

#[test]
fn a_rule_with_names_allows_no_list_of_all() {
    let named = rule(json!({
        "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["x"],
    }));
    assert!(named.allows(&part("get", "pods", "log", Some("x"))));
    assert!(!named.allows(&part("get", "pods", "log", Some("y"))) && !named.allows(&part("list", "pods", "log", None)));
}

#[test]
fn paths_are_allowed_by_name_or_by_beginning() {
    let paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]}));
    let allows = |path| paths.allows(&Attributes { verb: "get", about: Subject::Path(path) });
    assert!(allows("/metrics") && allows("/logs/a") && !allows("/metrics/a") && !allows("/log"));
}

fn book() -> RoleBook {
    RoleBook::new(&RoleDocuments {
        roles: vec![json!({
            "metadata": {"name": "reader", "namespace": "a"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, {"verbs": 1}],
        })],
        cluster_roles: Vec::new(),
        bindings: vec![
            json!({
                "metadata": {"name": "b", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "devs"}],
            }),
            json!({
                "metadata": {"name": "c", "namespace": "a"}, "roleRef": {"kind": "ClusterRole", "name": "edit"},
                "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
            }),
            json!({
                "metadata": {"name": "d", "namespace": "b"}, "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "User", "name": "carol"}],
            }),
        ],
        cluster_bindings: vec![json!({
            "metadata": {"name": "e"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "Group", "name": "viewers"}],
        })],
    })
}

#[test]
fn bindings_give_the_rights_of_a_role_to_users_and_groups() {
    let book = book();
    assert!(book.allows(&caller("alice", &[]), &resource("get", "", "pods")));
    assert!(
        !book.allows(&caller("alice", &[]), &resource("delete", "", "pods"))
            && !book.allows(&caller("bob", &[]), &resource("get", "", "pods"))
    );
    assert!(book.allows(&caller("bob", &["devs"]), &resource("get", "", "pods")));
    assert!(book.allows(&caller("system:serviceaccount:a:robot", &[]), &resource("create", "apps", "deployments")));
    assert!(!book.allows(
        &caller("system:serviceaccount:a:robot", &[]),
        &resource("create", "rbac.authorization.k8s.io", "roles")
    ));
    // A role of another namespace is another role.
    assert!(!book.allows(&caller("carol", &[]), &resource("get", "", "pods")));
    assert!(book.allows(&caller("dave", &["viewers"]), &resource("list", "apps", "deployments")));
    assert!(!book.allows(&caller("dave", &["viewers"]), &resource("get", "", "secrets")));
    assert!(book.allows(&caller("root", &["system:masters"]), &resource("delete", "", "secrets")));
}

#[test]
fn the_roles_of_every_cluster_have_the_rights_of_kubernetes() {
    let (book, robot, viewer) = (book(), caller("system:serviceaccount:a:robot", &[]), caller("dave", &["viewers"]));
    assert!(book.allows(&robot, &part("create", "pods", "eviction", None)));
    assert!(!book.allows(&robot, &part("update", "pods", "status", None)));
    assert!(!book.allows(&robot, &resource("create", "discovery.k8s.io", "endpointslices")));
    assert!(book.allows(&viewer, &part("get", "persistentvolumeclaims", "status", None)));
    assert!(book.allows(&viewer, &resource("list", "events.k8s.io", "events")));
    assert!(book.allows(&viewer, &resource("get", "networking.k8s.io", "ingresses")));
    assert!(!book.allows(&viewer, &resource("get", "networking.k8s.io", "ingressclasses")));
}

#[test]
fn rights_that_a_caller_does_not_have_are_found() {
    let book = book();
    let allowed = |request: &Attributes<'_>| book.allows(&caller("alice", &[]), request);
    let given = |value: Value| vec![rule(value).within("a")];
    let own = given(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}));
    assert_eq!(escalation(&own, allowed), None);
    for more in [
        json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}),
        json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}),
        json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/exec"]}),
    ] {
        assert!(escalation(&given(more.clone()), allowed).is_some(), "{more}");
    }
    let everywhere = vec![rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}))];
    assert!(escalation(&everywhere, allowed).is_some());
}

#[test]
fn bindings_beyond_the_bound_have_no_effect() {
    let subjects: Vec<Value> =
        (0..=role_book::GIVEN_RULES_MAX).map(|number| json!({"kind": "User", "name": format!("u{number}")})).collect();
    let book = RoleBook::new(&RoleDocuments {
        cluster_roles: vec![json!({
            "metadata": {"name": "one"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        })],
        cluster_bindings: vec![json!({
            "metadata": {"name": "e"}, "roleRef": {"kind": "ClusterRole", "name": "one"}, "subjects": subjects,
        })],
        ..RoleDocuments::default()
    });
    assert_eq!(book.left_out, 1);
    assert!(book.allows(&caller("u0", &[]), &resource("get", "", "pods")));
    assert!(!book.allows(&caller(&format!("u{}", role_book::GIVEN_RULES_MAX), &[]), &resource("get", "", "pods")));
}

#[test]
fn a_binding_to_a_role_that_does_not_exist_says_so() {
    let binding = |namespace: &str, kind: &str, subject: Value| {
        json!({
            "metadata": {"name": "b", "namespace": namespace}, "roleRef": {"kind": kind, "name": "none"}, "subjects": [subject],
        })
    };
    let book = RoleBook::new(&RoleDocuments {
        bindings: vec![binding("a", "Role", json!({"kind": "User", "name": "alice"}))],
        cluster_bindings: vec![binding("", "ClusterRole", json!({"kind": "Group", "name": "devs"}))],
        ..RoleDocuments::default()
    });
    let missing = |name: &str, groups: &[&str], namespace| book.missing(&caller(name, groups), namespace);
    let role = "role.rbac.authorization.k8s.io \"none\" not found";
    assert_eq!(missing("alice", &[], Some("a")), Some(format!("RBAC: {role}")));
    assert_eq!(missing("alice", &["devs"], Some("a")), Some(format!("RBAC: [cluster{role}, {role}]")));
    assert_eq!(missing("bob", &["devs"], None), Some(format!("RBAC: cluster{role}")));
    assert_eq!((missing("alice", &[], Some("b")), missing("bob", &[], Some("a"))), (None, None));
}
