//! `homeostat:reconciler/store`: resources, and their form in the contract. Invalid values from a guest
//! become `invalid`, with the path of the field.

use homeostat_store::{
    Change, Key, Kind, LabelRequirement, Precondition, Propagation, Query, Revision, Selector, View, Write,
};
use serde_json::Value;

use super::answer;
use crate::bindings::{store as wit, types};
use crate::call_context::State;
use crate::effect::{Effect, PageData, ResourceData, StoreError, WriteData};
use crate::limits::contract::LIST_ITEMS_MAX;

const GROUP_BYTES_MAX: usize = 253;
const VERSION_BYTES_MAX: usize = 63;
const KIND_BYTES_MAX: usize = 63;
const NAMESPACE_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

type Reply<T> = wasmtime::Result<Result<T, types::StoreError>>;

/// Gives the guest an error instead of a trap.
macro_rules! or_refuse {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err($crate::imports::store::to_error(error))),
        }
    };
}
pub(super) use or_refuse;

impl wit::Host for State {
    async fn get(&mut self, key: types::Key, view: types::View) -> Reply<types::Resource> {
        self.read(key, view, false).await
    }

    async fn get_live(&mut self, key: types::Key, view: types::View) -> Reply<types::Resource> {
        self.read(key, view, true).await
    }

    async fn list(
        &mut self,
        kind: types::Kind,
        selector: types::Selector,
        view: types::View,
        limit: Option<u32>,
        from: Option<String>,
    ) -> Reply<types::Page> {
        let query = or_refuse!(query(kind, selector, limit, from));
        self.read_page(query, view).await
    }

    async fn list_live(
        &mut self,
        kind: types::Kind,
        selector: types::Selector,
        view: types::View,
        limit: Option<u32>,
        from: Option<String>,
    ) -> Reply<types::Page> {
        let query = or_refuse!(query(kind, selector, limit, from));
        self.read_page(Query { live: true, ..query }, view).await
    }

    async fn create(&mut self, json: String) -> Reply<types::Resource> {
        let document = or_refuse!(parse_json("json", &json));
        self.write(Write::Create { document }).await
    }

    async fn update(&mut self, json: String, precondition: types::Precondition) -> Reply<types::Resource> {
        let document = or_refuse!(parse_json("json", &json));
        let precondition = or_refuse!(from_precondition(precondition));
        self.write(Write::Update { document, precondition }).await
    }

    async fn update_status(
        &mut self,
        key: types::Key,
        status: String,
        precondition: types::Precondition,
    ) -> Reply<types::Resource> {
        let key = or_refuse!(from_key(key));
        let status = or_refuse!(parse_json("status", &status));
        let precondition = or_refuse!(from_precondition(precondition));
        self.write(Write::UpdateStatus { key, status, precondition }).await
    }

    async fn patch(
        &mut self,
        key: types::Key,
        change: wit::Change,
        precondition: types::Precondition,
    ) -> Reply<types::Resource> {
        let key = or_refuse!(from_key(key));
        let change = match change {
            wit::Change::Merge(text) => Change::Merge(or_refuse!(parse_json("change", &text))),
            wit::Change::Json(text) => Change::Json(or_refuse!(parse_json("change", &text))),
        };
        let precondition = or_refuse!(from_precondition(precondition));
        self.write(Write::Patch { key, change, precondition }).await
    }

    async fn apply(&mut self, json: String, force: bool) -> Reply<types::Resource> {
        let document = or_refuse!(parse_json("json", &json));
        let manager = self.context.call.controller.to_string();
        self.write(Write::Apply { document, manager, force }).await
    }

    async fn delete(
        &mut self,
        key: types::Key,
        precondition: types::Precondition,
        propagation: wit::Propagation,
    ) -> Reply<()> {
        self.delete_resource(key, precondition, propagation, None).await
    }

    async fn delete_after(
        &mut self,
        key: types::Key,
        precondition: types::Precondition,
        propagation: wit::Propagation,
        grace_seconds: u32,
    ) -> Reply<()> {
        self.delete_resource(key, precondition, propagation, Some(grace_seconds)).await
    }
}

impl State {
    async fn delete_resource(
        &mut self,
        key: types::Key,
        precondition: types::Precondition,
        propagation: wit::Propagation,
        grace_seconds: Option<u32>,
    ) -> Reply<()> {
        let key = or_refuse!(from_key(key));
        let precondition = or_refuse!(from_precondition(precondition));
        let propagation = match propagation {
            wit::Propagation::Background => Propagation::Background,
            wit::Propagation::Foreground => Propagation::Foreground,
            wit::Propagation::Orphan => Propagation::Orphan,
        };
        Ok(self.write(Write::Delete { key, precondition, propagation, grace_seconds }).await?.map(drop))
    }

    async fn read(&mut self, key: types::Key, view: types::View, live: bool) -> Reply<types::Resource> {
        let effect = Effect::Get { key: or_refuse!(from_key(key)), view: from_view(view), live };
        let answer = answer!(self.context.perform(effect).await?, Resource);
        Ok(answer.map(to_resource).map_err(to_error))
    }

    async fn read_page(&mut self, query: Query, view: types::View) -> Reply<types::Page> {
        let effect = Effect::List { query, view: from_view(view) };
        let answer = answer!(self.context.perform(effect).await?, Page);
        Ok(answer.map(to_page).map_err(to_error))
    }

    async fn write(&mut self, write: Write) -> Reply<types::Resource> {
        let answer = answer!(self.context.perform(Effect::Write(write)).await?, Written);
        Ok(answer.map(|WriteData { resource, .. }| to_resource(resource)).map_err(to_error))
    }
}

impl types::Host for State {}

fn query(
    kind: types::Kind,
    selector: types::Selector,
    limit: Option<u32>,
    from: Option<String>,
) -> Result<Query, StoreError> {
    let (kind, selector) = (from_kind(kind)?, from_selector(selector)?);
    Ok(Query { selector, limit: Some(items_max(limit)?), from, ..Query::all(kind) })
}

fn items_max(limit: Option<u32>) -> Result<usize, StoreError> {
    match limit.unwrap_or(LIST_ITEMS_MAX) {
        limit @ 1..=LIST_ITEMS_MAX => Ok(limit as usize),
        limit => Err(StoreError::Invalid(format!("limit: must be 1 to {LIST_ITEMS_MAX}, is {limit}"))),
    }
}

pub(crate) fn from_kind(kind: types::Kind) -> Result<Kind, StoreError> {
    let types::Kind { group, version, name } = kind;
    within("kind.group", &group, GROUP_BYTES_MAX)?;
    filled("kind.version", &version, VERSION_BYTES_MAX)?;
    filled("kind.name", &name, KIND_BYTES_MAX)?;
    Ok(Kind { group, version, name })
}

pub(crate) fn from_key(key: types::Key) -> Result<Key, StoreError> {
    let types::Key { kind: of, namespace, name } = key;
    within("namespace", &namespace, NAMESPACE_BYTES_MAX)?;
    filled("name", &name, NAME_BYTES_MAX)?;
    Ok(Key::new(from_kind(of)?, &namespace, &name))
}

pub(crate) fn from_view(view: types::View) -> View {
    match view {
        types::View::Whole => View::Whole,
        types::View::Metadata => View::Metadata,
        types::View::Keys => View::Keys,
    }
}

pub(crate) fn from_selector(selector: types::Selector) -> Result<Selector, StoreError> {
    let types::Selector { namespace, labels, fields, owner } = selector;
    let labels = labels.into_iter().map(label).collect();
    let selector = Selector { namespace, labels, fields, unequal_fields: Vec::new(), owner };
    selector.validate()?;
    Ok(selector)
}

fn label(requirement: types::LabelRequirement) -> LabelRequirement {
    use types::LabelRequirement as Wit;
    match requirement {
        Wit::Equals((label, value)) => LabelRequirement::Equals(label, value),
        Wit::NotEquals((label, value)) => LabelRequirement::NotEquals(label, value),
        Wit::OneOf((label, values)) => LabelRequirement::OneOf(label, values),
        Wit::NoneOf((label, values)) => LabelRequirement::NoneOf(label, values),
        Wit::Exists(label) => LabelRequirement::Exists(label),
        Wit::Absent(label) => LabelRequirement::Absent(label),
    }
}

pub(crate) fn from_precondition(precondition: types::Precondition) -> Result<Precondition, StoreError> {
    let types::Precondition { uid, revision } = precondition;
    let revision = match revision {
        None => None,
        Some(text) => {
            let revision: Result<Revision, _> = text.parse();
            Some(revision.map_err(|_| StoreError::Invalid(format!("precondition.revision: {text:?} is no revision")))?)
        }
    };
    Ok(Precondition { uid, revision })
}

/// Parses JSON from a guest; `path` names it in the error.
pub(crate) fn parse_json(path: &str, text: &str) -> Result<Value, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Invalid(format!("{path}: not JSON: {error}")))
}

pub(crate) fn to_kind(kind: &Kind) -> types::Kind {
    types::Kind { group: kind.group.clone(), version: kind.version.clone(), name: kind.name.clone() }
}

pub(crate) fn to_key(key: &Key) -> types::Key {
    types::Key { kind: to_kind(key.kind()), namespace: key.namespace().to_owned(), name: key.name().to_owned() }
}

pub(crate) fn to_resource(resource: ResourceData) -> types::Resource {
    let ResourceData { key, uid, revision, generation, json } = resource;
    types::Resource { key: to_key(&key), uid, revision, generation, json }
}

pub(crate) fn to_page(page: PageData) -> types::Page {
    let PageData { items, revision, next } = page;
    types::Page { items: items.into_iter().map(to_resource).collect(), revision, next }
}

pub(crate) fn to_error(error: StoreError) -> types::StoreError {
    match error {
        StoreError::NotFound(text) => types::StoreError::NotFound(text),
        StoreError::Conflict(text) => types::StoreError::Conflict(text),
        StoreError::Owned(text) => types::StoreError::Owned(text),
        StoreError::AlreadyExists(text) => types::StoreError::AlreadyExists(text),
        StoreError::Forbidden(text) => types::StoreError::Forbidden(text),
        StoreError::Invalid(text) => types::StoreError::Invalid(text),
        StoreError::TooLarge(text) => types::StoreError::TooLarge(text),
        StoreError::Unavailable(text) => types::StoreError::Unavailable(text),
        StoreError::Expired(text) => types::StoreError::Expired(text),
    }
}

fn filled(path: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    if text.is_empty() {
        return Err(StoreError::Invalid(format!("{path}: must not be empty")));
    }
    within(path, text, bytes_max)
}

fn within(path: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    if text.len() > bytes_max {
        return Err(StoreError::Invalid(format!("{path}: must have at most {bytes_max} bytes, has {}", text.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
