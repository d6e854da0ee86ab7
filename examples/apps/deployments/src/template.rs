//! Pod templates: their comparison, and their hash.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The label with the hash, carried by a ReplicaSet, its selector and its pods.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Letters and digits that cannot form words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH: usize = 10;

/// Returns the template without fields that are `null`, which have no meaning.
pub(crate) fn canonical(template: &Value) -> Value {
    match template {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), canonical(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

/// Returns whether the template of a ReplicaSet equals that of the Deployment, apart from the label that the
/// controller adds.
pub(crate) fn same(of_set: &Value, of_deployment: &Value) -> bool {
    let mut of_set = canonical(of_set);
    if let Some(labels) = of_set.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    of_set == canonical(of_deployment)
}

/// Returns the template with the hash label.
pub(crate) fn labelled(template: &Value, hash: &str) -> Value {
    let mut template = canonical(template);
    if let Value::Object(fields) = &mut template {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(labels) = labels {
                labels.insert(HASH_LABEL.to_owned(), hash.into());
            }
        }
    }
    template
}

/// Returns the labels of the pods.
pub(crate) fn labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

/// Returns a hash of ten letters that depends on the template and the number of collisions.
pub(crate) fn hash(template: &Value, collisions: u32) -> String {
    let mut hash = Fnv::new();
    hash.value(&canonical(template));
    hash.bytes(&collisions.to_le_bytes());
    let mut rest = hash.0;
    let mut word = String::with_capacity(HASH_LENGTH);
    for _ in 0..HASH_LENGTH {
        word.push(char::from(ALPHABET[(rest % 27) as usize]));
        rest /= 27;
    }
    word
}

/// 64-bit FNV-1a over a document with its fields sorted by name. Source: the constants of RFC 9923.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.bytes(b"{");
                for (name, value) in fields.iter().collect::<BTreeMap<_, _>>() {
                    self.text(name);
                    self.value(value);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            Value::String(text) => self.text(text),
            other => self.text(&other.to_string()),
        }
    }

    /// Hashes the length first, so that different sequences of texts have different inputs.
    fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
