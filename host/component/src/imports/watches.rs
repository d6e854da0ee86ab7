//! `homeostat:reconciler/watches`: dynamic watches, whose changes requeue the key.

use super::store::or_refuse;
use super::{answer, store};
use crate::bindings::{types, watches as wit};
use crate::call_context::State;
use crate::effect::Effect;

impl wit::Host for State {
    async fn follow(&mut self, target: types::Key) -> wasmtime::Result<Result<(), types::StoreError>> {
        let target = or_refuse!(store::from_key(target));
        self.perform_follow(Effect::Follow { target }).await
    }

    async fn follow_all(
        &mut self,
        kind: types::Kind,
        selector: types::Selector,
    ) -> wasmtime::Result<Result<(), types::StoreError>> {
        let kind = or_refuse!(store::from_kind(kind));
        let selector = or_refuse!(store::from_selector(selector));
        self.perform_follow(Effect::FollowAll { kind, selector }).await
    }
}

impl State {
    async fn perform_follow(&mut self, effect: Effect) -> wasmtime::Result<Result<(), types::StoreError>> {
        let answer = answer!(self.context.perform(effect).await?, Done);
        Ok(answer.map_err(store::to_error))
    }
}
