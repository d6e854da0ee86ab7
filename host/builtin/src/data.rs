//! The published definitions, inflated on first use.

use std::collections::HashMap;
use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec;
use serde_json::Value;

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/definitions.deflate"));

/// The JSON texts of all definitions, by name. They are parsed one by one, where they are needed.
fn texts() -> &'static HashMap<&'static str, &'static str> {
    static TEXTS: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    static INFLATED: OnceLock<String> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let inflated = INFLATED.get_or_init(|| {
            let bytes = decompress_to_vec(COMPRESSED).expect("the build has compressed it");
            String::from_utf8(bytes).expect("JSON is UTF-8")
        });
        inflated.lines().filter_map(|line| line.split_once('\t')).collect()
    })
}

/// Returns the definition of this name; `None` for an unknown one.
pub(crate) fn definition(name: &str) -> Option<Value> {
    let text = texts().get(name)?;
    Some(serde_json::from_str(text).expect("the data is JSON"))
}
