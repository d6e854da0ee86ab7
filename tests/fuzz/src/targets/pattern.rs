//! A pattern matches the same texts inside a group, and in an alternative of two.
//!
//! The first line of an input is the pattern, and the rest is the text.

use homeostat_store::schema::Schema;
use serde_json::json;

use crate::target::{Acceptance, Outcome, same};
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let input = String::from_utf8_lossy(input);
    let (pattern, text) = input.split_once('\n').unwrap_or((&input, ""));
    let Ok(schema) = of(pattern) else { return Ok(Acceptance::Rejected) };
    let found = is_in(&schema, text);
    same("a pattern says the same twice", &is_in(&schema, text), &found)?;
    if let Ok(group) = of(&format!("(?:{pattern})")) {
        same("a pattern says the same in a group", &is_in(&group, text), &found)?;
    }
    if let Ok(either) = of(&format!("{pattern}|{pattern}")) {
        same("a pattern says the same as one of two", &is_in(&either, text), &found)?;
    }
    Ok(Acceptance::Accepted)
}

fn of(pattern: &str) -> Result<Schema, homeostat_store::Error> {
    Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "string", "pattern": pattern}}}))
}

fn is_in(schema: &Schema, text: &str) -> bool {
    schema.check(&test_store::widget("a", json!(text))).is_empty()
}
