//! Strategic merge patches: merge patches that merge lists, as Kubernetes clients send them for built-in
//! kinds.
//!
//! A list with a merge key is merged item by item; any other list is replaced. The schema of the kind defines
//! the merge key; for the lists of built-in kinds, [`KEYS`] does. The directives are `$patch`, `$retainKeys`,
//! `$deleteFromPrimitiveList/…` and `$setElementOrder/…`.
//!
//! Source: Kubernetes' "strategic merge patch" (sig-api-machinery), the patch annotations of its types, and for the
//! order of merged items `apimachinery/pkg/util/strategicpatch`.

use std::collections::{HashMap, HashSet};

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

const MIXED: &str = "the items of such a list must have one type";

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Applies a patch. It must not be nested deeper than the limit. The time is proportional to both documents.
///
/// # Errors
/// `MalformedPatch` for a malformed directive. `Invalid` with the path of an item without its key, or of a list whose
/// items cannot be merged.
pub(super) fn apply(target: &mut Value, patch: &Value, schema: Option<&Schema>) -> Result<()> {
    let patch = patch.as_object().ok_or_else(|| Error::invalid("patch", "must be an object"))?;
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return Ok(()) };
    let is_typed = schema.is_some_and(Schema::is_typed);
    merge_objects(fields, patch, schema, &mut PatchPath { parents: Vec::new(), is_typed })
}

/// A path inside the patch, for errors.
struct PatchPath<'p> {
    parents: Vec<&'p str>,
    /// Whether the kind is built in. The nulls of such a patch are read as Go reads them: later.
    is_typed: bool,
}

impl PatchPath<'_> {
    fn refuse(&self, reason: &str) -> Error {
        Error::invalid(format!("patch.{}", self.parents.join(".")), reason)
    }

    fn malformed(&self, directive: &str, reason: &str) -> Error {
        let parents = self.parents.iter().map(|parent| format!("{parent}.")).collect::<String>();
        Error::MalformedPatch { reason: format!("{parents}{directive}: {reason}") }
    }

    /// Returns fields as they take the place of others. Those of a built-in kind keep the directives of their values, which
    /// are unknown fields then.
    fn replacing_fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        if self.is_typed {
            let mut fields = fields.clone();
            fields.remove(PATCH);
            return fields;
        }
        let fields = fields.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
        fields.map(|(name, value)| (name.clone(), self.replacing_value(value))).collect()
    }

    /// Returns a value as it takes the place of another one.
    fn replacing_value(&self, value: &Value) -> Value {
        match value {
            _ if self.is_typed => value.clone(),
            Value::Object(fields) => self.replacing_fields(fields).into(),
            Value::Array(items) => items.iter().map(|item| self.replacing_value(item)).collect(),
            scalar => scalar.clone(),
        }
    }

    /// Returns a value of the patch that has no counterpart in the document; `None` if it has a directive `$patch`. Other
    /// directives become unknown fields of a built-in kind.
    fn added(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Object(fields) if fields.contains_key(PATCH) => None,
            Value::Object(fields) => {
                let is_kept = |name: &str, value: &Value| (self.is_typed || !name.starts_with('$')) && !value.is_null();
                let fields = fields.iter().filter(|(name, value)| is_kept(name, value));
                Some(Value::Object(
                    fields.filter_map(|(name, value)| Some((name.clone(), self.added(value)?))).collect(),
                ))
            }
            Value::Array(items) => Some(items.iter().filter_map(|item| self.added(item)).collect()),
            scalar => Some(scalar.clone()),
        }
    }
}

fn merge_objects<'p>(
    fields: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
    schema: Option<&Schema>,
    place: &mut PatchPath<'p>,
) -> Result<()> {
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            *fields = place.replacing_fields(patch);
            return Ok(());
        }
        Some(Some("delete")) => {
            fields.clear();
            return Ok(());
        }
        Some(_) => return Err(place.refuse("$patch: must be `replace` or `delete`")),
    }
    retain_keys(fields, patch, place)?;
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let schema = schema.and_then(|schema| schema.field(name));
        place.parents.push(name);
        match (fields.get_mut(name), value) {
            // The order of its items was asked for: below.
            _ if patch.contains_key(&format!("{ORDER}{name}")) => {}
            (_, Value::Null) => drop(fields.remove(name)),
            (Some(Value::Object(known)), Value::Object(inner)) => merge_objects(known, inner, schema, place)?,
            (Some(Value::Array(known)), Value::Array(items)) => {
                let strategy = ListStrategy::of(name, schema, items, place)?;
                *known = strategy.merge(std::mem::take(known), items, schema, place)?;
            }
            _ => match place.added(value) {
                Some(value) => drop(fields.insert(name.clone(), value)),
                None => drop(fields.remove(name)),
            },
        }
        place.parents.pop();
    }
    for (directive, order) in patch {
        if let Some(name) = directive.strip_prefix(ORDER) {
            let schema = schema.and_then(|schema| schema.field(name));
            place.parents.push(name);
            merge_ordered(fields, name, patch.get(name), order, schema, place)?;
            place.parents.pop();
        }
    }
    for (directive, items) in patch {
        if let Some(name) = directive.strip_prefix(DELETE_FROM_LIST) {
            let items = items.as_array().ok_or_else(|| place.malformed(directive, "must be a list"))?;
            let deleted: HashSet<String> = items.iter().map(Value::to_string).collect();
            if let Some(items) = fields.get_mut(name).and_then(Value::as_array_mut) {
                items.retain(|item| !deleted.contains(&item.to_string()));
            }
        }
    }
    Ok(())
}

/// Removes the fields that `$retainKeys` does not name.
fn retain_keys(fields: &mut Map<String, Value>, patch: &Map<String, Value>, place: &PatchPath<'_>) -> Result<()> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || place.malformed(RETAIN_KEYS, "must be a list of all fields that the patch sets");
    let retained = retained.as_array().ok_or_else(malformed)?;
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let sets = |name: &str, value: &Value| {
        !value.is_null() && name != RETAIN_KEYS && !name.starts_with(DELETE_FROM_LIST) && !name.starts_with(ORDER)
    };
    if patch.iter().any(|(name, value)| sets(name, value) && !retained.contains(name.as_str())) {
        return Err(malformed());
    }
    fields.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// Merges a list, and brings it into the order that `$setElementOrder` asks for.
fn merge_ordered<'p>(
    fields: &mut Map<String, Value>,
    name: &str,
    patch: Option<&'p Value>,
    order: &'p Value,
    schema: Option<&Schema>,
    place: &mut PatchPath<'p>,
) -> Result<()> {
    let as_list = |value: &'p Value| value.as_array().ok_or(()).map(Vec::as_slice);
    let order = as_list(order).map_err(|()| place.refuse("$setElementOrder: must be a list"))?;
    let patch = patch.map(as_list).transpose().map_err(|()| place.refuse("must be a list, as its order is set"))?;
    let known = match fields.get_mut(name) {
        None => None,
        Some(Value::Array(known)) => Some(std::mem::take(known)),
        Some(_) => return Err(place.refuse("is no list, and its order is set")),
    };
    if !are_alike(known.iter().flatten().chain(patch.into_iter().flatten())) {
        return Err(place.refuse(MIXED));
    }
    let strategy = ListStrategy::of(name, schema, order, place)?;
    let order = order.iter().map(|item| strategy.key_of(item, place)).collect::<Result<Vec<_>>>()?;
    check_order(&strategy, patch.unwrap_or_default(), &order, place)?;
    let before = strategy.found_keys(known.as_deref().unwrap_or_default());
    let merged = match (known, patch) {
        (None, None) => return Ok(()),
        (Some(known), None) => known,
        (None, Some(patch)) => patch.iter().filter_map(|item| place.added(item)).collect(),
        (Some(known), Some(patch)) => strategy.merge(known, patch, schema, place)?,
    };
    let keys = strategy.found_keys(&merged);
    fields.insert(name.to_owned(), arrange(keys.into_iter().zip(merged), &order, &before).into());
    Ok(())
}

/// Refuses a patch whose items are not in the order that it asks for.
fn check_order(strategy: &ListStrategy, patch: &[Value], order: &[String], place: &PatchPath<'_>) -> Result<()> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let key = strategy.key_of(item, place)?;
        if !rest.any(|ordered| *ordered == key) {
            return Err(place.refuse("the order of the items is not that of $setElementOrder"));
        }
    }
    Ok(())
}

/// How a list of a patch changes a list.
#[derive(Debug, PartialEq, Eq)]
enum ListStrategy {
    /// The list of the patch takes its place.
    Replace,
    /// Values that the list lacks are added.
    MergeValues,
    /// Items with the same values of these fields are merged.
    MergeItems(Vec<String>),
}

impl ListStrategy {
    /// Returns the strategy of a list. A schema takes precedence over the well-known lists; that of a built-in kind has
    /// merge keys of its own. The items are of the patch.
    ///
    /// # Errors
    /// `Invalid` when the list is well-known and its items have none of its keys.
    fn of(name: &str, schema: Option<&Schema>, items: &[Value], place: &PatchPath<'_>) -> Result<Self> {
        let keys = match schema {
            Some(schema) if schema.is_typed() => schema.merge_key().map(str::to_owned).into_iter().collect(),
            Some(schema) => {
                if let ListType::Map(keys) = schema.list_type() {
                    keys.clone()
                } else {
                    Vec::new()
                }
            }
            None => well_known_keys(name, items, place)?,
        };
        let is_set = match schema {
            Some(schema) if schema.is_typed() => schema.merges(),
            Some(schema) => *schema.list_type() == ListType::Set,
            None => SETS.contains(&name),
        };
        Ok(match (keys.is_empty(), is_set) {
            (false, _) => Self::MergeItems(keys),
            (true, true) => Self::MergeValues,
            (true, false) => Self::Replace,
        })
    }

    /// Returns the text by which an item is found in its list; `None` if the item lacks a key.
    fn find_key(&self, item: &Value) -> Option<String> {
        let Self::MergeItems(keys) = self else { return Some(item.to_string()) };
        let values: Option<Vec<&Value>> = keys.iter().map(|key| item.get(key)).collect();
        Some(values?.iter().map(|value| format!("{value},")).collect())
    }

    /// As [`ListStrategy::find_key`].
    ///
    /// # Errors
    /// `Invalid` for an item without it.
    fn key_of(&self, item: &Value, place: &PatchPath<'_>) -> Result<String> {
        self.find_key(item).ok_or_else(|| match self {
            Self::MergeItems(keys) if item.is_object() => {
                place.refuse(&format!("an item has no `{}`, its merge key", keys.join("`, `")))
            }
            _ => place.refuse("an item must be an object"),
        })
    }

    /// Returns the keys of all items. An item without one has an empty key, as which no other is found.
    fn found_keys(&self, items: &[Value]) -> Vec<String> {
        items.iter().map(|item| self.find_key(item).unwrap_or_default()).collect()
    }

    fn merge<'p>(
        &self,
        known: Vec<Value>,
        patch: &'p [Value],
        schema: Option<&Schema>,
        place: &mut PatchPath<'p>,
    ) -> Result<Vec<Value>> {
        match self {
            Self::Replace => Ok(patch.iter().map(|item| place.replacing_value(item)).collect()),
            Self::MergeValues if patch.iter().any(|item| item.is_object() || item.is_array()) => {
                Err(place.refuse("the items of such a list must be scalars"))
            }
            Self::MergeValues if !are_alike(known.iter().chain(patch)) => Err(place.refuse(MIXED)),
            Self::MergeValues => {
                let (before, order) = (self.found_keys(&known), self.found_keys(patch));
                let mut merged = Vec::new();
                let mut seen = HashSet::new();
                let items = known.into_iter().chain(patch.iter().cloned());
                for (key, item) in before.iter().chain(&order).cloned().zip(items) {
                    if seen.insert(key.clone()) {
                        merged.push((key, item));
                    }
                }
                Ok(arrange(merged, &order, &before))
            }
            Self::MergeItems(_) => self.merge_items(known, patch, schema, place),
        }
    }

    fn merge_items<'p>(
        &self,
        mut known: Vec<Value>,
        patch: &'p [Value],
        schema: Option<&Schema>,
        place: &mut PatchPath<'p>,
    ) -> Result<Vec<Value>> {
        let (mut merged_items, mut deleted, mut replaces) = (Vec::new(), HashSet::new(), false);
        for item in patch {
            let fields = item.as_object().ok_or_else(|| place.refuse("an item must be an object"))?;
            match fields.get(PATCH).map(Value::as_str) {
                None => merged_items.push((self.key_of(item, place)?, fields)),
                Some(Some("delete")) => drop(deleted.insert(self.key_of(item, place)?)),
                Some(Some("replace")) => replaces = true,
                Some(_) => return Err(place.refuse("$patch: of an item must be `replace` or `delete`")),
            }
        }
        if replaces {
            let items = merged_items.into_iter().map(|(_, fields)| place.replacing_fields(fields).into());
            return Ok(items.collect());
        }
        known.retain(|item| self.find_key(item).is_none_or(|key| !deleted.contains(&key)));
        let before = self.found_keys(&known);
        let order: Vec<String> = merged_items.iter().map(|(key, _)| key.clone()).collect();
        let mut positions = first_positions(&before);
        let mut keys = before.clone();
        for (key, fields) in &merged_items {
            let position = positions.get(key.as_str()).copied();
            if let Some(item) = position.and_then(|position| known[position].as_object_mut()) {
                merge_objects(item, fields, schema.and_then(Schema::items), place)?;
            } else {
                positions.insert(key, known.len());
                known.push(place.replacing_fields(fields).into());
                keys.push(key.clone());
            }
        }
        Ok(arrange(keys.into_iter().zip(known), &order, &before))
    }
}

/// Returns whether all values have the same type.
fn are_alike<'v>(mut values: impl Iterator<Item = &'v Value>) -> bool {
    let first = values.next().map(std::mem::discriminant);
    values.all(|value| Some(std::mem::discriminant(value)) == first)
}

/// Returns the merge key of a list without a schema; none if it is not well-known.
fn well_known_keys(name: &str, items: &[Value], place: &PatchPath<'_>) -> Result<Vec<String>> {
    let Some((_, candidates)) = KEYS.iter().find(|(list, _)| *list == name) else { return Ok(Vec::new()) };
    let items = || items.iter().filter(|item| item.get(PATCH).is_none_or(|directive| directive != "replace"));
    let fits = |key: &&&str| items().all(|item| item.get(**key).is_some());
    match candidates.iter().find(fits) {
        Some(key) => Ok(vec![(*key).to_owned()]),
        None => Err(place.refuse(&format!("an item has no `{}`, its merge key", candidates.join("` or `")))),
    }
}

/// Returns the first position of each key.
fn first_positions(keys: &[String]) -> HashMap<&str, usize> {
    keys.iter().enumerate().rev().map(|(position, key)| (key.as_str(), position)).collect()
}

/// Returns items in the order of Kubernetes. The items of `order` are in that order, and all others in the order
/// `before` the patch. An item of the first list comes before one of the second, unless `before` has both and the second
/// first.
fn arrange(items: impl IntoIterator<Item = (String, Value)>, order: &[String], before: &[String]) -> Vec<Value> {
    let (order, before) = (first_positions(order), first_positions(before));
    let position = |key: &str| before.get(key).copied();
    let (mut patched, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|(key, _)| order.contains_key(key.as_str()));
    patched.sort_by_key(|(key, _)| order.get(key.as_str()).copied());
    others.sort_by_key(|(key, _)| position(key).unwrap_or(usize::MAX));
    let mut others = others.into_iter().peekable();
    let mut arranged = Vec::new();
    for (key, item) in patched {
        let is_earlier = |other: &(String, Value)| {
            position(&other.0).zip(position(&key)).is_some_and(|(other, patched)| other < patched)
        };
        while let Some((_, other)) = others.next_if(is_earlier) {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, other)| other));
    arranged
}

#[cfg(test)]
mod tests;
