//! The sizes of effects and answers, as the limit `effect-bytes` counts them.
//!
//! Texts and documents count with their length, numbers and field names with a flat charge: accurate enough
//! to bound memory, and cheap enough for every call.

use homeostat_store::{Key, Selector, Write};
use serde_json::Value;

use super::{Answer, Blob, Effect, HttpRequest, PageData, ResourceData, WasiResource};

/// A charge for every item, so that nothing is free.
const FLAT_BYTES: usize = 32;

impl Effect {
    /// Returns the approximate size in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Get { key, .. } | Self::Follow { target: key } | Self::Enqueue { key, .. } => of_key(key),
            Self::List { query, .. } => of_selector(&query.selector) + query.from.as_ref().map_or(0, String::len),
            Self::FollowAll { selector, .. } => of_selector(selector),
            Self::Write(write) => of_write(write),
            Self::Emit { reason, message, .. } => reason.len() + message.len(),
            Self::Log { message, fields, .. } => message.len() + of_pairs(fields),
            Self::Config { key } => key.as_ref().map_or(0, String::len),
            Self::Http(HttpRequest { method, url, headers, body, .. }) => {
                method.len() + url.len() + of_headers(headers) + body.len()
            }
            Self::Reach(WasiResource::File(text) | WasiResource::Address(text) | WasiResource::Name(text)) => {
                text.len()
            }
            Self::WallClock | Self::MonotonicClock | Self::Random { .. } => 0,
        };
        (bytes + FLAT_BYTES) as u64
    }
}

impl Answer {
    /// Returns the approximate size in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Resource(Ok(resource)) => of_resource(resource),
            Self::Written(Ok(written)) => of_resource(&written.resource),
            Self::Page(Ok(PageData { items, .. })) => items.iter().map(|item| of_resource(item) + FLAT_BYTES).sum(),
            Self::Config(pairs) => of_pairs(pairs),
            Self::Http(Ok(response)) => of_headers(&response.headers) + response.body.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Resource(Err(_)) | Self::Written(Err(_)) | Self::Page(Err(_)) | Self::Http(Err(_)) => 0,
            Self::Done(_) | Self::Nanoseconds(_) | Self::Unit | Self::Limit { .. } => 0,
        };
        (bytes + FLAT_BYTES) as u64
    }
}

fn of_resource(resource: &ResourceData) -> usize {
    of_key(&resource.key) + resource.uid.len() + resource.revision.len() + resource.json.len()
}

fn of_key(key: &Key) -> usize {
    key.namespace().len() + key.name().len()
}

fn of_pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| name.len() + value.len() + FLAT_BYTES).sum()
}

fn of_headers(headers: &[(String, Blob)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len() + FLAT_BYTES).sum()
}

fn of_selector(selector: &Selector) -> usize {
    (selector.labels.len() + selector.all_fields().count()) * FLAT_BYTES
}

fn of_write(write: &Write) -> usize {
    match write {
        Write::Create { document }
        | Write::Update { document, .. }
        | Write::Apply { document, .. }
        | Write::ApplyStatus { document, .. } => of_json(document),
        Write::UpdateStatus { status, .. } => of_json(status),
        Write::Patch { change, .. } | Write::PatchStatus { change, .. } => match change {
            homeostat_store::Change::Merge(value)
            | homeostat_store::Change::Strategic(value)
            | homeostat_store::Change::Json(value) => of_json(value),
        },
        Write::Delete { key, .. } => of_key(key),
    }
}

/// Returns the approximate length of `value` as text. The parser that made the value bounds its depth.
fn of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| of_json(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + of_json(value) + 4).sum::<usize>() + 2,
    }
}
