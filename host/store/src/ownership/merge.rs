//! Merges an applied document into the current one: sets its fields, and removes those that it no longer
//! names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::{FieldSet, PathElement};
use super::shape::{Parts, Shape};

/// Sets the fields of an applied value; the rest of the current value stays.
pub(super) fn merge(current: &mut Value, applied: &Value, shape: Shape<'_>) {
    match (current, applied) {
        (Value::Object(current), Value::Object(applied)) if shape.has_fields() => merge_fields(current, applied, shape),
        (current @ Value::Array(_), Value::Array(_)) => *current = merge_lists(current, applied, shape),
        // Nothing is set in an object or a list whose parts have owners of their own.
        (Value::Object(fields), Value::Null) if !fields.is_empty() && shape.has_fields() => {}
        (Value::Array(items), Value::Null) if !items.is_empty() && shape.elements(items).is_some() => {}
        (current, applied) => *current = applied.clone(),
    }
}

fn merge_fields(current: &mut Map<String, Value>, applied: &Map<String, Value>, shape: Shape<'_>) {
    for (name, applied) in applied {
        match (current.get_mut(name), shape.field(name)) {
            (Some(current), Some(shape)) => merge(current, applied, shape),
            _ => drop(current.insert(name.clone(), applied.clone())),
        }
    }
}

/// Keeps the order of the applied items. An item that only the current list has stays before the items that
/// follow it there. A new item comes after such items.
fn merge_lists(current: &Value, applied: &Value, shape: Shape<'_>) -> Value {
    let (Parts::Items(current), Parts::Items(applied)) = (shape.parts(current), shape.parts(applied)) else {
        return applied.clone();
    };
    let named: BTreeSet<&PathElement> = applied.iter().map(|(element, _)| element).collect();
    let known: BTreeMap<&PathElement, &Value> = current.iter().map(|(element, value)| (element, *value)).collect();
    let mut merged = Vec::with_capacity(current.len() + applied.len());
    let mut rest = current.iter().peekable();
    for (element, applied) in &applied {
        while let Some((_, foreign)) = rest.next_if(|(element, _)| !named.contains(element)) {
            merged.push((*foreign).clone());
        }
        let Some(current) = known.get(element) else {
            merged.push((*applied).clone());
            continue;
        };
        // An item of both lists replaces the next such item of the current list.
        rest.next();
        let mut item = (*current).clone();
        merge(&mut item, applied, shape.items());
        merged.push(item);
    }
    merged.extend(rest.map(|(_, foreign)| (*foreign).clone()));
    Value::Array(merged)
}

/// Removes the fields in `dropped` that are not in `kept`. A value without any path in `kept` is removed as a
/// whole.
pub(super) fn prune(value: &mut Value, shape: Shape<'_>, dropped: &FieldSet, kept: &FieldSet) {
    prune_but(value, shape, dropped, kept, &[]);
}

/// `keys` are the key fields of a list item: they stay as long as the item exists.
fn prune_but(value: &mut Value, shape: Shape<'_>, dropped: &FieldSet, kept: &FieldSet, keys: &[&str]) {
    match value {
        Value::Object(fields) if shape.has_fields() => {
            for (element, dropped) in dropped.parts() {
                let PathElement::Field(name) = element else { continue };
                let Some(shape) = shape.field(name).filter(|_| !keys.contains(&name.as_str())) else { continue };
                match (kept.get(element), fields.get_mut(name)) {
                    (None, Some(_)) => drop(fields.remove(name)),
                    (Some(kept), Some(value)) => prune(value, shape, dropped, kept),
                    (_, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(Ok(elements)) = shape.elements(items) else { return };
            let keys = shape.keys();
            let mut elements = elements.into_iter();
            items.retain_mut(|item| {
                let Some(element) = elements.next() else { return true };
                match (dropped.get(&element), kept.get(&element)) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(dropped), Some(kept)) => {
                        prune_but(item, shape.items(), dropped, kept, &keys);
                        true
                    }
                }
            });
        }
        _ => {}
    }
}
