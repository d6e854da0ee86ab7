//! Patches that turn one document into another.

use homeostat_testing::Dice;
use serde_json::{Map, Value, json};

/// The fields by which lists of built-in kinds name their items.
const KEYS: [&str; 9] = ["name", "containerPort", "port", "mountPath", "key", "type", "ip", "uid", "devicePath"];

/// Lists of objects that are merged wherever they are. A kube-apiserver panics if the order of another one is set.
const MERGED_LISTS: [&str; 6] = ["containers", "env", "imagePullSecrets", "initContainers", "volumeMounts", "volumes"];

/// Returns a JSON merge patch.
pub(super) fn merge(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let gone = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let new = to.iter().filter(|(name, value)| from.get(*name) != Some(value)).map(|(name, value)| {
        let patch = from.get(name).map_or_else(|| value.clone(), |before| merge(before, value));
        (name.clone(), patch)
    });
    Value::Object(gone.chain(new).collect())
}

/// Returns a strategic merge patch, with directives here and there.
pub(super) fn strategic(from: &Value, to: &Value, dice: &mut Dice) -> Value {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => fields(from, to, dice),
        (Value::Array(from), Value::Array(to)) => items(from, to, dice),
        _ => to.clone(),
    }
}

fn fields(from: &Map<String, Value>, to: &Map<String, Value>, dice: &mut Dice) -> Value {
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        match from.get(name) {
            None => drop(patch.insert(name.clone(), value.clone())),
            Some(before) if before != value || dice.below(12) == 0 => {
                patch.insert(name.clone(), strategic(before, value, dice));
                if let (Value::Array(before), Value::Array(after)) = (before, value) {
                    patch.extend(list_directives(name, before, after, dice));
                }
            }
            Some(_) => {}
        }
    }
    match dice.below(30) {
        0 => drop(patch.insert("$patch".to_owned(), "replace".into())),
        1 => drop(patch.insert("$patch".to_owned(), "delete".into())),
        2 => {
            let kept: Vec<Value> = patch.keys().map(|name| json!(name)).collect();
            patch.insert("$retainKeys".to_owned(), kept.into());
        }
        _ => {}
    }
    Value::Object(patch)
}

/// Returns directives for a list, as `kubectl` adds them.
fn list_directives(name: &str, from: &[Value], to: &[Value], dice: &mut Dice) -> Map<String, Value> {
    let mut directives = Map::new();
    let has_order = MERGED_LISTS.contains(&name) || to.iter().chain(from).all(|item| !item.is_object());
    if has_order && dice.below(3) == 0 {
        let order = to.iter().map(|item| match item {
            Value::Object(fields) => {
                fields.iter().filter(|(name, _)| KEYS.contains(&name.as_str())).map(clone_field).collect()
            }
            scalar => scalar.clone(),
        });
        directives.insert(format!("$setElementOrder/{name}"), order.collect());
    }
    let deleted: Vec<Value> = from.iter().filter(|item| !item.is_object() && !to.contains(item)).cloned().collect();
    if !deleted.is_empty() && dice.below(2) == 0 {
        directives.insert(format!("$deleteFromPrimitiveList/{name}"), deleted.into());
    }
    directives
}

fn clone_field((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

fn items(from: &[Value], to: &[Value], dice: &mut Dice) -> Value {
    let mut patch = Vec::new();
    if dice.below(6) == 0 {
        patch.push(json!({ "$patch": "replace" }));
    }
    for (at, item) in to.iter().enumerate() {
        let mut change = match from.get(at) {
            Some(before) if before.is_object() && item.is_object() => strategic(before, item, dice),
            _ => item.clone(),
        };
        for key in KEYS {
            if let (Some(value), Some(fields)) = (item.get(key), change.as_object_mut()) {
                fields.entry(key).or_insert_with(|| value.clone());
            }
        }
        patch.push(change);
    }
    for gone in from.iter().skip(to.len()) {
        if let Some(key) = KEYS.iter().find(|key| gone.get(**key).is_some()) {
            patch.push(json!({ (*key): gone[*key], "$patch": "delete" }));
        }
    }
    Value::Array(patch)
}
