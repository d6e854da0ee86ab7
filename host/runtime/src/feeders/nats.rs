//! The feeder `nats`: adds the keys of messages of a NATS server.
//!
//! A message of a durable consumer is acknowledged when its keys are queued, or when each of them was reconciled without
//! a failure, as the manifest says. A message that was not acknowledged is delivered again, so a host that ends in the
//! middle loses none. A message of a plain subject has no acknowledgement: it is lost while no host runs the feeder, and counted as lost
//! beyond those that wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use homeostat_component::Severity;
use homeostat_store::{Key, check_key};

use super::key_adder::KeyAdder;
use super::{Feeder, FeederError, Intake, IntakeError};
use crate::clock::WallClock;
use crate::feeder_definition::{AcknowledgedWhen, FeederKeys, ListedKey, MessageOrigin, Nats};
use crate::feeder_sources::{Acknowledgement, Message, MessageStores, MessageStream, Receipt};
use crate::message_keys::subject_word;
use crate::settle_waiters::SettleWaiters;

/// Maximum number of keys of unacknowledged messages that one feeder waits for. Beyond that, it takes no message.
pub(super) const UNSETTLED_KEYS_MAX: usize = 10_000;
/// How long a message waits for its reconciles. Then the server may deliver it again.
const SETTLE_MAX: Duration = Duration::from_secs(600);
/// How often a feeder looks for lost messages while none comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// When a message is delivered again whose keys another host has.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct NatsFeeder {
    /// For events and logs.
    name: String,
    nats: Nats,
    adder: KeyAdder,
    /// `None`: this host has no store with messages.
    stores: Option<Arc<dyn MessageStores>>,
    settled: Arc<SettleWaiters>,
    clock: WallClock,
}

/// A message that waits for its reconciles. It returns the number of its keys.
type Unsettled<'f> = BoxFuture<'f, usize>;

impl NatsFeeder {
    pub(crate) fn new(
        nats: Nats,
        adder: KeyAdder,
        stores: Option<Arc<dyn MessageStores>>,
        settled: Arc<SettleWaiters>,
        clock: WallClock,
    ) -> Self {
        let name = format!("nats {}", adder.definition.name);
        Self { name, nats, adder, stores, settled, clock }
    }

    /// Returns whether messages are lost beyond those that wait. A consumer of a stream keeps them at the server.
    fn may_lose(&self) -> bool {
        matches!(self.nats.origin, MessageOrigin::Subject(_))
    }

    /// Adds the keys of a message. Waits while the queue is full. Returns the wait for its reconciles, with the number
    /// of its keys, if it is acknowledged after them.
    async fn take<'f>(
        &'f self,
        intake: &Intake,
        message: Message,
    ) -> Result<Option<(Unsettled<'f>, usize)>, FeederError> {
        let Message { subject, body, receipt } = message;
        intake.note_run(self.clock.now());
        let keys = match self.keys(intake, &subject, &body) {
            Ok(keys) => keys,
            Err(reason) => {
                intake.note_rejected();
                let message = format!("{}: a message of {subject:?} makes no key: {reason}", self.name);
                intake.emit_event(Severity::Warning, "KeyRefused", &message);
                acknowledge(receipt.as_deref(), Acknowledgement::Rejected).await;
                return Ok(None);
            }
        };
        let Some(keys) = keys else {
            self.adder.add_all(intake).await?;
            acknowledge(receipt.as_deref(), Acknowledgement::Handled).await;
            return Ok(None);
        };
        let is_settled_later = receipt.is_some() && self.nats.acknowledged == AcknowledgedWhen::Settled;
        // Before the keys are added: a reconcile may end at once.
        let waits: Vec<_> = match is_settled_later {
            true => keys.iter().map(|key| self.settled.wait(key)).collect(),
            false => Vec::new(),
        };
        let has_all = || keys.iter().all(|key| intake.has(key));
        let had_all = has_all();
        for key in &keys {
            match self.adder.add(intake, key).await {
                Ok(()) => {}
                // It is reported.
                Err(IntakeError::OtherKind) => {
                    acknowledge(receipt.as_deref(), Acknowledgement::Rejected).await;
                    return Ok(None);
                }
                Err(closed) => return Err(FeederError(closed.to_string())),
            }
        }
        // The host that has the lease of a key gets the message next, or one of the next times.
        if !had_all || !has_all() {
            acknowledge(receipt.as_deref(), Acknowledgement::Again(AGAIN_AFTER)).await;
            return Ok(None);
        }
        if !is_settled_later {
            acknowledge(receipt.as_deref(), Acknowledgement::Handled).await;
            return Ok(None);
        }
        let count = waits.len();
        let unsettled = async move {
            let all = join_all(waits.into_iter().map(|wait| wait.settled()));
            if tokio::time::timeout(SETTLE_MAX, all).await.is_ok() {
                acknowledge(receipt.as_deref(), Acknowledgement::Handled).await;
            }
            count
        };
        Ok(Some((Box::pin(unsettled), count)))
    }

    /// Returns the keys of a message; `None` for all stored resources.
    fn keys(&self, intake: &Intake, subject: &str, body: &[u8]) -> Result<Option<Vec<Key>>, String> {
        let listed = match &self.adder.definition.keys {
            FeederKeys::All => return Ok(None),
            FeederKeys::Listed(keys) => keys.clone(),
            FeederKeys::OfMessage(templates) => {
                templates.of_message(body, |word| subject_word(subject, word)).map_err(|error| error.to_string())?
            }
        };
        let key = |ListedKey { namespace, name }: &ListedKey| {
            let key = Key::new(intake.manages().clone(), namespace, name);
            check_key(&key).map_err(|error| error.to_string())?;
            Ok(key)
        };
        listed.iter().map(key).collect::<Result<_, String>>().map(Some)
    }
}

impl Feeder for NatsFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let stores = self.stores.as_ref();
        let stores = stores.ok_or_else(|| FeederError("this host has no store in NATS".to_owned()))?;
        let mut stream = stores.open(&self.nats.store, &self.nats.origin).await.map_err(FeederError)?;
        intake.mark_healthy();
        let (mut unsettled, mut unsettled_keys) = (FuturesUnordered::<Unsettled<'_>>::new(), 0);
        let mut lost = LostMessages::default();
        loop {
            tokio::select! {
                Some(keys) = unsettled.next(), if !unsettled.is_empty() => unsettled_keys -= keys,
                message = stream.next(), if unsettled_keys < UNSETTLED_KEYS_MAX => {
                    let message = message.map_err(FeederError)?;
                    let taken = tokio::select! {
                        biased;
                        taken = self.take(intake, message) => taken?,
                        // A full queue may hold it up for long, while messages are lost.
                        never = lost.keep_counting(self, intake, &mut *stream) => match never {},
                    };
                    if let Some((wait, keys)) = taken {
                        unsettled.push(wait);
                        unsettled_keys += keys;
                    }
                }
                () = tokio::time::sleep(LOOK_EVERY), if self.may_lose() => {}
            }
            lost.count(self, intake, stream.lost());
        }
    }
}

/// The lost messages of one stream that were counted.
#[derive(Default)]
struct LostMessages(u64);

impl LostMessages {
    /// Counts and reports the messages that were lost since the last call.
    fn count(&mut self, feeder: &NatsFeeder, intake: &Intake, lost: u64) {
        let new = lost.saturating_sub(self.0);
        if new > 0 {
            self.0 = lost;
            intake.note_lost(new);
            let message = format!("{}: dropped {new} messages, as too many others waited", feeder.name);
            intake.emit_event(Severity::Warning, "MessagesLost", &message);
        }
    }

    /// Counts lost messages until this is dropped.
    async fn keep_counting(
        &mut self,
        feeder: &NatsFeeder,
        intake: &Intake,
        stream: &mut dyn MessageStream,
    ) -> Infallible {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.count(feeder, intake, stream.lost());
        }
    }
}

/// Acknowledges a message. The server delivers a message again whose acknowledgement does not reach it.
async fn acknowledge(receipt: Option<&dyn Receipt>, acknowledgement: Acknowledgement) {
    if let Some(receipt) = receipt
        && let Err(error) = receipt.acknowledge(acknowledgement).await
    {
        tracing::debug!(error, ?acknowledgement, "a message could not be acknowledged");
    }
}

#[cfg(test)]
mod tests;
