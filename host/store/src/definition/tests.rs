mod wild;

use serde_json::{Value, json};

use super::{
    CONVERTER, ColumnType, Conversion, Definition, INDEXED_LABELS, Presentation, WebhookClient, WebhookTarget,
};
use crate::{Error, IndexTerm};

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.demo.dev"},
        "spec": {
            "group": "demo.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }],
        },
    })
}

/// The definition with another value at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = widgets();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = document.pointer_mut(parent).expect("it is there");
    match parent {
        Value::Array(items) => items.push(value),
        _ => parent[name] = value,
    }
    document
}

#[test]
fn omitted_fields_of_a_definition_get_their_defaults() {
    let definition = Definition::parse(&widgets()).expect("well formed");
    assert_eq!((definition.names.singular.as_str(), definition.names.list_kind.as_str()), ("widget", "WidgetList"));
    assert!(definition.namespaced && definition.names.short_names.is_empty() && definition.names.categories.is_empty());
    let stored = definition.stored();
    assert_eq!(definition.kind(stored).to_string(), "demo.dev/v1/Widget");
    assert!(stored.served && !stored.has_status && stored.deprecation.is_none() && stored.schema.is_some());
    let scale = stored.scale.as_ref().expect("it has one");
    assert_eq!((scale.spec_replicas.to_string().as_str(), scale.label_selector.is_none()), (".spec.size", true));
    let column = &stored.columns[0];
    assert_eq!((column.column_type.name(), column.priority, column.format.as_str()), ("integer", 0, ""));
    assert_eq!(stored.selectable_fields[0].to_string(), ".spec.color");
    assert_eq!(column.column_type, ColumnType::Integer);
}

#[test]
fn a_schema_may_carry_the_names_and_columns_of_its_kind() {
    let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size"});
    let stated = json!({"names": {"shortNames": ["wd"], "categories": ["all"]}, "additionalPrinterColumns": [column]});
    let found = Presentation::of_schema(&json!({"type": "object", "x-homeostat-definition": stated}));
    let found = found.expect("it is well formed");
    assert_eq!((found.short_names, found.categories, found.singular), (vec!["wd".into()], vec!["all".into()], None));
    assert_eq!(found.columns[0].path.to_string(), ".spec.size");
    assert_eq!(Presentation::of_schema(&json!({"type": "object"})).ok(), Some(Presentation::default()));
}

#[test]
fn wrong_names_in_a_schema_are_refused_with_their_path() {
    let cases = [
        (json!({"names": {"shortNames": ["W D"]}}), "names.shortNames[0]"),
        (json!({"names": {"singular": "Widget"}}), "names.singular"),
        (json!({"additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".a"}]}), "Columns[0].type"),
        (json!([]), "x-homeostat-definition"),
    ];
    for (stated, expected) in cases {
        let error = Presentation::of_schema(&json!({"x-homeostat-definition": stated})).expect_err("it is wrong");
        assert!(error.to_string().contains(expected), "{expected} is not in {error}");
    }
}

#[test]
fn selectable_fields_and_the_labels_of_the_annotation_are_indexed() {
    let definition = with("/metadata/annotations", json!({INDEXED_LABELS: " app, example.dev/tier,,app"}));
    let definition = Definition::parse(&definition).expect("well formed");
    let label = |name: &str| IndexTerm::Label(name.to_owned());
    let wanted = [label("app"), label("example.dev/tier"), IndexTerm::Field("/spec/color".into())];
    assert_eq!(definition.indexes(), wanted);
}

#[test]
fn malformed_and_too_many_indexed_labels_are_refused() {
    let many: Vec<String> = (0..9).map(|number| format!("n{number}")).collect();
    for labels in ["a b".to_owned(), "/x".to_owned(), many.join(",")] {
        let definition = with("/metadata/annotations", json!({INDEXED_LABELS: labels}));
        let refused = Definition::parse(&definition).expect_err("it cannot be indexed");
        let Error::Invalid { path, .. } = &refused else { panic!("{refused:?}") };
        assert!(path.starts_with("metadata.annotations"), "{path}");
    }
    let eight = with("/metadata/annotations", json!({INDEXED_LABELS: many[1..].join(",")}));
    assert_eq!(Definition::parse(&eight).expect("eight are allowed").indexes().len(), 9);
}

#[test]
fn a_version_has_the_columns_before_the_first_whose_path_is_not_understood() {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let columns = json!([column("A", ".spec.a"), column("B", "..spec"), column("C", ".spec.c")]);
    let definition = Definition::parse(&with("/spec/versions/0/additionalPrinterColumns", columns));
    let definition = definition.expect("an API server accepts it");
    let names: Vec<&str> = definition.stored().columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["A"]);
}

#[test]
fn a_definition_is_refused_where_it_is_wrong() {
    let version = "/spec/versions/0";
    let at = |field: &str, value| with(&format!("{version}/{field}"), value);
    let column = json!({"name": "A", "type": "string", "jsonPath": ".a"});
    let other = |field: &str, value: Value| {
        let mut column = column.clone();
        column[field] = value;
        at("additionalPrinterColumns/-", column)
    };
    for (document, wanted) in [
        (json!([]), "document"),
        (with("/apiVersion", json!("apiextensions.k8s.io/v1beta1")), "apiVersion"),
        (with("/kind", json!("Widget")), "kind"),
        (with("/spec", json!(null)), "spec"),
        (with("/metadata/name", json!("widget.demo.dev")), "metadata.name"),
        (with("/spec/group", json!("Demo")), "spec.group"),
        (with("/spec/group", json!("")), "spec.group"),
        (with("/spec/scope", json!("Everywhere")), "spec.scope"),
        (with("/spec/preserveUnknownFields", json!(true)), "spec.preserveUnknownFields"),
        (with("/spec/conversion", json!({"strategy": "Webhook"})), "spec.conversion.webhook"),
        (with("/spec/conversion", json!({"strategy": "Magic"})), "spec.conversion.strategy"),
        (with("/spec/conversion", json!({"webhook": {}})), "spec.conversion.webhook"),
        (with("/spec/names", json!("a")), "spec.names"),
        (with("/spec/names/plural", json!("Widgets")), "spec.names.plural"),
        (with("/spec/names/kind", json!("a_b")), "spec.names.kind"),
        (with("/spec/names/listKind", json!("Widget")), "spec.names.listKind"),
        (with("/spec/names/listKind", json!("1")), "spec.names.listKind"),
        (with("/spec/names/singular", json!("a b")), "spec.names.singular"),
        (with("/spec/names/shortNames", json!(["w", "W"])), "spec.names.shortNames[1]"),
        (with("/spec/names/categories", json!([1])), "spec.names.categories[0]"),
        (with("/spec/versions", json!([])), "spec.versions"),
        (with("/spec/versions", json!({})), "spec.versions"),
        (with("/spec/versions/-", widgets()["spec"]["versions"][0].clone()), "spec.versions[1].name"),
        (with("/spec/versions/-", json!({"name": "v2", "served": true, "storage": true})), "spec.versions"),
        (at("storage", json!(false)), "spec.versions"),
        (at("storage", json!("yes")), "spec.versions[0].storage"),
        (at("served", json!(null)), "spec.versions[0].served"),
        (at("name", json!("V1")), "spec.versions[0].name"),
        (at("deprecationWarning", json!("old")), "spec.versions[0].deprecationWarning"),
        (at("schema", json!("any")), "spec.versions[0].schema"),
        (
            at("schema/openAPIV3Schema/properties/spec", json!({"type": "text"})).clone(),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type",
        ),
        (at("subresources", json!([])), "spec.versions[0].subresources"),
        (
            at("subresources/scale/specReplicasPath", json!(".size")),
            "spec.versions[0].subresources.scale.specReplicasPath",
        ),
        (
            at("subresources/scale/statusReplicasPath", json!(".status.a[0]")),
            "spec.versions[0].subresources.scale.statusReplicasPath",
        ),
        (
            at("subresources/scale/labelSelectorPath", json!(".metadata.a")),
            "spec.versions[0].subresources.scale.labelSelectorPath",
        ),
        (other("type", json!("text")), "spec.versions[0].additionalPrinterColumns[1].type"),
        (other("name", json!("")), "spec.versions[0].additionalPrinterColumns[1].name"),
        (other("priority", json!(1.5)), "spec.versions[0].additionalPrinterColumns[1].priority"),
        (other("jsonPath", json!("a")), "spec.versions[0].additionalPrinterColumns[1].jsonPath"),
        (at("additionalPrinterColumns", json!(vec![column; 101])), "spec.versions[0].additionalPrinterColumns"),
        (at("selectableFields/-", json!({"jsonPath": ".a[0]"})), "spec.versions[0].selectableFields[1].jsonPath"),
        (at("selectableFields", json!(vec![json!({"jsonPath": ".a"}); 9])), "spec.versions[0].selectableFields"),
    ] {
        let refused = Definition::parse(&document);
        assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == wanted), "{wanted}: {refused:?}");
    }
}

#[test]
fn a_deprecated_version_warns() {
    let mut document = with("/spec/versions/0/deprecated", json!(true));
    let warning = |document: &Value| Definition::parse(document).expect("well formed").stored().deprecation.clone();
    assert_eq!(warning(&document).as_deref(), Some("demo.dev/v1 Widget is deprecated"));
    document["spec"]["versions"][0]["deprecationWarning"] = json!("use v2");
    assert_eq!(warning(&document).as_deref(), Some("use v2"));
    document["spec"]["versions"][0]["deprecationWarning"] = json!("two\nlines");
    assert!(Definition::parse(&document).is_err());
}

/// A definition with this webhook; `null` removes a field.
fn converting(reviews: &Value, client: &Value) -> Value {
    let webhook = json!({"conversionReviewVersions": reviews, "clientConfig": client});
    with("/spec/conversion", json!({"strategy": "Webhook", "webhook": webhook}))
}

#[test]
fn a_conversion_names_one_webhook_with_a_url_or_a_service() {
    let parsed = |client: Value| Definition::parse(&converting(&json!(["v1beta1", "v1"]), &client)).unwrap().conversion;
    let url = "https://127.0.0.1:8443/convert";
    let target = WebhookTarget::Url(url.to_owned());
    let wanted = WebhookClient { target, ca_bundle: Some("Cg==".to_owned()) };
    assert_eq!(parsed(json!({"url": url, "caBundle": "Cg=="})), Conversion::Webhook(wanted));
    let (namespace, name, path) = ("n".to_owned(), "s".to_owned(), "/convert".to_owned());
    let target = WebhookTarget::Service { namespace, name, path, port: 443 };
    let service = json!({"service": {"namespace": "n", "name": "s", "path": "/convert"}});
    assert_eq!(parsed(service), Conversion::Webhook(WebhookClient { target, ca_bundle: None }));
    for none in [json!(null), json!({"strategy": "None"})] {
        assert_eq!(Definition::parse(&with("/spec/conversion", none)).unwrap().conversion, Conversion::None);
    }
}

#[test]
fn an_annotation_names_the_controller_that_converts_in_place_of_a_webhook() {
    let mut document = converting(&json!(["v1"]), &json!({"url": "https://a.example/convert"}));
    document["metadata"]["annotations"] = json!({CONVERTER: "sites"});
    assert_eq!(Definition::parse(&document).unwrap().conversion, Conversion::Component("sites".to_owned()));
    document["metadata"]["annotations"] = json!({CONVERTER: "No Name"});
    let Err(Error::Invalid { path, .. }) = Definition::parse(&document) else { panic!("a wrong name is accepted") };
    assert_eq!(path, format!("metadata.annotations.{CONVERTER}"));
}

#[test]
fn a_conversion_is_refused_where_it_is_wrong() {
    let client = json!({"url": "https://a.example/convert"});
    let refused = |reviews: Value, client: &Value| match Definition::parse(&converting(&reviews, client)) {
        Err(Error::Invalid { path, .. }) => path,
        other => panic!("{client}: {other:?}"),
    };
    let webhook = "spec.conversion.webhook";
    for reviews in [json!(null), json!([]), json!(["v1beta1"])] {
        assert_eq!(refused(reviews, &client), format!("{webhook}.conversionReviewVersions"));
    }
    for url in ["http://a.example", "https:///a", "https://u@a.example", "https://a.example/#f", "https://a.example/?q"]
    {
        assert_eq!(refused(json!(["v1"]), &json!({"url": url})), format!("{webhook}.clientConfig.url"), "{url}");
    }
    let service = json!({"namespace": "n", "name": "s"});
    for client in [json!({}), json!({"url": "https://a.example", "service": service})] {
        assert_eq!(refused(json!(["v1"]), &client), format!("{webhook}.clientConfig"));
    }
    let port = json!({"service": {"namespace": "n", "name": "s", "port": 70000}});
    assert_eq!(refused(json!(["v1"]), &port), format!("{webhook}.clientConfig.service.port"));
    assert_eq!(
        refused(json!(["v1"]), &json!({"service": {"name": "s"}})),
        format!("{webhook}.clientConfig.service.namespace")
    );
}
