use super::*;

fn roles(grants: &str) -> rbac::Roles {
    let mut roles = rbac::Roles::default();
    let grants: Grants = serde_json::from_str(grants).unwrap();
    let known = |group: &str, kind: &str| (group == "apps").then(|| format!("{}s", kind.to_lowercase()));
    roles.add("web", &grants, &known);
    roles
}

#[test]
fn grants_for_some_namespaces_are_roles_and_all_others_one_cluster_role() {
    let roles = roles(
        r#"{"resources": [
            {"kinds": ["apps/Deployment", "apps/ReplicaSet"], "verbs": ["get", "update-status"]},
            {"kinds": ["apps/Deployment"], "verbs": ["delete"], "namespaces": ["blue", "green"]}
        ]}"#,
    );
    let api_version = "rbac.authorization.k8s.io/v1";
    let deletes = json!([{ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["delete"] }]);
    let in_namespace = |namespace: &str| {
        let metadata = json!({ "name": "web", "namespace": namespace });
        json!({ "apiVersion": api_version, "kind": "Role", "metadata": metadata, "rules": deletes })
    };
    let rules = json!([
        { "apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get"] },
        { "apiGroups": ["apps"], "resources": ["deployments/status", "replicasets/status"], "verbs": ["update", "patch"] },
    ]);
    let everywhere =
        json!({ "apiVersion": api_version, "kind": "ClusterRole", "metadata": { "name": "web" }, "rules": rules });
    assert_eq!(roles.documents, [everywhere, in_namespace("blue"), in_namespace("green")]);
    assert_eq!(roles.notes, Vec::<String>::new());
}

#[test]
fn verbs_are_those_of_kubernetes() {
    let verbs = |granted: &str| {
        let text = format!(r#"{{"resources": [{{"kinds": ["apps/Deployment"], "verbs": ["{granted}"]}}]}}"#);
        let roles = roles(&text);
        let rules = roles.documents[0]["rules"].as_array().unwrap().clone();
        rules.iter().map(|rule| format!("{} {}", rule["resources"][0], rule["verbs"])).collect::<Vec<_>>()
    };
    assert_eq!(verbs("apply"), [r#""deployments" ["create","patch"]"#]);
    assert_eq!(verbs("update-status"), [r#""deployments/status" ["update","patch"]"#]);
    let all = r#""deployments" ["get","list","watch","create","update","patch","delete"]"#;
    assert_eq!(verbs("*"), [all, r#""deployments/status" ["update","patch"]"#]);
}

#[test]
fn patterns_without_an_equivalent_in_kubernetes_are_left_out_with_a_note() {
    let roles = roles(
        r#"{"resources": [
            {"kinds": ["apps/Deployment"], "verbs": ["get"], "namespaces": ["team-*", "blue"]},
            {"kinds": ["apps/Deployment"], "verbs": ["list"], "namespaces": ["blue"], "names": ["web-*"]},
            {"kinds": ["apps/Deploy*"], "verbs": ["watch"], "namespaces": ["blue"]},
            {"kinds": ["apps/ReplicaSet"], "verbs": ["create", "get"], "namespaces": ["blue"], "names": ["one"]}
        ]}"#,
    );
    let rules = json!([
        { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"] },
        { "apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get"], "resourceNames": ["one"] },
    ]);
    assert_eq!((roles.documents.len(), &roles.documents[0]["rules"]), (1, &rules));
    for part in ["team-*", "web-*", "apps/Deploy*", "creating by name"] {
        assert!(roles.notes.iter().any(|note| note.contains(part)), "{part} in {:?}", roles.notes);
    }
}

#[test]
fn an_unknown_plural_is_guessed_with_a_note() {
    for (kind, plural) in [("Monitor", "monitors"), ("NetworkPolicy", "networkpolicies"), ("Ingress", "ingresses")] {
        let text = format!(r#"{{"resources": [{{"kinds": ["demo.dev/{kind}"], "verbs": ["get"]}}]}}"#);
        let roles = roles(&text);
        assert_eq!(roles.documents[0]["rules"][0]["resources"], json!([plural]));
        assert!(roles.notes[0].contains(plural), "{:?}", roles.notes);
    }
    let every = roles(r#"{"resources": [{"kinds": ["*"], "verbs": ["get"]}]}"#);
    assert_eq!(every.documents[0]["rules"][0], json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get"] }));
    assert!(every.notes[0].contains("pods/exec"));
}

#[test]
fn a_file_has_the_roles_of_all_its_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controllers.yaml");
    let one = |name: &str| {
        format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: {name}}}\nspec:\n  component: {{file: a.wasm}}\n  \
             grants:\n    resources:\n      - {{kinds: [Pod], verbs: [get]}}\n"
        )
    };
    std::fs::write(&file, [one("a"), one("b")].join("---\n")).unwrap();
    let names: Vec<String> = from_file(&file).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
    std::fs::write(&file, "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n").unwrap();
    assert!(from_file(&file).unwrap_err().to_string().contains("no controller"));
}

#[test]
fn a_role_for_a_store_has_the_requests_of_the_host_for_the_kinds_that_live_there() {
    let grants: Grants = serde_json::from_str(
        r#"{"resources": [
            {"kinds": ["apps/Deployment"], "verbs": ["get", "list", "watch", "update-status"], "namespaces": ["blue"]},
            {"kinds": ["apps/ReplicaSet"], "verbs": ["watch", "apply"], "namespaces": ["blue"]},
            {"kinds": ["Secret"], "verbs": ["*"]}
        ]}"#,
    )
    .unwrap();
    let of = |store: &str| {
        let mut roles = rbac::Roles::default();
        let known = |_: &str, kind: &str| Some(format!("{}s", kind.to_lowercase()));
        let kinds = store_role::StoreKinds {
            lives_there: &|group, _| (store == "cluster") == (group == "apps"),
            has_scale: &|group, _| group == "apps",
            plural: &known,
        };
        roles.add_for_store("web", &grants, &kinds);
        assert_eq!(roles.notes, Vec::<String>::new());
        let rules = |role: &Value| {
            let rules = role["rules"].as_array().unwrap().clone();
            let text = |rule: &Value| match &rule["resourceNames"] {
                Value::Null => format!("{} {}", rule["resources"], rule["verbs"]),
                names => format!("{} {} {names}", rule["resources"], rule["verbs"]),
            };
            rules.iter().map(text).collect::<Vec<_>>()
        };
        roles.documents.iter().map(|role| (role["kind"].clone(), rules(role))).collect::<Vec<_>>()
    };
    let everywhere = vec![
        r#"["deployments","replicasets"] ["list","watch"]"#.to_owned(),
        r#"["leases"] ["get","list","watch","create","update"]"#.to_owned(),
        r#"["events"] ["create","patch"]"#.to_owned(),
    ];
    let in_blue = vec![
        r#"["replicasets"] ["create","patch"]"#.to_owned(),
        r#"["deployments"] ["get"]"#.to_owned(),
        r#"["replicasets/scale"] ["get","update"]"#.to_owned(),
        r#"["deployments/status"] ["patch"]"#.to_owned(),
    ];
    assert_eq!(of("cluster"), [(json!("ClusterRole"), everywhere), (json!("Role"), in_blue)]);
    let secrets = vec![
        r#"["secrets"] ["get","create","update","patch","delete"]"#.to_owned(),
        r#"["secrets"] ["list","watch"]"#.to_owned(),
        r#"["secrets/status"] ["patch"]"#.to_owned(),
        r#"["leases"] ["get","list","watch","create","update"]"#.to_owned(),
        r#"["events"] ["create","patch"]"#.to_owned(),
    ];
    assert_eq!(of("other"), [(json!("ClusterRole"), secrets)]);
}
