//! Mutations of JSON that keep it JSON.

use homeostat_testing::Dice;
use serde_json::{Map, Value, json};

use super::bytes;
use crate::corpus::Corpus;

/// Maximum levels of nesting that are added: more than a store and the parser accept.
const LEVELS_MAX: usize = 140;
/// Minimum levels of a deep nesting.
const MANY_LEVELS_MIN: usize = 90;
/// Maximum repetitions of an item.
const REPEATS_MAX: usize = 200;
/// Maximum bytes of JSON text that one mutation adds.
const ADDED_BYTES_MAX: usize = 32 << 10;

/// Makes one mutation, somewhere in a value.
pub(super) fn change(value: &mut Value, corpus: &Corpus, dice: &mut Dice) {
    let at = dice.index(count(value));
    let other = part(value, &mut dice.index(count(value))).cloned().unwrap_or_default();
    let Some(place) = part_mut(value, &mut { at }) else { return };
    match dice.index(8) {
        0 => *place = scalar(corpus, dice),
        // A value from another place has another type, or is a duplicate.
        1 => *place = other,
        2 => *place = foreign(corpus, dice).unwrap_or(other),
        3 => nest(place, dice),
        _ => match place {
            Value::Array(items) => change_items(items, other, corpus, dice),
            Value::Object(fields) => change_fields(fields, other, corpus, dice),
            Value::String(text) => {
                let mut changed = std::mem::take(text).into_bytes();
                bytes::change(&mut changed, corpus, dice);
                *text = String::from_utf8_lossy(&changed).into_owned();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => *place = scalar(corpus, dice),
        },
    }
}

fn change_items(items: &mut Vec<Value>, other: Value, corpus: &Corpus, dice: &mut Dice) {
    let at = dice.index(items.len());
    match dice.index(4) {
        0 if !items.is_empty() => drop(items.remove(at)),
        1 if !items.is_empty() => {
            let item = items[at].clone();
            let most = (ADDED_BYTES_MAX / item.to_string().len()).min(REPEATS_MAX);
            items.extend(std::iter::repeat_n(item, dice.index(most + 1)));
        }
        2 => items.push(scalar(corpus, dice)),
        _ => items.insert(at, other),
    }
}

fn change_fields(fields: &mut Map<String, Value>, other: Value, corpus: &Corpus, dice: &mut Dice) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = dice.one(&names).cloned().unwrap_or_default();
    match dice.index(4) {
        0 => drop(fields.remove(&name)),
        1 => {
            let value = fields.remove(&name).unwrap_or_default();
            fields.insert(word(corpus, dice), value);
        }
        2 => drop(fields.insert(word(corpus, dice), scalar(corpus, dice))),
        _ => drop(fields.insert(word(corpus, dice), other)),
    }
}

fn nest(value: &mut Value, dice: &mut Dice) {
    let mut nested = std::mem::take(value);
    let is_list = dice.percent(50);
    // A few levels, or about as many as a store accepts.
    let levels =
        if dice.percent(50) { dice.index(8) } else { MANY_LEVELS_MIN + dice.index(LEVELS_MAX - MANY_LEVELS_MIN) };
    for _ in 0..levels {
        nested = if is_list { json!([nested]) } else { json!({"a": nested}) };
    }
    *value = nested;
}

fn word(corpus: &Corpus, dice: &mut Dice) -> String {
    let word = dice.one(&corpus.words).filter(|_| dice.clone().percent(70)).cloned();
    word.unwrap_or_else(|| bytes::token(dice).to_owned())
}

fn scalar(corpus: &Corpus, dice: &mut Dice) -> Value {
    match dice.index(14) {
        0 => Value::Null,
        1 => json!(dice.percent(50)),
        2 => json!({}),
        3 => json!([]),
        4 => json!(dice.number()),
        5 => json!(-1_i64 << dice.index(64)),
        6 => json!(u64::MAX),
        7 => json!(f64::from_bits(dice.number())),
        8 => json!(1e300),
        9 => json!(dice.index(4)),
        10 => json!("a".repeat(dice.index(2000))),
        11 => json!(bytes::token(dice).repeat(1 + dice.index(70))),
        _ => json!(word(corpus, dice)),
    }
}

/// Returns a part of another input.
fn foreign(corpus: &Corpus, dice: &mut Dice) -> Option<Value> {
    let value: Value = serde_json::from_slice(dice.one(&corpus.inputs)?).ok()?;
    part(&value, &mut dice.index(count(&value))).cloned()
}

/// Returns the number of values, nested ones included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Returns the value at index `at`, in depth-first order.
fn part<'a>(value: &'a Value, at: &mut usize) -> Option<&'a Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter().find_map(|item| part(item, at)),
        Value::Object(fields) => fields.values().find_map(|field| part(field, at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Like [`part`].
fn part_mut<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| part_mut(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|field| part_mut(field, at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
