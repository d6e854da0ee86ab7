//! The reviews that a webhook answers, and the checks of its answers. Pure.
//!
//! Source: `webhook_converter.go` of `k8s.io/apiextensions-apiserver`, with its messages.

use serde::Serialize;
use serde_json::{Map, Value};

use super::API_VERSION;

const KIND: &str = "ConversionReview";

/// The metadata that a conversion may change.
const CHANGEABLE: [&str; 2] = ["labels", "annotations"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: Request<'a>,
}

#[derive(Serialize)]
struct Request<'a> {
    uid: &'a str,
    #[serde(rename = "desiredAPIVersion")]
    desired: &'a str,
    objects: &'a [&'a Value],
}

/// Returns the review that asks for these documents in the `apiVersion` `desired`.
pub(super) fn request(uid: &str, desired: &str, objects: &[&Value]) -> Vec<u8> {
    let review = Review { kind: KIND, api_version: API_VERSION, request: Request { uid, desired, objects } };
    serde_json::to_vec(&review).expect("documents have texts as keys, and memory takes them")
}

/// Returns converted documents in the order of the originals, with the metadata of the originals except for labels and
/// annotations.
///
/// # Errors
/// The fault of the answer, as the rest of a sentence about the webhook or the component.
pub(super) fn checked(documents: Vec<Value>, desired: &str, originals: &[&Value]) -> Result<Vec<Value>, String> {
    if documents.len() != originals.len() {
        return Err(format!("returned {} objects, expected {}", documents.len(), originals.len()));
    }
    let is_one = originals.len() == 1;
    let check = |(at, (document, original)): (usize, (Value, &&Value))| {
        check(document, original, desired).map_err(|problem| match (problem, is_one) {
            (Problem::Type(reason), true) => format!("returned invalid object at index 0: {reason}"),
            (Problem::Identity(reason), true) => format!("returned invalid object: {reason}"),
            (Problem::Metadata(reason), true) => format!("returned invalid metadata: {reason}"),
            (Problem::Metadata(reason), false) => {
                format!("returned invalid metadata in object at index {at}: {reason}")
            }
            (Problem::Type(reason) | Problem::Identity(reason), false) => {
                format!("returned invalid converted object at index {at}: {reason}")
            }
        })
    };
    documents.into_iter().zip(originals).enumerate().map(check).collect()
}

/// Returns the documents of a successful answer to this review.
///
/// # Errors
/// Why there are none, for a person.
pub(super) fn documents(answer: &[u8], uid: &str) -> Result<Vec<Value>, String> {
    let mut answer: Value =
        serde_json::from_slice(answer).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&answer, "apiVersion"), text(&answer, "kind"));
    if version != API_VERSION || kind != KIND {
        return Err(format!("expected webhook response of {API_VERSION}, Kind={KIND}, got {version}, Kind={kind}"));
    }
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let found = text(response, "uid");
    if found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let (status, message) = (text(&response["result"], "status"), text(&response["result"], "message"));
    if status != "Success" {
        let silent = format!("response.result.status was '{status}', not 'Success'");
        return Err(if message.is_empty() { silent } else { message });
    }
    match response["convertedObjects"].take() {
        Value::Array(documents) => Ok(documents),
        Value::Null => Ok(Vec::new()),
        other => Err(format!("response.convertedObjects is {}, not a list", type_name(&other))),
    }
}

/// What is wrong with one converted document.
enum Problem {
    Type(String),
    Identity(String),
    Metadata(String),
}

fn check(mut document: Value, original: &Value, desired: &str) -> Result<Value, Problem> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let same = |what: &str, expected: String, found: String| {
        let reason = format!("invalid {what} (expected {expected}, received {found})");
        if expected == found { Ok(()) } else { Err(Problem::Type(reason)) }
    };
    if !document.is_object() {
        return Err(Problem::Type(format!("invalid type, expected an object, got {}", type_name(&document))));
    }
    same("groupVersion", desired.to_owned(), text(&document, "apiVersion"))?;
    same("kind", text(original, "kind"), text(&document, "kind"))?;
    let metadata = match document.get_mut("metadata").map(Value::take) {
        Some(Value::Object(metadata)) => metadata,
        Some(other) => {
            let reason = format!("invalid metadata of type {} in converted object", type_name(&other));
            return Err(Problem::Metadata(reason));
        }
        None => return Err(Problem::Metadata("missing metadata in converted object".to_owned())),
    };
    let meta = |metadata: &Map<String, Value>, name: &str| {
        metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let before = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for (field, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (meta(&before, field), meta(&metadata, field));
        if expected != found {
            return Err(Problem::Identity(format!("must have the same {word}: {expected} != {found}")));
        }
    }
    document["metadata"] = Value::Object(restored(before, metadata).map_err(Problem::Metadata)?);
    homeostat_store::check_document(&document).map_err(|error| Problem::Metadata(error.to_string()))?;
    Ok(document)
}

/// Returns the metadata of the original with the labels and annotations of the converted document.
fn restored(mut original: Map<String, Value>, mut converted: Map<String, Value>) -> Result<Map<String, Value>, String> {
    for field in CHANGEABLE {
        original.remove(field);
        let entries = match converted.remove(field) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(entries)) => entries,
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in converted object", type_name(&other)));
            }
        };
        if let Some((name, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
            let found = type_name(value);
            return Err(format!("metadata.{field}[{name}] must be a string, but is {found} in converted object"));
        }
        if !entries.is_empty() {
            original.insert(field.to_owned(), entries.into());
        }
    }
    Ok(original)
}

/// Returns the type of a value, as Go calls it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests;
