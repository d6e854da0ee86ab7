//! What an applied document makes of the current one: its fields are set, and those that it no longer names are taken out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::{FieldSet, PathElement};
use super::shape::{Parts, Shape};

/// Sets what an applied value says; the rest of the current one stays.
pub(super) fn merge(current: &mut Value, applied: &Value, shape: Shape<'_>) {
    match (current, applied) {
        (Value::Object(current), Value::Object(applied)) if shape.has_fields() => merge_fields(current, applied, shape),
        (current @ Value::Array(_), Value::Array(_)) => *current = merge_lists(current, applied, shape),
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

/// Items of the applied list are in its order. An item that only the current list has stays in front of the items that follow it there,
/// and a new one comes behind such items.
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
        // An item of both lists: it takes the place of the next such item of the current one.
        rest.next();
        let mut item = (*current).clone();
        merge(&mut item, applied, shape.items());
        merged.push(item);
    }
    merged.extend(rest.map(|(_, foreign)| (*foreign).clone()));
    Value::Array(merged)
}

/// Takes out what is `dropped`, unless it is `kept`: values of which `kept` says nothing go with everything in them.
pub(super) fn prune(value: &mut Value, shape: Shape<'_>, dropped: &FieldSet, kept: &FieldSet) {
    prune_but(value, shape, dropped, kept, &[]);
}

/// `keys` are the fields by which an item is known: it has them for as long as it is there.
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
