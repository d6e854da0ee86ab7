//! The host of a native reconciler: each call becomes an effect, as in a sandbox.

use std::sync::Arc;

use futures_util::FutureExt;
use homeostat_component::{Answer, Call, Effect, Effects, EntryPoint, Level, QueuePriority, Severity};
use homeostat_sdk::raw::store::{Change, Propagation};
use homeostat_sdk::raw::types::{self as wit, StoreError};
use homeostat_sdk::raw::{events, log, queue};
use homeostat_sdk::testing::Host;
use homeostat_store as store;
use homeostat_store::{Key, Query, Write};

use crate::convert;

/// Items of a page at most, as in the contract.
const LIST_ITEMS_MAX: u32 = 500;
/// The name under which a native reconciler applies.
pub(crate) const CONTROLLER: &str = "test";

/// Passes the calls of one reconcile to the effects of the world.
pub(crate) struct NativeHost {
    call: Call,
    effects: Arc<dyn Effects>,
}

impl NativeHost {
    pub(crate) fn new(entry: EntryPoint, key: Option<Key>, effects: Arc<dyn Effects>) -> Self {
        Self { call: Call { id: 0, controller: CONTROLLER.into(), entry, key }, effects }
    }

    fn perform(&self, effect: Effect) -> Answer {
        // A store in memory never waits.
        self.effects.perform(&self.call, effect).now_or_never().expect("an effect on a world in memory is done at once")
    }

    fn delete_resource(
        &self,
        key: &wit::Key,
        precondition: &wit::Precondition,
        propagation: Propagation,
        grace_seconds: Option<u32>,
    ) -> Result<(), StoreError> {
        let propagation = match propagation {
            Propagation::Background => store::Propagation::Background,
            Propagation::Foreground => store::Propagation::Foreground,
            Propagation::Orphan => store::Propagation::Orphan,
        };
        let (key, precondition) = (convert::key(key), convert::precondition(precondition)?);
        self.write_to_store(Write::Delete { key, precondition, propagation, grace_seconds }).map(drop)
    }

    fn write_to_store(&self, write: Write) -> Result<wit::Resource, StoreError> {
        match self.perform(Effect::Write(write)) {
            Answer::Written(written) => match written {
                Ok(written) => Ok(convert::to_resource(written.resource)),
                Err(error) => Err(convert::to_error(error)),
            },
            other => unreachable!("a write is answered with {}", other.name()),
        }
    }

    fn done(&self, effect: Effect) -> Result<(), StoreError> {
        match self.perform(effect) {
            Answer::Done(done) => done.map_err(convert::to_error),
            other => unreachable!("a follow is answered with {}", other.name()),
        }
    }
}

impl Host for NativeHost {
    fn get(&self, key: &wit::Key, view: wit::View, live: bool) -> Result<wit::Resource, StoreError> {
        match self.perform(Effect::Get { key: convert::key(key), view: convert::view(view), live }) {
            Answer::Resource(found) => found.map(convert::to_resource).map_err(convert::to_error),
            other => unreachable!("a read is answered with {}", other.name()),
        }
    }

    fn list(
        &self,
        kind: &wit::Kind,
        selector: &wit::Selector,
        view: wit::View,
        limit: Option<u32>,
        from: Option<&str>,
        live: bool,
    ) -> Result<wit::Page, StoreError> {
        let limit = limit.unwrap_or(LIST_ITEMS_MAX);
        if limit == 0 || limit > LIST_ITEMS_MAX {
            return Err(StoreError::Invalid(format!("limit: must be 1 to {LIST_ITEMS_MAX}, is {limit}")));
        }
        let view = convert::view(view);
        let query = Query {
            selector: convert::selector(selector),
            limit: Some(limit as usize),
            from: from.map(ToOwned::to_owned),
            live,
            view,
            ..Query::all(convert::kind(kind))
        };
        match self.perform(Effect::List { query, view }) {
            Answer::Page(page) => page.map(convert::to_page).map_err(convert::to_error),
            other => unreachable!("a list is answered with {}", other.name()),
        }
    }

    fn create(&self, json: &str) -> Result<wit::Resource, StoreError> {
        self.write_to_store(Write::Create { document: convert::json(json)? })
    }

    fn update(&self, json: &str, precondition: &wit::Precondition) -> Result<wit::Resource, StoreError> {
        let precondition = convert::precondition(precondition)?;
        self.write_to_store(Write::Update { document: convert::json(json)?, precondition })
    }

    fn update_status(
        &self,
        key: &wit::Key,
        status: &str,
        precondition: &wit::Precondition,
    ) -> Result<wit::Resource, StoreError> {
        let (key, precondition) = (convert::key(key), convert::precondition(precondition)?);
        self.write_to_store(Write::UpdateStatus { key, status: convert::json(status)?, precondition })
    }

    fn patch(
        &self,
        key: &wit::Key,
        change: &Change,
        precondition: &wit::Precondition,
    ) -> Result<wit::Resource, StoreError> {
        let change = match change {
            Change::Merge(text) => store::Change::Merge(convert::json(text)?),
            Change::Json(text) => store::Change::Json(convert::json(text)?),
        };
        let (key, precondition) = (convert::key(key), convert::precondition(precondition)?);
        self.write_to_store(Write::Patch { key, change, precondition })
    }

    fn apply(&self, json: &str, force: bool) -> Result<wit::Resource, StoreError> {
        let manager = CONTROLLER.to_owned();
        self.write_to_store(Write::Apply { document: convert::json(json)?, manager, force })
    }

    fn delete(
        &self,
        key: &wit::Key,
        precondition: &wit::Precondition,
        propagation: Propagation,
    ) -> Result<(), StoreError> {
        self.delete_resource(key, precondition, propagation, None)
    }

    fn delete_after(
        &self,
        key: &wit::Key,
        precondition: &wit::Precondition,
        propagation: Propagation,
        grace_seconds: u32,
    ) -> Result<(), StoreError> {
        self.delete_resource(key, precondition, propagation, Some(grace_seconds))
    }

    fn follow(&self, target: &wit::Key) -> Result<(), StoreError> {
        self.done(Effect::Follow { target: convert::key(target) })
    }

    fn follow_all(&self, kind: &wit::Kind, selector: &wit::Selector) -> Result<(), StoreError> {
        self.done(Effect::FollowAll { kind: convert::kind(kind), selector: convert::selector(selector) })
    }

    fn enqueue(&self, key: &wit::Key, options: queue::EnqueueOptions) -> Result<(), StoreError> {
        let queue::EnqueueOptions { after: after_ms, priority, hold } = options;
        let priority = match priority {
            queue::Priority::Lowest => QueuePriority::Lowest,
            queue::Priority::Low => QueuePriority::Low,
            queue::Priority::Normal => QueuePriority::Normal,
            queue::Priority::High => QueuePriority::High,
            queue::Priority::Highest => QueuePriority::Highest,
        };
        self.done(Effect::Enqueue { key: convert::key(key), after_ms, priority, hold })
    }

    fn emit(&self, severity: events::Severity, reason: &str, message: &str, regarding: Option<&wit::Key>) {
        let severity = match severity {
            events::Severity::Normal => Severity::Normal,
            events::Severity::Warning => Severity::Warning,
        };
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.perform(Effect::Emit { severity, reason, message, regarding: regarding.map(convert::key) });
    }

    fn write(&self, level: log::Level, message: &str, fields: &[(String, String)]) {
        let level = match level {
            log::Level::Trace => Level::Trace,
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.perform(Effect::Log { level, message: message.to_owned(), fields: fields.to_vec() });
    }

    fn config(&self, key: &str) -> Option<String> {
        match self.perform(Effect::Config { key: Some(key.to_owned()) }) {
            Answer::Config(found) => found.into_iter().next().map(|(_, value)| value),
            _ => None,
        }
    }

    fn now(&self) -> i64 {
        match self.perform(Effect::WallClock) {
            Answer::Nanoseconds(since) => i64::try_from(since / 1_000_000).unwrap_or(i64::MAX),
            other => unreachable!("a clock is answered with {}", other.name()),
        }
    }
}
