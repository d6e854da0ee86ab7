//! Pod templates: when two are the same, and the short word that tells them apart.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The label that a ReplicaSet, its selector and its pods carry.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Letters and digits that form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH: usize = 10;

/// The same template without fields that are `null`, which say nothing.
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

/// Whether the template of a ReplicaSet is that of the Deployment, apart from the label that the controller adds.
pub(crate) fn same(of_set: &Value, of_deployment: &Value) -> bool {
    let mut of_set = canonical(of_set);
    if let Some(labels) = of_set.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    of_set == canonical(of_deployment)
}

/// The template with the label that tells its pods apart.
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

/// The labels of the pods.
pub(crate) fn labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

/// A word of ten letters that differs for different templates, and for each collision.
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

/// FNV-1a with 64 bits, over a document with its fields in order of their names. Source: the constants of RFC 9923.
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

    /// With its length in front, so that no two rows of texts are alike.
    fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
