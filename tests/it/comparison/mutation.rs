//! A small change somewhere in a document.

use homeostat_testing::Dice;
use serde_json::{Value, json};

/// A step from a value to one inside it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

/// Returns the ways to all values inside of a document, except its kind.
pub(crate) fn ways(document: &Value) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    find(document, &[], &mut found);
    found
}

fn find(value: &Value, way: &[Step], found: &mut Vec<Vec<Step>>) {
    let mut add = |step: Step, inner: &Value| {
        let mut longer = way.to_vec();
        longer.push(step);
        found.push(longer.clone());
        find(inner, &longer, found);
    };
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if !way.is_empty() || !matches!(name.as_str(), "apiVersion" | "kind") {
                    add(Step::Field(name.clone()), inner);
                }
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(at, inner)| add(Step::Item(at), inner)),
        _ => {}
    }
}

/// A value that is removed, replaced or repeated, or an unknown field beside it.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    way: Vec<Step>,
    /// 0 to 99.
    operation: u64,
    value: Value,
}

impl Mutation {
    /// Draws a mutation of a document; `None` for an empty one.
    pub(crate) fn draw(document: &Value, dice: &mut Dice) -> Option<Self> {
        let values = [
            json!(-1),
            json!(0),
            json!(1),
            json!(100_000),
            json!(""),
            json!("UPPER_x"),
            json!("a".repeat(300)),
            json!("b"),
            Value::Null,
            json!([]),
            json!({}),
            json!(true),
            json!(false),
            json!(1.5),
            json!("10"),
            json!("500m"),
            json!(["x"]),
            json!({ "x": "y" }),
        ];
        let way = dice.one(&ways(document))?.clone();
        let value = dice.one(&values).cloned()?;
        Some(Self { way, operation: dice.below(100), value })
    }

    /// Changes a document this many times.
    pub(crate) fn mutate(document: &mut Value, times: u64, dice: &mut Dice) {
        for _ in 0..times {
            if let Some(mutation) = Self::draw(document, dice) {
                mutation.apply(document);
            }
        }
    }

    /// Returns the mutation that removes the value at the end of a way.
    pub(crate) fn removal(way: Vec<Step>) -> Self {
        Self { way, operation: 0, value: Value::Null }
    }

    /// Performs the mutation, where its way exists.
    pub(crate) fn apply(&self, document: &mut Value) {
        let Some((last, way)) = self.way.split_last() else { return };
        let mut place = document;
        for step in way {
            let inner = match step {
                Step::Field(name) => place.get_mut(name),
                Step::Item(at) => place.get_mut(*at),
            };
            let Some(inner) = inner else { return };
            place = inner;
        }
        let (operation, value) = (self.operation, self.value.clone());
        match (place, last) {
            (Value::Object(fields), Step::Field(name)) if operation < 35 => drop(fields.remove(name)),
            (Value::Array(items), Step::Item(at)) if operation < 35 && *at < items.len() => drop(items.remove(*at)),
            (Value::Object(fields), Step::Field(name)) if operation < 85 => drop(fields.insert(name.clone(), value)),
            (Value::Array(items), Step::Item(at)) if operation < 85 && *at < items.len() => items[*at] = value,
            (Value::Array(items), Step::Item(at)) if *at < items.len() => items.push(items[*at].clone()),
            (Value::Object(fields), Step::Field(_)) => drop(fields.insert("unknownField".to_owned(), json!(1))),
            _ => {}
        }
    }

    /// Returns the operations of a JSON patch that are like this mutation.
    pub(crate) fn operations(&self, document: &Value, dice: &mut Dice) -> Vec<Value> {
        let (path, value) = (pointer(&self.way), &self.value);
        let mut operations = Vec::new();
        if dice.below(5) == 0 {
            let now = document.pointer(&path).cloned().unwrap_or_default();
            operations
                .push(json!({ "op": "test", "path": path, "value": if dice.below(2) == 0 { &now } else { value } }));
        }
        operations.push(match self.operation {
            0..35 => json!({ "op": "remove", "path": path }),
            35..60 => json!({ "op": "replace", "path": path, "value": value }),
            60..85 => json!({ "op": "add", "path": path, "value": value }),
            85..92 => {
                let to = dice.one(&ways(document)).map(|way| pointer(way)).unwrap_or_default();
                json!({ "op": if dice.below(2) == 0 { "copy" } else { "move" }, "from": path, "path": to })
            }
            _ => json!({ "op": "replace", "path": format!("{path}/nope"), "value": value }),
        });
        operations
    }
}

/// Returns a way as a JSON pointer.
fn pointer(way: &[Step]) -> String {
    let part = |step: &Step| match step {
        Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        Step::Item(at) => format!("/{at}"),
    };
    way.iter().map(part).collect()
}
