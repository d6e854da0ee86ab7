//! Short texts: an accepted kind, revision, name or value reads back as it was written, and is found by it.
//! Every text can be checked against every format.

use homeostat_store::schema::Schema;
use homeostat_store::{Kind, LabelRequirement, Query, Revision, Selector, Store, Write};
use serde_json::{Value, json};

use crate::target::{Acceptance, Outcome, must, same};
use crate::test_store;

const FORMATS: [&str; 14] = [
    "int32",
    "int64",
    "date",
    "date-time",
    "byte",
    "duration",
    "ipv4",
    "ipv6",
    "uuid",
    "email",
    "hostname",
    "uri",
    "password",
    "quantity",
];

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let text = text.trim_end_matches('\n');
    let mut held = Acceptance::Rejected;
    if let Ok(revision) = text.parse::<Revision>() {
        same("a revision has one spelling", &revision.to_string(), &text.to_owned())?;
        held = Acceptance::Accepted;
    }
    if let Ok(kind) = Kind::parse(text, "Widget") {
        same("a version has one spelling", &kind.api_version(), &text.to_owned())?;
        held = Acceptance::Accepted;
    }
    for format in FORMATS {
        let number = serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
        let values = [Some(("string", json!(text))), number.map(|number| ("number", number))];
        for (value_type, value) in values.into_iter().flatten() {
            let schema = json!({"type": "object", "properties": {"spec": {"type": value_type, "format": format}}});
            let schema = Schema::parse(&schema).map_err(|error| format!("{format}: {error}"))?;
            must("one field is wrong once", schema.check(&test_store::widget("a", value)).len() <= 1)?;
        }
    }
    for (field, prefix) in [
        ("name", ""),
        ("namespace", ""),
        ("generateName", ""),
        ("labels", "l"),
        ("annotations", "a"),
        ("finalizers", "f"),
    ] {
        if stored(field, prefix, text)? {
            held = Acceptance::Accepted;
        }
    }
    Ok(held)
}

/// Creates a document with the text in a metadata field, and checks that it is found. Returns whether it was
/// accepted.
fn stored(field: &str, value: &str, text: &str) -> Result<bool, String> {
    let mut document = test_store::widget("a", json!({}));
    let metadata = &mut document["metadata"];
    match field {
        "labels" | "annotations" => metadata[field] = json!({text: value, "v": text}),
        "finalizers" => metadata[field] = json!([text]),
        "generateName" => {
            metadata["name"] = json!("");
            metadata[field] = json!(text);
        }
        _ => metadata[field] = json!(text),
    }
    let store = test_store::store();
    let Ok(created) = test_store::submit(&store, Write::Create { document }, false) else { return Ok(false) };
    let found = test_store::wait(store.get(created.resource.key())).map_err(|error| format!("{field}: {error}"))?;
    same("a created resource is found", &found, &created.resource)?;
    let labels: Vec<_> =
        found.labels().map(|(name, value)| LabelRequirement::Equals(name.to_owned(), value.to_owned())).collect();
    let text = labels.iter().map(LabelRequirement::to_string).collect::<Vec<_>>().join(",");
    let read = Selector::parse_labels(&text).map_err(|error| format!("labels that were taken, {text}: {error}"))?;
    same("labels that were taken can be asked for", &read, &labels)?;
    let selector = Selector { labels: read, ..Selector::default() };
    let page = test_store::wait(store.list(&Query { selector, ..Query::all(created.resource.key().kind().clone()) }));
    must("labels that were taken are found", page.is_ok_and(|page| page.items == [found]))?;
    Ok(true)
}
