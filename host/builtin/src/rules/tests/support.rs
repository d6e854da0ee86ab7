//! Documents with their defaults, and the causes of refusals, for the tests of the rules.

use serde_json::Value;

use crate::{find, rules};

/// Returns a document with its defaults.
pub(in crate::rules) fn defaulted(mut document: Value) -> Value {
    let text = |name: &str| document[name].as_str().expect("it names its kind").to_owned();
    let kind = homeostat_store::Kind::parse(&text("apiVersion"), &text("kind")).expect("it is a kind");
    let schema = crate::schema(&kind).expect("it is built in");
    schema.prune(&mut document);
    schema.set_defaults(&mut document).expect("the defaults are small");
    rules::of(find(&kind).expect("it is built in")).set_defaults(&mut document, None);
    schema.set_defaults(&mut document).expect("the defaults are small");
    document
}

/// Returns the violations of the schema and of the rules, as sorted paths and reasons.
pub(in crate::rules) fn causes(document: Value, old: Option<&Value>) -> Vec<String> {
    let document = defaulted(document);
    let text = |name: &str| document[name].as_str().expect("it names its kind");
    let kind = homeostat_store::Kind::parse(text("apiVersion"), text("kind")).expect("it is a kind");
    let by_schema = crate::schema(&kind).expect("it is built in").check(&document);
    let by_rules = rules::of(find(&kind).expect("it is built in")).check(&document, old, None);
    let all = by_schema.iter().chain(&by_rules);
    let mut causes: Vec<String> = all.map(|found| format!("{} {}", found.path, found.reason.cause())).collect();
    causes.sort();
    causes.dedup();
    causes
}

/// Checks the causes of documents, which differ from a valid one in the field at a pointer: null removes it.
pub(in crate::rules) fn check(valid: fn() -> Value, cases: &[(&str, Value, &[&str])]) {
    assert_eq!(causes(valid(), None), [""; 0]);
    for (pointer, value, wanted) in cases {
        let mut document = valid();
        set(&mut document, pointer, value.clone());
        assert_eq!(causes(document, None), *wanted, "{pointer}: {value}");
    }
}

pub(in crate::rules) fn set(document: &mut Value, pointer: &str, value: Value) {
    let (holder, name) = pointer.rsplit_once('/').expect("it is a pointer");
    match document.pointer_mut(holder).expect("the document has it") {
        Value::Array(items) => items[name.parse::<usize>().expect("it is an index")] = value,
        holder => holder[name] = value,
    }
}
