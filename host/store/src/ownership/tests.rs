use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::asked::RequestedOwners;
use super::difference::{all, diff, named};
use super::fields::FieldSet;
use super::managers::Managers;
use super::shape::Shape;
use super::{Operation, ServerSideApply, Writer, create_owners, requested_owners, track};
use crate::patch::tests::json_value;
use crate::schema::Schema;
use crate::schema::normal_form::tests::built_in;
use crate::{Error, Key, Kind, MANAGED_FIELDS_BYTES_MAX, validate};

/// Lists of each type, and an atomic object.
fn schema() -> Schema {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let port = json!({
        "type": "object", "required": ["port", "protocol"],
        "properties": {"port": number, "protocol": text, "name": text},
    });
    let texts = |kind: &str| json!({"type": "array", "items": text, "x-kubernetes-list-type": kind});
    let named = json!({"type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true, "properties": {"name": text}});
    let list = |keys: Value, items: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": number,
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text}},
        "tags": texts("set"),
        "plain": texts("atomic"),
        "deep": {"type": "object", "properties": {"a": text, "b": text}},
        "free": {"type": "object", "additionalProperties": text},
        "ports": list(json!(["port", "protocol"]), port),
        "boxes": list(json!(["name"]), named),
    }}}});
    Schema::parse(&schema).unwrap()
}

fn with(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

fn key() -> Key {
    Key::new(Kind::new("apps", "v1", "Thing"), "", "a")
}

/// A document and its writers, who write one second apart.
struct Desk {
    schema: Option<Schema>,
    document: Option<Value>,
    second: u32,
}

impl Desk {
    fn new() -> Self {
        Self { schema: Some(schema()), document: None, second: 0 }
    }

    fn without_schema() -> Self {
        Self { schema: None, ..Self::new() }
    }

    fn write<T>(
        &mut self,
        manager: &str,
        operation: Operation,
        work: impl FnOnce(&mut Option<Value>, Writer<'_>) -> T,
    ) -> T {
        self.second += 1;
        let time = format!("2026-01-01T00:{:02}:{:02}Z", self.second / 60, self.second % 60);
        let schema = self.schema.as_ref();
        work(&mut self.document, Writer { manager, operation, subresource: None, time: &time, schema })
    }

    fn try_apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<(), Error> {
        self.apply_document(manager, with(spec), force)
    }

    fn apply_document(&mut self, manager: &str, mut applied: Value, force: bool) -> Result<(), Error> {
        self.write(manager, Operation::Apply, |document, writer| match document {
            None => {
                create_owners(&mut applied, writer)?;
                *document = Some(applied);
                Ok(())
            }
            Some(current) => {
                let application = ServerSideApply::new(current, &applied, writer)?;
                let mut merged = application.merged();
                application.update_owners(&mut merged, &key(), force)?;
                *current = merged;
                Ok(())
            }
        })
    }

    fn apply(&mut self, manager: &str, spec: Value) {
        self.try_apply(manager, spec, false).expect("there is no conflict");
    }

    fn update(&mut self, manager: &str, spec: Value) {
        let mut updated = with(spec);
        self.write(manager, Operation::Update, |document, writer| {
            match document {
                None => create_owners(&mut updated, writer).expect("it is small"),
                Some(current) => {
                    if let Some(entries) = current["metadata"].get("managedFields") {
                        updated["metadata"]["managedFields"] = entries.clone();
                    }
                    track(current, &mut updated, writer).expect("it is small");
                }
            }
            *document = Some(updated);
        });
    }

    fn document(&self) -> &Value {
        self.document.as_ref().expect("something was written")
    }

    fn spec(&self) -> &Value {
        &self.document()["spec"]
    }

    /// The fields of a manager below `spec`; `null` if there are none.
    fn owned(&self, manager: &str) -> Value {
        let entries = self.document()["metadata"]["managedFields"].as_array();
        let entry = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
        entry.map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
    }

    fn managers(&self) -> Vec<&str> {
        let entries = self.document()["metadata"]["managedFields"].as_array();
        entries.into_iter().flatten().filter_map(|entry| entry["manager"].as_str()).collect()
    }
}

fn conflict(result: Result<(), Error>) -> String {
    match result {
        Err(error @ Error::ApplyConflict { .. }) => error.to_string(),
        other => panic!("there is no conflict: {other:?}"),
    }
}

fn refused_at(result: Result<(), Error>) -> String {
    match result {
        Err(Error::Invalid { path, .. }) => path,
        other => panic!("it is acceptable: {other:?}"),
    }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners. As in Kubernetes, a field that an object
/// of Go always has is not owned; its writers own what is in it.
#[test]
fn a_field_that_an_object_always_has_is_not_owned_itself() {
    let object = |field: Value| json!({"type": "object", "properties": {"a": field}});
    let always = |mut field: Value| {
        field["x-homeostat-always-present"] = true.into();
        field
    };
    let text = json!({"type": "string"});
    let list = json!({"type": "array", "items": text});
    let schema = built_in(always(json!({
        "type": "object",
        "properties": {
            "always": always(object(text.clone())), "list": always(list), "pointer": object(always(object(text))),
        },
    })));
    let mut desk = Desk { schema: Some(schema), ..Desk::new() };
    desk.update("one", json!({"always": {"a": "x"}, "pointer": {"a": {"a": "x"}}}));
    let pointer = json!({".": {}, "f:a": {".": {}, "f:a": {}}});
    assert_eq!(desk.owned("one"), json!({"f:always": {"f:a": {}}, "f:pointer": pointer}));
    desk.update("two", json!({"list": ["x"], "pointer": {"a": {"a": "x"}}}));
    assert_eq!((desk.owned("one"), desk.owned("two")), (json!({"f:pointer": pointer}), json!({"f:list": {}})));
    // A list that an object always has is emptied, not removed.
    desk.update("three", json!({"pointer": {"a": {"a": "x"}}}));
    assert_eq!((desk.owned("two"), desk.owned("three")), (Value::Null, json!({"f:list": {}})));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners. As in Kubernetes, a null in a built-in
/// kind empties its field, and its applier owns the field.
#[test]
fn an_applied_null_of_a_built_in_kind_empties_its_field() {
    let text = json!({"type": "string"});
    let schema = built_in(json!({
        "type": "object",
        "properties": {
            "text": text, "list": {"type": "array", "items": text}, "fields": {"type": "object", "properties": {"a": text}},
            "map": {"type": "object", "additionalProperties": text},
        },
    }));
    let mut desk = Desk { schema: Some(schema), ..Desk::new() };
    let full = json!({"text": "x", "list": ["x"], "fields": {"a": "x"}, "map": {"a": "x"}});
    desk.update("one", full.clone());
    let nulls = json!({"text": null, "list": null, "fields": null, "map": {"a": null}});
    let text = conflict(desk.try_apply("two", nulls.clone(), false));
    for field in ["text", "list", "map.a"] {
        assert!(text.contains(&format!(".spec.{field}\n")) || text.ends_with(&format!(".spec.{field}")), "{text}");
    }
    assert_eq!(*desk.spec(), full);
    desk.try_apply("two", nulls, true).expect("it is forced");
    // An object whose fields have owners of their own keeps them.
    assert_eq!(*desk.spec(), json!({"fields": {"a": "x"}, "map": {"a": ""}}));
    assert_eq!(desk.owned("two"), json!({"f:text": {}, "f:list": {}, "f:fields": {}, "f:map": {"f:a": {}}}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners. As in Kubernetes, an empty list
/// whose items have owners of their own names nothing.
#[test]
fn the_fields_that_a_document_names_are_exactly_these() {
    let mut document = with(json!({
        "replicas": 1, "selector": {"a": 1}, "tags": ["x", 2], "plain": [1], "deep": {"a": 1}, "free": {"k": "v"},
        "ports": [{"protocol": "TCP", "port": 80, "name": "web"}], "boxes": [], "unknown": {"list": [{"name": 1}], "x": {}},
    }));
    document["metadata"] = json!({
        "name": "a", "namespace": "b", "generateName": "c", "labels": {"l": "v"}, "finalizers": ["f/x"],
        "ownerReferences": [{"uid": "u", "name": "o"}],
    });
    let schema = schema();
    let wanted = json!({
        "f:metadata": {
            "f:generateName": {}, "f:labels": {"f:l": {}}, "f:finalizers": {"v:\"f/x\"": {}}, "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}},
        },
        "f:spec": {
            "f:replicas": {}, "f:selector": {}, "f:tags": {"v:\"x\"": {}, "v:2": {}}, "f:plain": {}, "f:deep": {"f:a": {}},
            "f:free": {"f:k": {}},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}, "f:name": {}}},
            "f:unknown": {".": {}, "f:list": {}, "f:x": {}},
        },
    });
    assert_eq!(named(&document, Shape::document(Some(&schema))).write(), wanted);
    let untyped = named(&with(json!({"deep": {"a": 1}, "tags": ["x"]})), Shape::document(None)).write();
    assert_eq!(untyped, json!({"f:spec": {".": {}, "f:deep": {".": {}, "f:a": {}}, "f:tags": {}}}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn fields_that_a_manager_no_longer_applies_are_removed_and_the_rest_stays() {
    let mut desk = Desk::new();
    desk.apply("me", json!({"replicas": 1, "deep": {"a": 1, "b": 1}, "tags": ["x", "y"]}));
    desk.apply("other", json!({"deep": {"b": 1}, "tags": ["y", "z"], "plain": [1]}));
    desk.apply("me", json!({"replicas": 2}));
    assert_eq!(desk.spec(), &json!({"replicas": 2, "deep": {"b": 1}, "tags": ["y", "z"], "plain": [1]}));
    assert_eq!(desk.owned("me"), json!({"f:replicas": {}}));
    desk.apply("other", json!({"plain": [1]}));
    assert_eq!(desk.spec(), &json!({"replicas": 2, "plain": [1]}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn an_object_that_loses_its_last_owner_is_removed_with_its_content() {
    for mut desk in [Desk::new(), Desk::without_schema()] {
        desk.update("creator", json!({}));
        desk.apply("me", json!({"deep": {"a": {"x": 1}}}));
        desk.apply("me", json!({}));
        assert_eq!(desk.spec(), &json!({}));
        assert_eq!(desk.managers(), ["me", "creator"]);
    }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn a_conflict_names_every_field_and_owner() {
    let mut desk = Desk::new();
    desk.update("kubectl", json!({"replicas": 1, "ports": [{"port": 80, "protocol": "TCP", "name": "a"}]}));
    let before = desk.document().clone();
    let refused = desk.try_apply("me", json!({"replicas": 2}), false);
    assert_eq!(
        conflict(refused),
        "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas"
    );
    desk.apply("helm", json!({"replicas": 1}));
    let two = json!({"replicas": 2, "ports": [{"port": 80, "protocol": "TCP", "name": "b"}]});
    assert_eq!(
        conflict(desk.try_apply("me", two, false)),
        "Apply failed with 3 conflicts: conflicts with \"helm\":\n- .spec.replicas\n\
         conflicts with \"kubectl\" using apps/v1:\n- .spec.replicas\n- .spec.ports[port=80,protocol=\"TCP\"].name"
    );
    // The same name with another operation is another manager.
    conflict(desk.try_apply("kubectl", json!({"replicas": 2}), false));
    assert_eq!(desk.spec(), &before["spec"]);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn force_takes_the_changed_fields_from_all_other_managers() {
    let mut desk = Desk::new();
    desk.apply("one", json!({"replicas": 1, "plain": [1]}));
    desk.apply("two", json!({"replicas": 1}));
    desk.try_apply("me", json!({"replicas": 2, "plain": [1]}), true).expect("it is forced");
    assert_eq!(desk.spec(), &json!({"replicas": 2, "plain": [1]}));
    // Fields with the same value are shared, forced or not.
    assert_eq!(desk.owned("one"), json!({"f:plain": {}}));
    assert_eq!(desk.owned("two"), Value::Null);
    assert_eq!(desk.owned("me"), json!({"f:replicas": {}, "f:plain": {}}));
    // The manager that lost the field does not remove it.
    desk.apply("one", json!({}));
    assert_eq!(desk.spec(), &json!({"replicas": 2, "plain": [1]}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn a_shared_field_stays_until_its_last_owner_drops_it() {
    let mut desk = Desk::new();
    desk.apply("one", json!({"replicas": 1, "tags": ["a"]}));
    desk.apply("two", json!({"replicas": 1, "tags": ["a"]}));
    conflict(desk.try_apply("one", json!({"replicas": 2, "tags": ["a"]}), false));
    desk.apply("one", json!({}));
    assert_eq!(desk.spec(), &json!({"replicas": 1, "tags": ["a"]}));
    desk.apply("one", json!({}));
    desk.apply("two", json!({}));
    assert_eq!(desk.spec(), &json!({}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn lists_are_merged_by_their_items_and_keep_their_order() {
    let port = |port: u16, name: &str| json!({"port": port, "protocol": "TCP", "name": name});
    let mut desk = Desk::new();
    desk.apply("one", json!({"ports": [port(1, "a"), port(2, "b")], "tags": ["a", "b"]}));
    desk.apply(
        "two",
        json!({"ports": [{"port": 3, "protocol": "TCP"}, {"port": 1, "protocol": "TCP"}], "tags": ["c", "a"]}),
    );
    assert_eq!(
        desk.spec(),
        &json!({"ports": [{"port": 3, "protocol": "TCP"}, port(1, "a"), port(2, "b")], "tags": ["c", "a", "b"]})
    );
    conflict(desk.try_apply("two", json!({"ports": [port(1, "z")]}), false));
    // The first item stays because of the other manager, with only its key fields.
    desk.apply("one", json!({"ports": [port(2, "b")]}));
    let known = |port: u16| json!({"port": port, "protocol": "TCP"});
    assert_eq!(desk.spec(), &json!({"ports": [known(3), known(1), port(2, "b")], "tags": ["c", "a"]}));
    desk.apply("two", json!({}));
    assert_eq!(desk.spec(), &json!({"ports": [port(2, "b")]}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn an_item_keeps_its_key_fields_while_a_manager_owns_a_part_of_it() {
    let mut desk = Desk::new();
    desk.apply("me", json!({"boxes": [{"name": "a", "size": 1}, {"name": "b"}]}));
    desk.update("other", json!({"boxes": [{"name": "a", "size": 2}, {"name": "b"}]}));
    desk.apply("me", json!({}));
    assert_eq!(desk.spec(), &json!({"boxes": [{"name": "a", "size": 2}]}));
    assert_eq!(desk.owned("other"), json!({"f:boxes": {"k:{\"name\":\"a\"}": {"f:size": {}}}}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn a_list_or_object_that_is_one_value_is_replaced_whole() {
    let mut desk = Desk::new();
    desk.apply("one", json!({"plain": [1, 2], "selector": {"a": 1, "b": 2}}));
    conflict(desk.try_apply("two", json!({"plain": [1, 2, 3]}), false));
    conflict(desk.try_apply("two", json!({"selector": {"c": 3}}), false));
    desk.apply("one", json!({"plain": [3], "selector": {"c": 3}}));
    assert_eq!(desk.spec(), &json!({"plain": [3], "selector": {"c": 3}}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn a_document_that_cannot_be_applied_is_refused_by_field() {
    let port = |port: Value, protocol: Value| json!({"ports": [{"port": 1, "protocol": "x"}, {"port": port, "protocol": protocol}]});
    for (spec, wanted) in [
        (json!({"unknown": [null]}), "spec.unknown[0]"),
        (json!({"tags": ["a", "b", "a"]}), "spec.tags"),
        (json!({"tags": [{}]}), "spec.tags[0]"),
        (json!({"boxes": [1]}), "spec.boxes[0]"),
        (json!({"boxes": [{"size": 1}]}), "spec.boxes[0].name"),
        (json!({"boxes": [{"name": "x"}, {"name": "x"}]}), "spec.boxes"),
        (port(json!([]), json!("x")), "spec.ports[1].port"),
        (port(json!(1), Value::Null), "spec.ports[1].protocol"),
        (port(json!(1), json!("x")), "spec.ports"),
    ] {
        let mut desk = Desk::new();
        assert_eq!(refused_at(desk.try_apply("me", spec.clone(), true)), wanted);
        desk.update("other", json!({}));
        assert_eq!(refused_at(desk.try_apply("me", spec, true)), wanted);
    }
    let owners = json!({"ownerReferences": [{"name": "o"}]});
    let document = json!({"apiVersion": "v1", "kind": "Thing", "metadata": owners});
    assert_eq!(refused_at(Desk::new().apply_document("me", document, true)), "metadata.ownerReferences[0].uid");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn applying_the_same_again_does_not_even_change_the_time() {
    let mut desk = Desk::new();
    desk.update("other", json!({"replicas": 1}));
    desk.apply("me", json!({"replicas": 1, "tags": ["a"], "deep": {}}));
    let before = desk.document().clone();
    desk.apply("me", json!({"replicas": 1, "tags": ["a"], "deep": {}}));
    assert_eq!(desk.document(), &before);
    desk.apply("me", json!({"replicas": 1, "tags": ["a"]}));
    assert_ne!(desk.document(), &before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn an_update_owns_the_changed_fields_and_takes_them_from_all_others() {
    let mut desk = Desk::new();
    desk.apply("me", json!({"replicas": 1, "deep": {"a": 1, "b": 1}, "tags": ["a", "b"]}));
    desk.update("other", json!({"replicas": 2, "deep": {"a": 1}, "tags": ["b", "c"], "selector": {"a": 1}}));
    assert_eq!(desk.owned("me"), json!({"f:deep": {"f:a": {}}, "f:tags": {"v:\"b\"": {}}}));
    assert_eq!(desk.owned("other"), json!({"f:replicas": {}, "f:tags": {"v:\"c\"": {}}, "f:selector": {}}));
    conflict(desk.try_apply("me", json!({"replicas": 1}), false));
    // A manager that applies the new value shares the field.
    desk.apply("me", json!({"replicas": 2}));
    assert_eq!(desk.spec(), &json!({"replicas": 2, "tags": ["c"], "selector": {"a": 1}}));
    let order = desk.document()["metadata"]["managedFields"].clone();
    assert_eq!(order[0]["manager"], "me");
    assert_eq!(order[0]["operation"], "Apply");
    assert_eq!(order[0]["time"], "2026-01-01T00:00:04Z");
    assert_eq!(order[1]["operation"], "Update");
    assert_eq!(order[1]["time"], "2026-01-01T00:00:02Z");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn an_object_that_is_added_is_owned_with_every_object_in_it() {
    let mut desk = Desk::new();
    desk.update("me", json!({"deep": {"a": {"x": 1}}, "boxes": [{"name": "a"}]}));
    let wanted = json!({
        ".": {}, "f:deep": {".": {}, "f:a": {".": {}, "f:x": {}}},
        "f:boxes": {".": {}, "k:{\"name\":\"a\"}": {".": {}, "f:name": {}}},
    });
    assert_eq!(desk.owned("me"), wanted);
    desk.update("other", json!({"deep": 5}));
    assert_eq!(desk.owned("me"), json!({}));
    assert_eq!(desk.owned("other"), json!({"f:deep": {}}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn a_list_whose_items_cannot_be_told_apart_is_one_value() {
    let twice = json!([{"name": "a"}, {"name": "a"}]);
    let mut desk = Desk::new();
    desk.update("other", json!({"boxes": twice, "tags": "none"}));
    assert_eq!(desk.owned("other"), json!({".": {}, "f:boxes": {}, "f:tags": {}}));
    conflict(desk.try_apply("me", json!({"boxes": [{"name": "a"}]}), false));
    desk.try_apply("me", json!({"boxes": [{"name": "a"}], "tags": ["x"]}), true).expect("it is forced");
    assert_eq!(desk.spec(), &json!({"boxes": [{"name": "a"}], "tags": ["x"]}));
    assert_eq!(desk.owned("other"), json!({}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn the_oldest_of_many_update_entries_are_merged() {
    let mut desk = Desk::new();
    let mut spec = Map::new();
    for number in 0..25 {
        spec.insert(format!("n{number}"), json!(number));
        desk.update(&format!("m{number:02}"), Value::Object(spec.clone()));
        desk.apply("applier", json!({}));
    }
    let kept: Vec<String> = (16..25).map(|number| format!("m{number:02}")).collect();
    let mut wanted = vec!["applier", "ancient-changes"];
    wanted.extend(kept.iter().map(String::as_str));
    assert_eq!(desk.managers(), wanted);
    let ancient = desk.owned("ancient-changes");
    assert!((0..16).all(|number| ancient.get(format!("f:n{number}")).is_some()), "{ancient}");
    assert_eq!(desk.document()["metadata"]["managedFields"][1]["time"], "2026-01-01T00:00:31Z");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn a_writer_keeps_its_own_entry_among_many_writers_in_one_second() {
    let mut desk = Desk::new();
    for number in (0..20).rev() {
        desk.second = 0;
        let manager = format!("m{number:02}");
        let mut spec = desk.document.as_ref().map_or_else(|| json!({}), |document| document["spec"].clone());
        spec[&manager] = json!(1);
        desk.update(&manager, spec);
        assert!(desk.managers().contains(&manager.as_str()));
        assert!(desk.managers().len() <= 10);
    }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
#[test]
fn the_first_apply_gives_existing_fields_an_owner() {
    let mut desk = Desk::new();
    desk.document = Some(with(json!({"replicas": 1, "plain": [1]})));
    desk.update("other", json!({"replicas": 2, "plain": [1]}));
    assert_eq!(desk.managers(), Vec::<&str>::new());
    let refused = conflict(desk.try_apply("me", json!({"replicas": 3}), false));
    assert!(refused.ends_with("conflict with \"before-first-apply\" using apps/v1: .spec.replicas"), "{refused}");
    desk.apply("me", json!({"replicas": 2}));
    assert_eq!(desk.managers(), ["me", "before-first-apply"]);
    desk.update("other", json!({"replicas": 4, "plain": [1]}));
    assert_eq!(desk.owned("other"), json!({"f:replicas": {}}));
}

#[test]
fn only_an_empty_list_or_entry_is_a_reset() {
    let current = json!({"metadata": {"managedFields": [{"manager": "me"}]}});
    for (value, wanted) in [
        (json!([]), true),
        (json!([{}]), true),
        (json!([{}, {}]), false),
        (json!([{"manager": "me"}]), false),
        (json!([1]), false),
        (json!({}), false),
        (Value::Null, false),
    ] {
        let owners = requested_owners(Some(&value), &current).unwrap();
        assert_eq!(owners, if wanted { RequestedOwners::Reset } else { RequestedOwners::Unchanged }, "{value}");
    }
    assert_eq!(requested_owners(None, &current).unwrap(), RequestedOwners::Unchanged);
}

#[test]
fn an_item_is_known_by_its_numbers_however_they_are_written() {
    let read = |fields: Value| FieldSet::read(&fields);
    let whole = json!({"f:ports": {"k:{\"port\":80}": {}}, "f:set": {"v:1": {}}});
    assert_eq!(read(json!({"f:ports": {"k:{\"port\":80.0}": {}}, "f:set": {"v:1e0": {}}})), read(whole));
}

#[test]
fn malformed_entries_are_skipped() {
    for entries in [
        json!(5),
        json!({"manager": "me"}),
        json!([5, null, {}, {"operation": "Apply"}, {"operation": "Other", "fieldsV1": {"f:a": {}}}]),
        json!([{"operation": "Apply", "fieldsV1": 7}, {"operation": "Apply", "manager": 3, "fieldsV1": {"a": {}, "k:x": {}, "f": {}}}]),
        json!([{"operation": "Apply", "fieldsV1": {"f:a": 1, "i:0": {}, "k:[]": {}, "v:{": {}}}]),
    ] {
        let document = json!({"metadata": {"managedFields": entries}});
        assert!(Managers::of(&document).is_empty(), "{entries}");
    }
}

#[test]
fn keys_are_the_same_however_they_are_spelt() {
    let read = FieldSet::read(&json!({"f:l": {"k:{ \"b\": 1, \"a\" : \"x\"}": {}, "v: 1": {}}}));
    assert_eq!(read.write(), json!({"f:l": {"k:{\"a\":\"x\",\"b\":1}": {}, "v:1": {}}}));
}

#[test]
fn entries_that_are_too_large_are_refused() {
    let fields: Map<String, Value> = (0..20_000).map(|number| (format!("field-number-{number}"), json!(1))).collect();
    let mut document = with(Value::Object(fields));
    let refused = Desk::new().apply_document("me", document.clone(), false);
    let Err(Error::TooLarge { what, bytes, bytes_max }) = refused else { panic!("it is taken: {refused:?}") };
    assert_eq!((what.as_str(), bytes_max), ("metadata.managedFields", MANAGED_FIELDS_BYTES_MAX));
    assert!(bytes > bytes_max);
    document["spec"].as_object_mut().expect("it is one").retain(|name, _| name.len() < 16);
    Desk::new().apply_document("me", document, false).expect("it is small");
}

#[test]
fn a_deeply_nested_value_is_a_single_value() {
    let deep = (0..95).fold(json!(1), |value, _| json!({"x": value}));
    let mut desk = Desk::without_schema();
    desk.apply("me", deep);
    let depth = validate::depth(desk.document(), crate::DOCUMENT_DEPTH_MAX);
    assert_eq!(depth, Some(96));
    let deeper = (0..95).fold(json!(2), |value, _| json!({"x": value}));
    conflict(desk.try_apply("other", deeper, false));
}

/// Specs with few fields, so that managers collide. An empty list has no owner unless it is a single value.
fn spec() -> impl Strategy<Value = Value> {
    let port = (1..4_u16, proptest::option::of(1..3_u8)).prop_map(|(port, name)| match name {
        Some(name) => json!({"port": port, "protocol": "TCP", "name": name}),
        None => json!({"port": port, "protocol": "TCP"}),
    });
    let ports = proptest::collection::vec(port, 1..4).prop_map(|mut ports| {
        let mut seen = std::collections::BTreeSet::new();
        ports.retain(|port| seen.insert(port["port"].as_u64()));
        json!(ports)
    });
    let tags =
        proptest::sample::subsequence(vec!["a", "b", "c", "d"], 1..4).prop_shuffle().prop_map(|tags| json!(tags));
    let small = (0..3_u8).prop_map(|number| json!(number));
    let deep = proptest::collection::btree_map("[abz]", 0..2_u8, 0..3).prop_map(|fields| json!(fields));
    let free = proptest::collection::btree_map("[ab]", 0..2_u8, 0..3).prop_map(|fields| json!(fields));
    let plain = proptest::collection::vec(0..3_u8, 0..3).prop_map(|items| json!(items));
    let values = (small, tags, ports, deep, free, plain);
    (values, proptest::sample::subsequence(vec![0, 1, 2, 3, 4, 5], 0..=6)).prop_map(|((a, b, c, d, e, f), chosen)| {
        let fields = [("replicas", a), ("tags", b), ("ports", c), ("deep", d), ("free", e), ("plain", f)];
        let fields = fields.into_iter().enumerate().filter(|(at, _)| chosen.contains(at));
        Value::Object(fields.map(|(_, (name, value))| (name.to_owned(), value)).collect())
    })
}

#[derive(Debug, Clone)]
enum Step {
    Apply(&'static str, Value, bool),
    Update(&'static str, Value),
}

fn step() -> impl Strategy<Value = Step> {
    let manager = || prop_oneof![Just("one"), Just("two"), Just("three")];
    prop_oneof![
        (manager(), spec(), any::<bool>()).prop_map(|(manager, spec, force)| Step::Apply(manager, spec, force)),
        (manager(), spec()).prop_map(|(manager, spec)| Step::Update(manager, spec)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
    #[test]
    fn owners_are_true_after_any_sequence_of_writes(
        steps in proptest::collection::vec(step(), 1..10), with_schema in any::<bool>()
    ) {
        let mut desk = if with_schema { Desk::new() } else { Desk::without_schema() };
        for step in steps {
            let before = desk.document.clone();
            match step {
                Step::Update(manager, spec) => desk.update(manager, spec),
                Step::Apply(manager, spec, force) => match desk.try_apply(manager, spec.clone(), force) {
                    Err(error) => {
                        prop_assert!(!force && matches!(error, Error::ApplyConflict { .. }), "{}", error);
                        prop_assert_eq!(&desk.document, &before);
                        continue;
                    }
                    Ok(()) => {
                        let schema = desk.schema.clone();
                        let shape = Shape::document(schema.as_ref());
                        let after = desk.document().clone();
                        // Applying again, forced or not, changes nothing.
                        desk.apply(manager, spec.clone());
                        prop_assert_eq!(desk.document(), &after);
                        // The named fields exist with the applied values, and the manager owns them.
                        let named = named(&with(spec.clone()), shape);
                        let merged = ServerSideApply::new(&after, &with(spec), Writer {
                            manager, operation: Operation::Apply, subresource: None, time: "", schema: schema.as_ref(),
                        }).expect("it was applied").merged();
                        prop_assert_eq!(&merged, &after);
                        let entries = after["metadata"]["managedFields"].as_array().into_iter().flatten();
                        let owned = |entry: &Value| FieldSet::read(&entry["fieldsV1"]);
                        let mut others = Vec::new();
                        let mut own = FieldSet::default();
                        for entry in entries {
                            if entry["manager"] == manager && entry["operation"] == "Apply" {
                                own = owned(entry);
                            } else {
                                others.push(owned(entry));
                            }
                        }
                        prop_assert_eq!(own, named);
                        // No other manager owns the changed fields.
                        if let Some(before) = &before {
                            let changed = diff(before, &after, shape).set;
                            for other in others {
                                prop_assert_eq!(other.overlaps(&changed), Vec::<String>::new());
                            }
                        }
                    }
                },
            }
            // Missing fields have no owner.
            let schema = desk.schema.as_ref();
            let there = all(desk.document(), Shape::document(schema));
            for entry in desk.document()["metadata"]["managedFields"].as_array().into_iter().flatten() {
                let owned = FieldSet::read(&entry["fieldsV1"]);
                prop_assert_eq!(&owned.write(), &entry["fieldsV1"]);
                let mut both = there.clone();
                both.unite(owned.clone());
                prop_assert_eq!(&both, &there, "{}", desk.document());
            }
        }
    }

    #[test]
    fn field_sets_survive_encoding_and_decoding(spec in spec(), other in json_value()) {
        let schema = schema();
        for document in [with(spec), with(other)] {
            let fields = all(&document, Shape::document(Some(&schema)));
            prop_assert_eq!(FieldSet::read(&fields.write()), fields);
        }
    }

    #[test]
    fn no_stored_entry_of_owners_causes_a_panic(entries in json_value(), fields in json_value(), applied in json_value()) {
        let entry = json!({"manager": "x", "operation": "Update", "fieldsV1": fields});
        for entries in [entries, json!([entry])] {
            let mut desk = Desk::new();
            let mut document = with(json!({"replicas": 1, "tags": ["a"]}));
            document["metadata"]["managedFields"] = entries;
            desk.document = Some(document);
            // Accepted or refused, it does not panic.
            drop(desk.try_apply("me", applied.clone(), true));
            desk.update("other", applied.clone());
        }
    }
}
