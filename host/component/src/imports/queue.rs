//! `homeostat:reconciler/queue`: keys that the guest enqueues itself.

use super::store::or_refuse;
use super::{answer, store};
use crate::bindings::{queue as wit, types};
use crate::call_context::State;
use crate::effect::{Effect, QueuePriority};
use crate::{Outcome, millis};

impl wit::Host for State {
    async fn enqueue(
        &mut self,
        key: types::Key,
        options: wit::EnqueueOptions,
    ) -> wasmtime::Result<Result<(), types::StoreError>> {
        let wit::EnqueueOptions { after, priority, hold } = options;
        let key = or_refuse!(store::from_key(key));
        let priority = match priority {
            wit::Priority::Lowest => QueuePriority::Lowest,
            wit::Priority::Low => QueuePriority::Low,
            wit::Priority::Normal => QueuePriority::Normal,
            wit::Priority::High => QueuePriority::High,
            wit::Priority::Highest => QueuePriority::Highest,
        };
        let effect = Effect::Enqueue { key, after_ms: after.min(millis::of(Outcome::DELAY_MAX)), priority, hold };
        let answer = answer!(self.context.perform(effect).await?, Done);
        Ok(answer.map_err(store::to_error))
    }
}
