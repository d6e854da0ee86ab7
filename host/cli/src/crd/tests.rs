use homeostat_store::Kind;

use super::*;

fn declared(group: &str, schema: Option<Value>) -> KindDeclaration {
    let kind = Kind::new(group, "v1", "Greeting");
    KindDeclaration { kind, plural: "greetings".into(), namespaced: true, keys_only: false, schema }
}

#[test]
fn a_definition_has_the_names_and_the_schema_of_the_component() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"name": {"type": "string"}}}}});
    let found = definition(&declared("demo.dev", Some(schema.clone()))).expect("it has a definition");
    assert_eq!(found["metadata"]["name"], "greetings.demo.dev");
    assert_eq!(found["spec"]["scope"], "Namespaced");
    assert_eq!(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema);
}

#[test]
fn a_definition_has_the_short_names_and_columns_that_the_schema_carries() {
    let column = json!({"name": "Name", "type": "string", "jsonPath": ".spec.name"});
    let stated = json!({"names": {"shortNames": ["gr"]}, "additionalPrinterColumns": [column]});
    let schema = json!({"type": "object", "x-homeostat-definition": stated});
    let found = definition(&declared("demo.dev", Some(schema))).expect("it has a definition");
    let names = json!({"kind": "Greeting", "plural": "greetings", "singular": "greeting", "shortNames": ["gr"]});
    assert_eq!(found["spec"]["names"], names);
    let version = &found["spec"]["versions"][0];
    assert_eq!(version["additionalPrinterColumns"], json!([column]));
    assert_eq!(version["schema"]["openAPIV3Schema"], json!({"type": "object"}), "a server does not know the keyword");
}

#[test]
fn a_kind_without_a_schema_keeps_every_field() {
    let found = Definition::parse(&definition(&declared("demo.dev", None)).expect("it has a definition"));
    let found = found.expect("the host accepts it");
    let mut document =
        json!({"apiVersion": "demo.dev/v1", "kind": "Greeting", "spec": {"any": 1}, "status": {"of": 2}});
    let schema = found.stored().schema.as_ref().expect("it has a schema");
    assert_eq!(schema.prune(&mut document), [""; 0]);
}

#[test]
fn a_kind_of_the_core_group_has_no_definition() {
    let error = definition(&declared("", None)).expect_err("it has none");
    assert!(error.to_string().contains("core group"), "{error}");
}
