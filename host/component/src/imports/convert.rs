//! Converts values between the contract and the host. Invalid values from a guest become `invalid`, with the
//! path of the field.

use homeostat_store::{Key, Kind, LabelRequirement, Precondition, Revision, Selector, View};
use serde_json::Value;

use crate::bindings::types as wit;
use crate::effect::{PageData, ResourceData, StoreError};

const GROUP_BYTES_MAX: usize = 253;
const VERSION_BYTES_MAX: usize = 63;
const KIND_BYTES_MAX: usize = 63;
const NAMESPACE_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

type Result<T> = std::result::Result<T, StoreError>;

pub(crate) fn kind(kind: wit::Kind) -> Result<Kind> {
    let wit::Kind { group, version, name } = kind;
    within("kind.group", &group, GROUP_BYTES_MAX)?;
    filled("kind.version", &version, VERSION_BYTES_MAX)?;
    filled("kind.name", &name, KIND_BYTES_MAX)?;
    Ok(Kind { group, version, name })
}

pub(crate) fn key(key: wit::Key) -> Result<Key> {
    let wit::Key { kind: of, namespace, name } = key;
    within("namespace", &namespace, NAMESPACE_BYTES_MAX)?;
    filled("name", &name, NAME_BYTES_MAX)?;
    Ok(Key::new(kind(of)?, &namespace, &name))
}

pub(crate) fn view(view: wit::View) -> View {
    match view {
        wit::View::Whole => View::Whole,
        wit::View::Metadata => View::Metadata,
        wit::View::Keys => View::Keys,
    }
}

pub(crate) fn selector(selector: wit::Selector) -> Result<Selector> {
    let wit::Selector { namespace, labels, fields, owner } = selector;
    let labels = labels.into_iter().map(label).collect();
    let selector = Selector { namespace, labels, fields, owner };
    selector.validate()?;
    Ok(selector)
}

fn label(requirement: wit::LabelRequirement) -> LabelRequirement {
    use wit::LabelRequirement as Wit;
    match requirement {
        Wit::Equals((label, value)) => LabelRequirement::Equals(label, value),
        Wit::NotEquals((label, value)) => LabelRequirement::NotEquals(label, value),
        Wit::OneOf((label, values)) => LabelRequirement::OneOf(label, values),
        Wit::NoneOf((label, values)) => LabelRequirement::NoneOf(label, values),
        Wit::Exists(label) => LabelRequirement::Exists(label),
        Wit::Absent(label) => LabelRequirement::Absent(label),
    }
}

pub(crate) fn precondition(precondition: wit::Precondition) -> Result<Precondition> {
    let wit::Precondition { uid, revision } = precondition;
    let revision = match revision {
        None => None,
        Some(text) => {
            let revision: std::result::Result<Revision, _> = text.parse();
            Some(revision.map_err(|_| StoreError::Invalid(format!("precondition.revision: {text:?} is no revision")))?)
        }
    };
    Ok(Precondition { uid, revision })
}

/// Parses JSON from a guest; `path` names it in the error.
pub(crate) fn json(path: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| StoreError::Invalid(format!("{path}: not JSON: {error}")))
}

pub(crate) fn to_kind(kind: &Kind) -> wit::Kind {
    wit::Kind { group: kind.group.clone(), version: kind.version.clone(), name: kind.name.clone() }
}

pub(crate) fn to_key(key: &Key) -> wit::Key {
    wit::Key { kind: to_kind(key.kind()), namespace: key.namespace().to_owned(), name: key.name().to_owned() }
}

pub(crate) fn to_resource(resource: ResourceData) -> wit::Resource {
    let ResourceData { key, uid, revision, generation, json } = resource;
    wit::Resource { key: to_key(&key), uid, revision, generation, json }
}

pub(crate) fn to_page(page: PageData) -> wit::Page {
    let PageData { items, revision, next } = page;
    wit::Page { items: items.into_iter().map(to_resource).collect(), revision, next }
}

pub(crate) fn to_error(error: StoreError) -> wit::StoreError {
    match error {
        StoreError::NotFound(text) => wit::StoreError::NotFound(text),
        StoreError::Conflict(text) => wit::StoreError::Conflict(text),
        StoreError::Owned(text) => wit::StoreError::Owned(text),
        StoreError::AlreadyExists(text) => wit::StoreError::AlreadyExists(text),
        StoreError::Forbidden(text) => wit::StoreError::Forbidden(text),
        StoreError::Invalid(text) => wit::StoreError::Invalid(text),
        StoreError::TooLarge(text) => wit::StoreError::TooLarge(text),
        StoreError::Unavailable(text) => wit::StoreError::Unavailable(text),
        StoreError::Expired(text) => wit::StoreError::Expired(text),
    }
}

fn filled(path: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.is_empty() {
        return Err(StoreError::Invalid(format!("{path}: must not be empty")));
    }
    within(path, text, bytes_max)
}

fn within(path: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() > bytes_max {
        return Err(StoreError::Invalid(format!("{path}: must have at most {bytes_max} bytes, has {}", text.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
