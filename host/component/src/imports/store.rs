//! `homeostat:reconciler/store`: resources.

use homeostat_store::{Change, Propagation, Query, Write};

use super::{answer, convert};
use crate::bindings::{store as wit, types};
use crate::effect::{Effect, StoreError, WriteData};
use crate::limits::contract::LIST_ITEMS_MAX;
use crate::state::State;

type Reply<T> = wasmtime::Result<Result<T, types::StoreError>>;

/// Gives the guest an error instead of a trap.
macro_rules! or_refuse {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err(convert::to_error(error))),
        }
    };
}
pub(super) use or_refuse;

impl wit::Host for State {
    async fn get(&mut self, key: types::Key, view: types::View) -> Reply<types::Resource> {
        let effect = Effect::Get { key: or_refuse!(convert::key(key)), view: convert::view(view) };
        let answer = answer!(self.context.perform(effect).await?, Resource);
        Ok(answer.map(convert::to_resource).map_err(convert::to_error))
    }

    async fn list(
        &mut self,
        kind: types::Kind,
        selector: types::Selector,
        view: types::View,
        limit: Option<u32>,
        from: Option<String>,
    ) -> Reply<types::Page> {
        let query = Query {
            kind: or_refuse!(convert::kind(kind)),
            selector: or_refuse!(convert::selector(selector)),
            limit: Some(or_refuse!(items_max(limit))),
            from,
        };
        let effect = Effect::List { query, view: convert::view(view) };
        let answer = answer!(self.context.perform(effect).await?, Page);
        Ok(answer.map(convert::to_page).map_err(convert::to_error))
    }

    async fn create(&mut self, json: String) -> Reply<types::Resource> {
        let document = or_refuse!(convert::json("json", &json));
        self.write(Write::Create { document }).await
    }

    async fn update(&mut self, json: String, precondition: types::Precondition) -> Reply<types::Resource> {
        let document = or_refuse!(convert::json("json", &json));
        let precondition = or_refuse!(convert::precondition(precondition));
        self.write(Write::Update { document, precondition }).await
    }

    async fn update_status(
        &mut self,
        key: types::Key,
        status: String,
        precondition: types::Precondition,
    ) -> Reply<types::Resource> {
        let key = or_refuse!(convert::key(key));
        let status = or_refuse!(convert::json("status", &status));
        let precondition = or_refuse!(convert::precondition(precondition));
        self.write(Write::UpdateStatus { key, status, precondition }).await
    }

    async fn patch(
        &mut self,
        key: types::Key,
        change: wit::Change,
        precondition: types::Precondition,
    ) -> Reply<types::Resource> {
        let key = or_refuse!(convert::key(key));
        let change = match change {
            wit::Change::Merge(text) => Change::Merge(or_refuse!(convert::json("change", &text))),
            wit::Change::Json(text) => Change::Json(or_refuse!(convert::json("change", &text))),
        };
        let precondition = or_refuse!(convert::precondition(precondition));
        self.write(Write::Patch { key, change, precondition }).await
    }

    async fn apply(&mut self, json: String, force: bool) -> Reply<types::Resource> {
        let document = or_refuse!(convert::json("json", &json));
        let manager = self.context.call.controller.to_string();
        self.write(Write::Apply { document, manager, force }).await
    }

    async fn delete(
        &mut self,
        key: types::Key,
        precondition: types::Precondition,
        propagation: wit::Propagation,
    ) -> Reply<()> {
        let key = or_refuse!(convert::key(key));
        let precondition = or_refuse!(convert::precondition(precondition));
        let propagation = match propagation {
            wit::Propagation::Background => Propagation::Background,
            wit::Propagation::Foreground => Propagation::Foreground,
            wit::Propagation::Orphan => Propagation::Orphan,
        };
        Ok(self.write(Write::Delete { key, precondition, propagation }).await?.map(drop))
    }
}

impl State {
    async fn write(&mut self, write: Write) -> Reply<types::Resource> {
        let answer = answer!(self.context.perform(Effect::Write(write)).await?, Written);
        Ok(answer.map(|WriteData { resource, .. }| convert::to_resource(resource)).map_err(convert::to_error))
    }
}

impl types::Host for State {}

fn items_max(limit: Option<u32>) -> Result<usize, StoreError> {
    match limit.unwrap_or(LIST_ITEMS_MAX) {
        limit @ 1..=LIST_ITEMS_MAX => Ok(limit as usize),
        limit => Err(StoreError::Invalid(format!("limit: must be 1 to {LIST_ITEMS_MAX}, is {limit}"))),
    }
}
