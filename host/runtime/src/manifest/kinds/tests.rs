use homeostat_component::KindDeclaration;
use homeostat_store::schema::Schemas;
use serde_json::{Value, json};

use super::*;
use crate::KindInfo;
use crate::manifest::{OutOfBounds, Spec};

fn checked(more: Value) -> Result<WrittenKinds, Vec<OutOfBounds>> {
    let mut spec = json!({ "component": { "file": "a.wasm" } });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value::<Spec>(spec).unwrap().check().map(|spec| spec.kinds)
}

fn site() -> KindDeclaration {
    let kind = Kind::new("a.example", "v1", "Site");
    KindDeclaration { kind, plural: "sites".into(), namespaced: true, keys_only: false, schema: None }
}

#[test]
fn a_manifest_without_kinds_keeps_those_of_the_component() {
    let kinds = checked(json!({})).unwrap().resolve(&Kinds::with_built_in(Schemas::default()));
    assert!(kinds.is_ok_and(|kinds| kinds.assigned == AssignedKinds::default() && kinds.required.is_empty()));
}

#[test]
fn a_named_kind_is_required_and_has_the_names_of_its_declaration() {
    let written = checked(json!({
        "manages": { "apiVersion": "a.example/v1", "kind": "Site" },
        "watches": [{ "name": "sites", "of": { "apiVersion": "a.example/v1", "kind": "Site" }, "mapping": "owner" }],
    }));
    let (written, kinds) = (written.unwrap(), Kinds::with_built_in(Schemas::default()));
    assert_eq!(written.resolve(&kinds).err(), Some(site().kind));
    kinds.declare(KindInfo::declared(&site(), "controller web")).unwrap();
    let resolved = written.resolve(&kinds).ok().unwrap();
    assert_eq!(resolved.assigned.manages, Some(site()));
    assert_eq!(resolved.required, [site().kind, site().kind]);
    let watches = resolved.assigned.watches.unwrap();
    assert_eq!((watches[0].role, watches[0].changes), (Role::Tertiary, Changes::All));
}

#[test]
fn a_manifest_names_the_label_annotation_or_field_of_a_mapping() {
    let of = json!({ "apiVersion": "a.example/v1", "kind": "Site", "plural": "sites", "namespaced": true });
    let watch = |mapping: &Value| json!({ "name": mapping.to_string(), "of": of, "mapping": mapping });
    let written = [json!({ "label": "a" }), json!({ "annotation": "b" }), json!({ "field": "/c" })];
    let checked = checked(json!({ "watches": written.iter().map(watch).collect::<Vec<_>>() })).unwrap();
    let resolved = checked.resolve(&Kinds::with_built_in(Schemas::default())).ok().unwrap();
    let mappings: Vec<Mapping> = resolved.assigned.watches.unwrap().into_iter().map(|watch| watch.mapping).collect();
    let wanted = [Mapping::Label("a".into()), Mapping::Annotation("b".into()), Mapping::Field("/c".into())];
    assert_eq!(mappings, wanted);
}

#[test]
fn a_kind_with_its_names_is_declared_by_the_controller() {
    let manages = json!({ "apiVersion": "a.example/v1", "kind": "Site", "plural": "sites", "namespaced": true });
    let written = checked(json!({ "manages": manages })).unwrap();
    let resolved = written.resolve(&Kinds::with_built_in(Schemas::default())).ok().unwrap();
    assert_eq!((resolved.assigned.manages, resolved.required), (Some(site()), Vec::new()));
}

#[test]
fn half_a_declaration_and_too_many_watches_are_refused() {
    let half = json!({ "apiVersion": "a.example/v1", "kind": "Site", "plural": "sites" });
    let watch = json!({ "name": "b", "of": { "apiVersion": "v1", "kind": "B" }, "mapping": "owner" });
    let problems = checked(json!({ "manages": half, "watches": vec![watch; WATCHES_MAX + 1] })).unwrap_err();
    assert_eq!(problems.iter().map(|it| it.field).collect::<Vec<_>>(), ["spec.manages", "spec.watches"]);
}
