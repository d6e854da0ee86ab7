use super::*;

fn definition(version: &Value) -> Value {
    let mut version = version.clone();
    for (name, value) in [("name", json!("v1")), ("served", json!(true)), ("storage", json!(true))] {
        version[name] = value;
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [version],
        },
    })
}

/// Returns the paths of the fields that violate the rules.
fn paths(definition: &Value, old: Option<&Value>) -> Vec<String> {
    DefinitionRules.check(definition, old, None).into_iter().map(|found| found.path).collect()
}

fn with_schema(schema: &Value) -> Value {
    definition(&json!({ "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} } }))
}

#[test]
fn a_definition_has_its_defaults() {
    let mut given = with_schema(&json!({ "type": "object" }));
    given["spec"]["names"]["singular"] = "".into();
    DefinitionRules.set_defaults(&mut given, None);
    let names = json!({ "kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList" });
    assert_eq!((&given["spec"]["names"], &given["spec"]["conversion"]), (&names, &json!({ "strategy": "None" })));
}

#[test]
fn keywords_that_kubernetes_does_not_have_are_refused_wherever_they_are() {
    let part = json!({ "type": "array", "items": { "type": "string", "id": "a" }, "uniqueItems": true });
    let schema = json!({ "type": "object", "properties": {
        "a": part, "b": { "type": "object", "additionalProperties": part }, "c": { "anyOf": [{}, { "not": { "id": "x" } }] },
    } });
    let root = "spec.versions[0].schema.openAPIV3Schema.properties";
    let expected = [
        "[a].uniqueItems",
        "[a].items.id",
        "[b].additionalProperties.uniqueItems",
        "[b].additionalProperties.items.id",
        "[c].anyOf[1].not.id",
    ]
    .map(|path| format!("{root}{path}"));
    assert_eq!(paths(&with_schema(&schema), None), expected);
    assert_eq!(paths(&with_schema(&json!({ "type": "object", "uniqueItems": false, "id": "" })), None), [""; 0]);
}

#[test]
fn the_root_of_a_schema_with_a_status_has_few_keywords() {
    let root = "spec.versions[0].schema.openAPIV3Schema";
    let any_of = with_schema(&json!({ "type": "object", "anyOf": [{}] }));
    assert_eq!(paths(&any_of, None), [root]);
    assert_eq!(paths(&any_of, Some(&any_of)), [""; 0], "a stored definition stays as it is");
    assert_eq!(
        paths(&with_schema(&json!({ "type": "array", "nullable": true })), None),
        [".type", ".nullable"].map(|path| format!("{root}{path}"))
    );
    assert_eq!(paths(&with_schema(&Value::Null), None), [root]);
}

#[test]
fn fields_by_which_a_kind_is_selected_are_scalars_of_its_schema() {
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "color": { "type": "string" }, "parts": { "type": "array" } } },
        "labels": { "type": "object", "additionalProperties": { "type": "integer" } },
        "metadata": { "type": "object", "properties": { "name": { "type": "string" } } },
    } });
    let fields = [".spec.color", ".labels.any", ".spec.color", ".spec.none", ".spec.parts", ".metadata.name"];
    let fields = fields.map(|path| json!({ "jsonPath": path }));
    let found = DefinitionRules.check(
        &definition(&json!({ "schema": { "openAPIV3Schema": schema }, "selectableFields": fields })),
        None,
        None,
    );
    let found: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.reason)).collect();
    let invalid = |at| (["", "", "", "[3]", "[4]", "[5]"][at], Reason::Invalid);
    let expected = [("[2]", Reason::Duplicate), invalid(3), invalid(4), invalid(5)];
    let expected = expected.map(|(at, reason)| (format!("spec.versions[0].selectableFields{at}.jsonPath"), reason));
    assert_eq!(found, expected.each_ref().map(|(path, reason)| (path.as_str(), *reason)));
}

#[test]
fn a_group_of_kubernetes_needs_an_approval() {
    let of = |group: &str, approval: Option<&str>| {
        let mut given = with_schema(&json!({ "type": "object" }));
        given["spec"]["group"] = group.into();
        given["metadata"]["annotations"] = json!({ APPROVAL: approval });
        given
    };
    let path = format!("metadata.annotations[{APPROVAL}]");
    for group in ["k8s.io", "x.k8s.io", "kubernetes.io", "x.kubernetes.io"] {
        let found = DefinitionRules.check(&of(group, None), None, None);
        assert_eq!(
            found.iter().map(|found| (&found.path, found.reason)).collect::<Vec<_>>(),
            [(&path, Reason::Required)]
        );
    }
    let missing = of("x.k8s.io", None);
    assert_eq!(paths(&of("x.k8s.io", Some("soon")), None), [path.as_str()]);
    assert_eq!(paths(&missing, Some(&missing)), [""; 0], "it may stay as it is");
    for (group, approval) in [
        ("x.k8s.io", Some("https://example.com/1")),
        ("x.k8s.io", Some("unapproved, an experiment")),
        ("notk8s.io", None),
    ] {
        assert_eq!(paths(&of(group, approval), None), [""; 0], "{group} {approval:?}");
    }
}

#[test]
fn a_scope_stays_and_a_group_has_a_dot() {
    let old = with_schema(&json!({ "type": "object" }));
    let mut new = old.clone();
    new["spec"]["scope"] = "Namespaced".into();
    new["spec"]["group"] = "example".into();
    assert_eq!(paths(&new, Some(&old)), ["spec.scope", "spec.group"]);
}
