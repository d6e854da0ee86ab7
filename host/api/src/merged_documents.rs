//! One document of those of several hosts: the queue of a controller, and the costs of controllers.
//!
//! Pure. What another host says is taken where it has the expected shape, and left out elsewhere. Each answer
//! is bounded before it comes here.

use serde_json::{Map, Value, json};

use crate::forwarder::UnansweredHost;

/// Keys at most in the costs of one controller: the most expensive ones.
const COST_KEYS_MAX: usize = 64;

/// The measures that are the largest of single reconciles. All others are sums.
const MAXIMA: [&str; 3] = ["cpuUsMax", "memoryBytesMax", "seconds"];

/// Adds the queues of other hosts to that of this one. Keys beyond `limit` are counted as left out.
pub(crate) fn add_queues(own: &mut Value, others: Vec<Value>, limit: usize) {
    for mut other in others {
        for part in ["counts", "cut"] {
            add_usage(&mut own[part], &other[part]);
        }
        append(own, "items", take(&mut other, "items"));
    }
    let Some(items) = own["items"].as_array_mut() else { return };
    let left_out = items.len().saturating_sub(limit) as u64;
    items.truncate(limit);
    add_number(&mut own["cut"]["wanted"], left_out);
}

/// Adds the costs of other hosts to those of this one, for the controllers that `is_shared` selects.
pub(crate) fn add_costs(own: &mut Value, others: Vec<Value>, is_shared: impl Fn(&str) -> bool) {
    let Some(items) = own["items"].as_array_mut() else { return };
    for mut other in others {
        let Value::Array(costs) = take(&mut other, "items") else { continue };
        for mut cost in costs {
            let name = cost["controller"].as_str().filter(|name| is_shared(name)).map(str::to_owned);
            let Some(item) = name.and_then(|name| items.iter_mut().find(|item| item["controller"] == *name)) else {
                continue;
            };
            for part in ["spent", "lately"] {
                add_usage(&mut item[part], &cost[part]);
            }
            append(item, "keys", take(&mut cost, "keys"));
        }
    }
    items.iter_mut().for_each(merge_keys);
}

/// Names the hosts that have not answered in the field `unanswered`. A complete document has no such field.
pub(crate) fn name_unanswered(document: &mut Value, unanswered: &[UnansweredHost]) {
    if !unanswered.is_empty() {
        document["unanswered"] = json!(unanswered);
    }
}

/// Takes a field out of a document, which may be no object.
fn take(document: &mut Value, field: &str) -> Value {
    document.get_mut(field).map(Value::take).unwrap_or_default()
}

fn append(own: &mut Value, field: &str, more: Value) {
    if let (Some(items), Value::Array(more)) = (own[field].as_array_mut(), more) {
        items.extend(more.into_iter().filter(Value::is_object));
    }
}

/// Makes one entry of those of the same key, and keeps the keys with the most processor time.
fn merge_keys(item: &mut Value) {
    let Some(keys) = item["keys"].as_array_mut() else { return };
    let mut merged: Map<String, Value> = Map::new();
    for key in keys.drain(..) {
        match merged.get_mut(&key["key"].to_string()) {
            Some(known) => {
                add_usage(&mut known["spent"], &key["spent"]);
                known["atLeast"] = (known["atLeast"] == true || key["atLeast"] == true).into();
            }
            None => drop(merged.insert(key["key"].to_string(), key)),
        }
    }
    *keys = merged.into_iter().map(|(_, key)| key).collect();
    keys.sort_by_key(|key| std::cmp::Reverse(key["spent"]["cpuUs"].as_u64()));
    keys.truncate(COST_KEYS_MAX);
}

/// Adds measures to others, field by field. A field that is no measure stays.
fn add_usage(own: &mut Value, more: &Value) {
    let (Some(own), Some(more)) = (own.as_object_mut(), more.as_object()) else { return };
    for (name, value) in more {
        match (own.get_mut(name), value) {
            (Some(known), Value::Object(_)) => add_usage(known, value),
            (Some(known), Value::Number(_)) if MAXIMA.contains(&name.as_str()) => {
                if value.as_f64() > known.as_f64() {
                    *known = value.clone();
                }
            }
            (Some(known), _) => add_number(known, value.as_u64().unwrap_or_default()),
            // The effects of a class that no reconcile of this host has used.
            (None, Value::Number(_)) => drop(own.insert(name.clone(), value.clone())),
            (None, _) => {}
        }
    }
}

fn add_number(own: &mut Value, more: u64) {
    if let Some(number) = own.as_u64() {
        *own = number.saturating_add(more).into();
    }
}

#[cfg(test)]
mod tests;
