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
            "group": "example.com", "scope": "Cluster", "versions": [version],
            "names": { "kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site" },
        },
    })
}

/// Returns the paths of the fields that violate the rules.
fn paths(definition: &Value, old: Option<&Value>) -> Vec<String> {
    violations(definition, old).into_iter().map(|found| found.path).collect()
}

fn with_schema(schema: &Value) -> Value {
    definition(&json!({ "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} } }))
}

#[test]
fn a_definition_has_its_defaults() {
    let mut given = with_schema(&json!({ "type": "object" }));
    given["spec"]["names"] = json!({ "kind": "Site", "plural": "sites", "singular": "" });
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
    let root = "spec.validation.openAPIV3Schema.properties";
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
    let root = "spec.validation.openAPIV3Schema";
    let any_of = with_schema(&json!({ "type": "object", "anyOf": [{}] }));
    assert_eq!(paths(&any_of, None), [root]);
    assert_eq!(paths(&any_of, Some(&any_of)), [""; 0], "a stored definition stays as it is");
    assert_eq!(
        paths(&with_schema(&json!({ "type": "array", "items": { "type": "string" }, "nullable": true })), None),
        [".type", ".nullable", ".type"].map(|path| format!("{root}{path}"))
    );
    assert_eq!(paths(&with_schema(&Value::Null), None), ["spec.versions[0].schema.openAPIV3Schema"]);
}

#[test]
fn fields_by_which_a_kind_is_selected_are_scalars_of_its_schema() {
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "color": { "type": "string" }, "parts": { "type": "array", "items": { "type": "string" } } } },
        "labels": { "type": "object", "additionalProperties": { "type": "integer" } },
        "metadata": { "type": "object", "properties": { "name": { "type": "string" } } },
    } });
    let fields = [".spec.color", ".labels.any", ".spec.color", ".spec.none", ".spec.parts", ".metadata.name"];
    let fields = fields.map(|path| json!({ "jsonPath": path }));
    let found =
        violations(&definition(&json!({ "schema": { "openAPIV3Schema": schema }, "selectableFields": fields })), None);
    let found: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.reason)).collect();
    let invalid = |at| (["", "", "", "[3]", "[4]", "[5]"][at], Reason::Invalid);
    let expected = [("[2]", Reason::Duplicate), invalid(3), invalid(4), invalid(5)];
    let expected = expected.map(|(at, reason)| (format!("spec.selectableFields{at}.jsonPath"), reason));
    assert_eq!(found, expected.each_ref().map(|(path, reason)| (path.as_str(), *reason)));
}

#[test]
fn a_group_of_kubernetes_needs_an_approval() {
    let of = |group: &str, approval: Option<&str>| {
        let mut given = with_schema(&json!({ "type": "object" }));
        given["spec"]["group"] = group.into();
        given["metadata"]["name"] = format!("sites.{group}").into();
        given["metadata"]["annotations"] = json!({ APPROVAL: approval });
        given
    };
    let path = format!("metadata.annotations[{APPROVAL}]");
    for group in ["k8s.io", "x.k8s.io", "kubernetes.io", "x.kubernetes.io"] {
        let found = violations(&of(group, None), None);
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

/// Returns the paths and reasons of what violates the rules, where a patch changes a valid definition of two versions, whose
/// schemas differ.
fn faults(patch: &Value) -> Vec<(String, Reason)> {
    let version = |name: &str, stored: bool| {
        json!({
            "name": name, "served": true, "storage": stored,
            "schema": { "openAPIV3Schema": { "type": "object", "description": name } },
        })
    };
    let mut given = definition(&json!({}));
    given["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    assert_eq!(paths(&given, None), [""; 0]);
    let given = homeostat_store::Change::Merge(patch.clone()).apply(&given).expect("it fits");
    violations(&given, None).into_iter().map(|found| (found.path, found.reason)).collect()
}

#[test]
fn the_names_of_a_kind_are_labels() {
    let spec = |spec: Value| json!({ "spec": spec });
    let name = || ("metadata.name".to_owned(), Reason::Invalid);
    for (patch, path, reason) in [
        (spec(json!({ "names": { "singular": "a.b" } })), "spec.names.singular", Reason::Invalid),
        (spec(json!({ "names": { "singular": null } })), "spec.names.singular", Reason::Required),
        (spec(json!({ "names": { "kind": "site_s" } })), "spec.names.kind", Reason::Invalid),
        (spec(json!({ "names": { "listKind": "Site" } })), "spec.names.listKind", Reason::Invalid),
        (spec(json!({ "names": { "shortNames": ["a", "B"] } })), "spec.names.shortNames[1]", Reason::Invalid),
        (spec(json!({ "names": { "categories": ["all!"] } })), "spec.names.categories[0]", Reason::Invalid),
        (spec(json!({ "scope": null })), "spec.scope", Reason::Required),
        (spec(json!({ "scope": "Galaxy" })), "spec.scope", Reason::Unsupported),
        (spec(json!({ "preserveUnknownFields": true })), "spec.preserveUnknownFields", Reason::Invalid),
        (json!({ "metadata": { "name": "other" } }), "metadata.name", Reason::Invalid),
    ] {
        assert_eq!(faults(&patch), [(path.to_owned(), reason)], "{patch}");
    }
    for (patch, path, reason) in [
        (json!({ "group": "Example_com" }), "spec.group", Reason::Invalid),
        (json!({ "group": null }), "spec.group", Reason::Required),
        (json!({ "group": "example" }), "spec.group", Reason::Invalid),
        (json!({ "names": { "plural": "Sites" } }), "spec.names.plural", Reason::Invalid),
    ] {
        assert_eq!(faults(&spec(patch.clone())), [name(), (path.to_owned(), reason)], "{patch}");
    }
}

#[test]
fn each_version_is_checked_where_it_stands_and_what_all_have_alike_at_the_root() {
    let versions = |change: &dyn Fn(&mut Value)| {
        let mut given = definition(&json!({}));
        let version = |name: &str, stored: bool| {
            json!({
                "name": name, "served": true, "storage": stored,
                "schema": { "openAPIV3Schema": { "type": "object", "description": name } },
            })
        };
        given["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
        change(&mut given["spec"]["versions"]);
        let found = violations(&given, None);
        found.into_iter().map(|found| (found.path, found.reason)).collect::<Vec<_>>()
    };
    let found = |paths: &[(&str, Reason)]| -> Vec<(String, Reason)> {
        paths.iter().map(|(path, reason)| ((*path).to_owned(), *reason)).collect()
    };
    let column = json!([{ "name": "", "type": "text", "format": "odd", "jsonPath": "spec" }]);
    let scale = json!({ "scale": { "specReplicasPath": "spec.x", "labelSelectorPath": ".metadata.x" } });
    let at = |root: &str| {
        [
            ("name", Reason::Required),
            ("type", Reason::Invalid),
            ("format", Reason::Invalid),
            ("JSONPath", Reason::Invalid),
        ]
        .map(|(name, reason)| (format!("{root}.additionalPrinterColumns[0].{name}"), reason))
    };
    assert_eq!(versions(&|all| all[1]["additionalPrinterColumns"] = column.clone()), at("spec.versions[1]"));
    let both = versions(&|all| (0..2).for_each(|at| all[at]["additionalPrinterColumns"] = column.clone()));
    assert_eq!(both, at("spec"));
    let scales = found(&[
        ("spec.versions[0].subresources.scale.specReplicasPath", Reason::Invalid),
        ("spec.versions[0].subresources.scale.statusReplicasPath", Reason::Required),
        ("spec.versions[0].subresources.scale.labelSelectorPath", Reason::Invalid),
    ]);
    assert_eq!(versions(&|all| all[0]["subresources"] = scale.clone()), scales);
    let schema = versions(&|all| all[1]["schema"]["openAPIV3Schema"]["id"] = "x".into());
    assert_eq!(schema, found(&[("spec.versions[1].schema.openAPIV3Schema.id", Reason::Forbidden)]));
    let warning = versions(&|all| all[0]["deprecationWarning"] = "old".into());
    assert_eq!(warning, found(&[("spec.versions[0].deprecationWarning", Reason::Invalid)]));
    let stored = [("spec.versions", Reason::Invalid), ("status.storedVersions", Reason::Invalid)];
    assert_eq!(versions(&|all| all[0]["storage"] = false.into()), found(&stored));
    assert_eq!(versions(&|all| all[1]["storage"] = true.into()), found(&stored));
    assert_eq!(versions(&|all| *all = json!([])), found(&stored));
    assert_eq!(versions(&|all| all[1]["name"] = "v1".into()), found(&stored[..1]));
    let name = found(&[("spec.versions[0].name", Reason::Invalid), ("spec.version", Reason::Invalid)]);
    assert_eq!(versions(&|all| all[0]["name"] = "V_1".into()), name);
    let fields = versions(&|all| all[1]["selectableFields"] = json!([{ "jsonPath": ".none" }]));
    assert_eq!(fields, found(&[("spec.versions[1].selectableFields[0].jsonPath", Reason::Invalid)]));
}

#[test]
fn a_conversion_by_webhook_says_where_it_is() {
    let conversion = |conversion: Value| faults(&json!({ "spec": { "conversion": conversion } }));
    let (client, versions) = ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    let webhook = |client: Value, versions: Value| json!({ "strategy": "Webhook", "webhook": { "clientConfig": client, "conversionReviewVersions": versions } });
    let url = || json!({ "url": "https://example.com/convert" });
    let service = |name: &str, port: u32| json!({ "service": { "namespace": "a", "name": name, "port": port } });
    assert_eq!(conversion(webhook(url(), json!(["v1"]))), []);
    assert_eq!(conversion(webhook(service("b", 443), json!(["v1", "v2"]))), []);
    let needed = [(client.to_owned(), Reason::Required), (versions.to_owned(), Reason::Required)];
    assert_eq!(conversion(json!({ "strategy": "Webhook" })), needed);
    let needless = needed.map(|(path, _)| (path, Reason::Forbidden));
    assert_eq!(
        conversion(json!({ "strategy": "None", "webhook": webhook(url(), json!(["v1"]))["webhook"] })),
        needless
    );
    for (given, path, reason) in [
        (json!({ "strategy": "" }), "spec.conversion.strategy".to_owned(), Reason::Required),
        (json!({ "strategy": "Magic" }), "spec.conversion.strategy".to_owned(), Reason::Unsupported),
        (webhook(json!({}), json!(["v1"])), client.to_owned(), Reason::Required),
        (webhook(json!({ "url": "http://a" }), json!(["v1"])), format!("{client}.url"), Reason::Invalid),
        (webhook(json!({ "url": "https://u@a/#f" }), json!(["v1"])), format!("{client}.url"), Reason::Invalid),
        (webhook(service("", 443), json!(["v1"])), format!("{client}.service.namespace"), Reason::Required),
        (webhook(service("b", 0), json!(["v1"])), format!("{client}.service.port"), Reason::Invalid),
        (webhook(url(), json!(["v2"])), versions.to_owned(), Reason::Invalid),
        (webhook(url(), json!(["v1", "v1"])), format!("{versions}[1]"), Reason::Invalid),
    ] {
        let mut found = conversion(given.clone());
        found.dedup();
        assert_eq!(found, [(path, reason)], "{given}");
    }
}

#[test]
fn what_identifies_a_kind_stays() {
    let old = with_schema(&json!({ "type": "object" }));
    let mut new = old.clone();
    new["spec"]["scope"] = "Namespaced".into();
    new["spec"]["group"] = "example".into();
    new["spec"]["names"]["kind"] = "Page".into();
    assert_eq!(paths(&new, Some(&old)), ["spec.group", "spec.scope", "spec.group"]);
    let mut established = old.clone();
    established["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
    assert_eq!(paths(&new, Some(&established)), ["spec.group", "spec.scope", "spec.names.kind", "spec.group"]);
}
