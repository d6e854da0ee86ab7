//! Rules in CEL: their form in a schema, and their verdict on a document.

use serde_json::{Value, json};

use super::{of_spec, whole, widget};
use crate::schema::{Reason, Schema, Schemas, Violation};
use crate::semantics::{Validation, plan_write};
use crate::{Error, Kind, Revision, SystemClockAndIds, Write};

/// A `spec` with a number, a list of parts, and rules of the whole.
fn ruled(rules: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer"}, "limit": {"type": "integer"},
            "name": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "cannot change"},
            ]},
            "parts": {
                "type": "array", "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "maxLength": 10}, "weight": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.weight >= oldSelf.weight", "reason": "FieldValueForbidden"}],
                },
            },
        },
        "x-kubernetes-validations": rules,
    })
}

fn small() -> Value {
    json!([{"rule": "self.size <= self.limit", "fieldPath": ".size", "messageExpression": "'above %d'.format([self.limit])"}])
}

fn found(schema: &Schema, spec: Value, old: Option<Value>) -> Vec<String> {
    let old = old.map(widget);
    schema.check_rules(&widget(spec), old.as_ref()).iter().map(Violation::to_string).collect()
}

#[test]
fn a_violated_rule_names_its_field_and_its_message() {
    let schema = of_spec(ruled(small()));
    assert_eq!(found(&schema, json!({"size": 1, "limit": 2}), None), [""; 0]);
    assert_eq!(found(&schema, json!({"size": 3, "limit": 2}), None), ["spec.size: Invalid value: above 2"]);
    let missing = found(&schema, json!({"size": 3}), None);
    let wanted = "spec: Invalid value: \"object\": no such key: limit evaluating rule: self.size <= self.limit";
    assert_eq!(missing, [wanted]);
}

#[test]
fn rules_about_the_old_value_need_a_corresponding_one() {
    let schema = of_spec(ruled(json!([])));
    let old = json!({"name": "a", "parts": [{"name": "x", "weight": 5}, {"name": "y", "weight": 5}]});
    assert_eq!(found(&schema, json!({"name": "b"}), None), [""; 0]);
    assert_eq!(found(&schema, json!({"name": "a"}), Some(json!({}))), [""; 0]);
    let changed = json!({"name": "b", "parts": [{"name": "y", "weight": 4}, {"name": "z", "weight": 1}]});
    let wanted = [
        "spec.name: Invalid value: \"b\": cannot change",
        "spec.parts[0]: Forbidden: failed rule: self.weight >= oldSelf.weight",
    ];
    assert_eq!(found(&schema, changed, Some(old)), wanted);
}

#[test]
fn a_rule_with_an_optional_old_value_is_evaluated_at_creation() {
    let rule = json!([{
        "rule": "oldSelf.hasValue() || self.size == 1", "optionalOldSelf": true, "message": "must begin with 1",
    }]);
    let schema = of_spec(ruled(rule));
    assert_eq!(found(&schema, json!({"size": 2}), None), ["spec: Invalid value: must begin with 1"]);
    assert_eq!(found(&schema, json!({"size": 2}), Some(json!({"size": 1}))), [""; 0]);
}

#[test]
fn an_unchanged_part_may_go_on_violating_a_rule() {
    let mut source = ruled(small());
    source["properties"]["other"] = json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 0", "message": "too small"}]});
    let schema = of_spec(source);
    let old = json!({"size": 1, "limit": 2, "other": {"a": 0}});
    let now = |a: i64| json!({"size": 2, "limit": 2, "other": {"a": a}});
    assert_eq!(found(&schema, now(0), Some(old.clone())), [""; 0]);
    assert_eq!(found(&schema, now(-1), Some(old)), ["spec.other: Invalid value: too small"]);
}

#[test]
fn the_order_of_items_with_identities_changes_no_part() {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}}});
    let schema = |list_type: Value| {
        let mut list = json!({"type": "array", "items": item});
        list.as_object_mut().unwrap().extend(list_type.as_object().cloned().unwrap());
        of_spec(json!({"type": "object", "properties": {"parts": list, "broken": {"type": "boolean"}},
            "x-kubernetes-validations": [{"rule": "!has(self.broken)", "message": "is broken"}]}))
    };
    let keyed = schema(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}));
    let of_parts = |parts: Value| json!({"broken": true, "parts": parts});
    let old = of_parts(json!([{"name": "a", "weight": 1}, {"name": "b"}]));
    let turned = of_parts(json!([{"name": "b"}, {"name": "a", "weight": 1}]));
    assert_eq!(found(&keyed, turned.clone(), Some(old.clone())), [""; 0]);
    for changed in [
        json!([{"name": "b"}, {"name": "a", "weight": 2}]),
        json!([{"name": "b"}, {"name": "c"}]),
        json!([{"name": "a", "weight": 1}]),
    ] {
        assert_eq!(found(&keyed, of_parts(changed), Some(old.clone())), ["spec: Invalid value: is broken"]);
    }
    assert_eq!(found(&schema(json!({})), turned, Some(old)), ["spec: Invalid value: is broken"], "the order counts");
}

#[test]
fn a_document_cannot_make_rules_run_long() {
    let list = json!({"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 100}});
    let rule = "self.a.all(x, self.b.all(y, x != y))";
    let source = json!({
        "type": "object", "properties": {"a": list, "b": list},
        "x-kubernetes-validations": [{"rule": rule}],
    });
    let schema = of_spec(source);
    let texts = |letter: &str| (0..10_000).map(|n| json!(format!("{letter}{n}"))).collect::<Vec<_>>();
    // A document with too many items, which is never checked, because its lists are too long.
    let violations = found(&schema, json!({"a": texts("a"), "b": texts("b")}), None);
    assert_eq!(violations.len(), 1);
    assert!(
        violations[0].contains("no further validation rules will be run due to call cost exceeds limit"),
        "{violations:?}"
    );
}

#[test]
fn rules_that_do_not_compile_refuse_the_schema() {
    let cases = [
        (
            json!([{"rule": "self.sise > 1"}]),
            "x-kubernetes-validations[0].rule: compilation failed: ERROR: <input>:1:5: undefined field 'sise'",
        ),
        (json!([{"rule": "self.size"}]), "cel expression must evaluate to a bool"),
        (json!([{"rule": " "}]), "rule is not specified"),
        (json!([{"rule": "true", "message": " "}]), "must be non-empty if specified"),
        (json!([{"rule": "true", "message": "a\nb"}]), "must not contain line breaks"),
        (json!([{"rule": "true\n&& true"}]), "message must be specified if rule contains line breaks"),
        (json!([{"rule": "true", "messageExpression": "1"}]), "messageExpression must evaluate to a string"),
        (json!([{"rule": "true", "messageExpression": "self.x"}]), "messageExpression compilation failed"),
        (json!([{"rule": "true", "reason": "Because"}]), "reason: supported values: \"FieldValueDuplicate\""),
        (json!([{"rule": "true", "fieldPath": ".sise"}]), "must be a valid path"),
        (json!([{"rule": "true", "fieldPath": "size"}]), "must be a valid path"),
        (json!([{"rule": "true", "optionalOldSelf": true}]), "may not be set if oldSelf is not used in rule"),
        (json!([1]), "must be an object"),
    ];
    for (rules, wanted) in cases {
        let error = Schema::parse(&whole(ruled(rules.clone()))).expect_err("the rules are refused");
        assert!(error.to_string().contains(wanted), "{rules}: {error}");
    }
    let list = json!({"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}});
    let error = Schema::parse(&whole(list)).expect_err("items have no identity").to_string();
    assert!(error.contains("oldSelf cannot be used on the uncorrelatable portion of the schema within"), "{error}");
}

#[test]
fn rules_whose_cost_has_no_sufficient_bound_refuse_the_schema() {
    let schema = |items_max: Option<u64>| {
        let mut list = json!({"type": "array", "items": {"type": "string", "maxLength": 100}});
        list["maxItems"] = items_max.map_or(Value::Null, Value::from);
        let rules = json!([{"rule": "self.a.all(x, self.a.exists_one(y, x == y))"}]);
        Schema::parse(&whole(json!({"type": "object", "properties": {"a": list}, "x-kubernetes-validations": rules})))
    };
    assert!(schema(Some(100)).is_ok());
    let error = schema(None).expect_err("the list has no bound").to_string();
    assert!(error.contains("estimated rule cost exceeds budget by factor of more than 100x"), "{error}");
    let error = schema(Some(1_000)).expect_err("the bound is too large").to_string();
    assert!(error.contains("exceeds budget by factor of"), "{error}");
}

#[test]
fn a_new_resource_has_the_default_of_its_status() {
    let status = json!({"type": "object", "default": {"phase": "New"}, "properties": {"phase": {"type": "string"}}});
    let source = json!({"type": "object", "properties": {"spec": {"type": "object"}, "status": status}});
    let schemas = Schemas::default();
    let schema = Schema::parse(&source).expect("it is a schema");
    schemas.set(&Kind::new("demo.dev", "v1", "Widget"), [("v1".to_owned(), Some(schema))]);
    let create = Write::Create { document: widget(json!({})) };
    let planned =
        plan_write(&SystemClockAndIds, &schemas, create.into(), Revision(1), Validation::Complete, |_| Ok(None));
    let resource = planned.expect("it is valid").decision.resource().document().clone();
    assert_eq!(resource["status"], json!({"phase": "New"}));
}

#[test]
fn the_rules_of_a_schema_have_a_bound_together() {
    let schema = |rules: usize| {
        let list = json!({"type": "array", "maxItems": 400, "items": {"type": "string", "maxLength": 10}});
        let rule = json!({"rule": "self.a.all(x, self.a.exists_one(y, x == y))"});
        let rules = vec![rule; rules];
        Schema::parse(&whole(json!({"type": "object", "properties": {"a": list}, "x-kubernetes-validations": rules})))
    };
    assert!(schema(1).is_ok(), "each rule is below the bound of one rule");
    let error = schema(400).expect_err("together they are above the bound").to_string();
    assert!(error.contains("estimated rule cost total for entire OpenAPIv3 schema exceeds budget"), "{error}");
}

#[test]
fn the_rules_of_a_document_have_a_bound_together() {
    let list = json!({"type": "array", "maxItems": 400, "items": {"type": "string", "maxLength": 10}});
    let rule = json!({"rule": "self.a.all(x, self.a.all(y, x != '' || y != ''))", "message": "is empty"});
    let source = json!({
        "type": "object", "properties": {"a": list}, "x-kubernetes-validations": vec![rule; 20],
    });
    let schema = of_spec(source);
    let texts: Vec<Value> = (0..400).map(|number| json!(format!("a{number}"))).collect();
    assert_eq!(found(&schema, json!({"a": texts[..10]}), None), [""; 0]);
    let violations = found(&schema, json!({"a": texts}), None);
    let last = violations.last().expect("the budget does not last");
    assert!(last.contains("running out of cost budget"), "{violations:?}");
}

#[test]
fn rules_are_not_evaluated_for_a_document_of_another_shape() {
    let schema = of_spec(ruled(small()));
    let schemas = Schemas::default();
    schemas.set(&Kind::new("demo.dev", "v1", "Widget"), [("v1".to_owned(), Some(schema))]);
    let create = Write::Create { document: widget(json!({"size": "x", "limit": 1})) };
    let rules = Validation::Complete;
    let planned = plan_write(&SystemClockAndIds, &schemas, create.into(), Revision(1), rules, |_| Ok(None));
    let error = planned.expect_err("the type is wrong");
    let Error::InvalidFields { violations, .. } = error else { panic!("{error}") };
    let found: Vec<(&str, Reason)> = violations.iter().map(|one| (one.path.as_str(), one.reason)).collect();
    assert_eq!(found, [("spec.size", Reason::TypeInvalid), ("<nil>", Reason::Invalid)]);
}
