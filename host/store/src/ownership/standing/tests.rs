use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ownership::difference::diff;
use crate::ownership::shape::Shape;
use crate::ownership::{Operation, create_owners, take_ownership};

fn writer<'a>(manager: &'a str, subresource: &'a str, time: &'a str) -> Writer<'a> {
    Writer { manager, operation: Operation::Update, subresource: Subresource::named(subresource), time, schema: None }
}

/// A document with this specification, labels and status, and with the owners of another document.
fn document(parts: &[Value; 3], owners: Option<&Value>) -> Value {
    let [spec, labels, status] = parts;
    let mut document =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}, "spec": spec});
    if !status.is_null() {
        document["status"] = status.clone();
    }
    if let Some(owners) = owners {
        document["metadata"]["managedFields"] = owners.clone();
    }
    document
}

fn values() -> impl Strategy<Value = [Value; 3]> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!(2)),
        Just(json!({})),
        Just(json!([1])),
        Just(json!([2])),
        Just(Value::Null)
    ];
    let tree = leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::btree_map("[ab.]", inner, 0..3).prop_map(|fields| fields.into_iter().collect())
    });
    let labels = prop::collection::btree_map("[ab]", "[xy]", 0..3).prop_map(|labels| json!(labels));
    (tree.clone(), labels, tree).prop_map(|(spec, labels, status)| [spec, labels, status])
}

proptest! {
    #[test]
    fn owners_that_stay_are_those_that_handing_over_would_write(
        first in values(),
        writes in prop::collection::vec((values(), 0_usize..3, 0_usize..2, any::<bool>()), 1..8),
    ) {
        let mut current = document(&first, None);
        create_owners(&mut current, writer("one", "", "2026-01-01T00:00:00Z")).expect("it is small");
        let mut parts = first;
        for (second, (changed, manager, part, same)) in writes.into_iter().enumerate() {
            // Some writes change only one part, as most real ones do.
            if same { parts[part] = changed[part].clone() } else { parts = changed }
            let new = document(&parts, current["metadata"].get("managedFields"));
            let time = format!("2026-01-01T00:00:{:02}Z", second / 2);
            let writer = writer(["one", "other", "third"][manager], ["", "status"][part], &time);
            let difference = diff(&current, &new, Shape::document(None));
            let (mut touched, mut handed) = (new.clone(), new);
            let is_touched = try_touch(&mut touched, &difference, writer);
            take_ownership(&current, &mut handed, difference, writer).expect("it is small");
            if is_touched {
                prop_assert_eq!(&touched, &handed);
            }
            current = handed;
        }
    }
}

#[test]
fn a_writer_that_changes_its_own_field_again_changes_the_time_of_its_entry_alone() {
    let parts = |value: u64| [json!({"a": value, "b": {"c": [value]}}), json!({"x": "y"}), Value::Null];
    let mut current = document(&parts(1), None);
    create_owners(&mut current, writer("one", "", "2026-01-01T00:00:00Z")).expect("it is small");
    let mut new = document(&parts(2), current["metadata"].get("managedFields"));
    let difference = diff(&current, &new, Shape::document(None));
    let later = "2026-01-01T00:00:01Z";
    assert!(try_touch(&mut new, &difference, writer("one", "", later)));
    current["metadata"]["managedFields"][0]["time"] = json!(later);
    assert_eq!(new["metadata"]["managedFields"], current["metadata"]["managedFields"]);
    for other in [writer("other", "", later), writer("one", "status", later)] {
        assert!(!try_touch(&mut new, &difference, other), "{other:?} takes the fields");
    }
}
