//! Strategic merge patches: merge patches that merge lists, as Kubernetes clients send them for built-in
//! kinds.
//!
//! A list with a merge key is merged item by item; any other list is replaced. The schema of the kind defines
//! the merge key; for the lists of built-in kinds, [`KEYS`] does. The directives are `$patch`, `$retainKeys`,
//! `$deleteFromPrimitiveList/…` and `$setElementOrder/…`.
//!
//! Source: Kubernetes' "strategic merge patch" (sig-api-machinery), and the patch annotations of its types.

use serde_json::{Map, Value};

use crate::schema::{ListType, Schema};
use crate::{Error, Result};

/// Merge keys of well-known lists. Of two candidates, the first one that all items have is used.
const KEYS: [(&str, &[&str]); 17] = [
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    ("ports", &["containerPort", "port"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// Well-known lists of scalars that are sets.
const SETS: [&str; 1] = ["finalizers"];

/// Item comparisons per list at most.
const COMPARISONS_MAX: usize = 1_000_000;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Applies a patch. It must not be nested deeper than the limit.
///
/// # Errors
/// `Invalid` with the path of a malformed directive, or of an item without its key.
pub(super) fn apply(target: &mut Value, patch: &Value, schema: Option<&Schema>) -> Result<()> {
    let patch = patch.as_object().ok_or_else(|| Error::invalid("patch", "must be an object"))?;
    object(target, patch, schema, &mut PatchPath(Vec::new()))
}

/// A path inside the patch, for errors.
struct PatchPath<'p>(Vec<&'p str>);

impl PatchPath<'_> {
    fn refuse(&self, reason: &str) -> Error {
        Error::invalid(format!("patch.{}", self.0.join(".")), reason)
    }
}

fn object<'p>(
    target: &mut Value,
    patch: &'p Map<String, Value>,
    schema: Option<&Schema>,
    place: &mut PatchPath<'p>,
) -> Result<()> {
    match patch.get(PATCH).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            *target = without_directives(patch);
            return Ok(());
        }
        Some(Some("delete")) => {
            *target = Value::Null;
            return Ok(());
        }
        Some(_) => return Err(place.refuse("$patch: must be one of merge, replace, delete")),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return Ok(()) };
    if let Some(kept) = patch.get(RETAIN_KEYS) {
        let kept = kept.as_array().ok_or_else(|| place.refuse("$retainKeys: must be a list of names"))?;
        bounded(fields.len(), kept.len(), place)?;
        fields.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let schema = schema.and_then(|schema| schema.field(name));
        place.0.push(name);
        match value {
            Value::Null => drop(fields.remove(name)),
            Value::Object(inner) => {
                let target = fields.entry(name.clone()).or_insert(Value::Null);
                object(target, inner, schema, place)?;
                if target.is_null() {
                    fields.remove(name);
                }
            }
            Value::Array(items) => list(fields.entry(name.clone()).or_insert(Value::Null), name, items, schema, place)?,
            scalar => drop(fields.insert(name.clone(), scalar.clone())),
        }
        place.0.pop();
    }
    for (directive, value) in patch {
        if let Some(name) = directive.strip_prefix(DELETE_FROM_LIST) {
            let gone = value.as_array().ok_or_else(|| place.refuse("$deleteFromPrimitiveList: must be a list"))?;
            if let Some(items) = fields.get_mut(name).and_then(Value::as_array_mut) {
                bounded(items.len(), gone.len(), place)?;
                items.retain(|item| !gone.contains(item));
            }
        }
    }
    for (directive, order) in patch {
        if let Some(name) = directive.strip_prefix(ORDER) {
            let order = order.as_array().ok_or_else(|| place.refuse("$setElementOrder: must be a list"))?;
            if let Some(items) = fields.get_mut(name).and_then(Value::as_array_mut) {
                bounded(items.len(), order.len(), place)?;
                let keys = keys(name, schema.and_then(|schema| schema.field(name)), order, place)?;
                sort(items, order, &keys);
            }
        }
    }
    Ok(())
}

fn list<'p>(
    target: &mut Value,
    name: &str,
    patch: &'p [Value],
    schema: Option<&Schema>,
    place: &mut PatchPath<'p>,
) -> Result<()> {
    let replaces = patch.iter().any(is_replacing);
    bounded(target.as_array().map_or(0, Vec::len), patch.len(), place)?;
    let keys = keys(name, schema, patch, place)?;
    let is_set =
        SETS.contains(&name)
            || schema.is_some_and(|schema| {
                if schema.is_typed() { schema.merges() } else { *schema.list_type() == ListType::Set }
            });
    if keys.is_empty() && !is_set {
        // Such a list is replaced, directives or not.
        *target = Value::Array(patch.iter().map(without_directives_below).collect());
        return Ok(());
    }
    if replaces || !target.is_array() {
        let items = patch.iter().filter(|item| item.get(PATCH).is_none());
        *target = Value::Array(items.map(without_directives_below).collect());
        return Ok(());
    }
    let Some(items) = target.as_array_mut() else { return Ok(()) };
    if is_set {
        let new: Vec<Value> = patch.iter().filter(|item| !items.contains(item)).cloned().collect();
        items.extend(new);
        return Ok(());
    }
    let item_schema = schema.and_then(Schema::items);
    for item in patch {
        let fields = item.as_object().ok_or_else(|| place.refuse("an item must be an object"))?;
        if keys.iter().any(|key| !fields.contains_key(key)) {
            return Err(place.refuse(&format!("an item has no `{}`, its merge key", keys.join("`, `"))));
        }
        let at = items.iter().position(|known| same(known, item, &keys));
        let mut now = at.map_or(Value::Null, |at| items[at].take());
        object(&mut now, fields, item_schema, place)?;
        match (at, now.is_null()) {
            (Some(at), true) => drop(items.remove(at)),
            (Some(at), false) => items[at] = now,
            (None, true) => {}
            (None, false) => items.push(now),
        }
    }
    Ok(())
}

/// Returns the merge keys of a list; none if the list is replaced as a whole. A schema takes precedence over
/// the well-known lists; that of a built-in kind has merge keys of its own.
///
/// # Errors
/// `Invalid` when the list is well-known and its items have none of its keys.
fn keys(name: &str, schema: Option<&Schema>, items: &[Value], place: &PatchPath<'_>) -> Result<Vec<String>> {
    if let Some(schema) = schema.filter(|schema| schema.is_typed()) {
        return Ok(schema.merge_key().map(str::to_owned).into_iter().collect());
    }
    if let Some(schema) = schema {
        return Ok(if let ListType::Map(keys) = schema.list_type() { keys.clone() } else { Vec::new() });
    }
    let Some((_, candidates)) = KEYS.iter().find(|(list, _)| *list == name) else { return Ok(Vec::new()) };
    let items = || items.iter().filter(|item| !is_replacing(item));
    let fits = |key: &&&str| items().all(|item| item.get(**key).is_some());
    match candidates.iter().find(fits) {
        Some(key) => Ok(vec![(*key).to_owned()]),
        None => Err(place.refuse(&format!("an item has no `{}`, its merge key", candidates.join("` or `")))),
    }
}

/// Returns whether an item is only the directive to replace the list.
fn is_replacing(item: &Value) -> bool {
    item.as_object().is_some_and(|item| item.len() == 1 && item.get(PATCH).is_some_and(|what| what == "replace"))
}

/// Refuses a merge that would take too long: it compares every item of one list with every item of the other.
fn bounded(items: usize, others: usize, place: &PatchPath<'_>) -> Result<()> {
    if items.saturating_mul(others) > COMPARISONS_MAX {
        return Err(place.refuse(&format!("{items} and {others} items are too many to merge: replace the list")));
    }
    Ok(())
}

fn same(left: &Value, right: &Value, keys: &[String]) -> bool {
    keys.iter().all(|key| left.get(key).is_some() && left.get(key) == right.get(key))
}

/// Sorts the items by a list of keys or scalars. Items that it does not name come last, in their order.
fn sort(items: &mut [Value], order: &[Value], keys: &[String]) {
    let place = |item: &Value| {
        let named = |entry: &Value| if keys.is_empty() { entry == item } else { same(entry, item, keys) };
        order.iter().position(named).unwrap_or(order.len())
    };
    items.sort_by_cached_key(place);
}

fn without_directives(fields: &Map<String, Value>) -> Value {
    let fields = fields.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    Value::Object(fields.map(|(name, value)| (name.clone(), without_directives_below(value))).collect())
}

fn without_directives_below(value: &Value) -> Value {
    match value {
        Value::Object(fields) => without_directives(fields),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
