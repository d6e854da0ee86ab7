//! The deliveries of one consumer, read until something is lost.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderValue, Message, StatusCode, Subscriber};
use futures_util::StreamExt as _;
use homeostat_store::{Error, Result};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::machine::{ConsumerLoss, ConsumerMachine, DeliveryKind, delivery_of};
use crate::connection::Connection;
use crate::errors::{RequestError, RequestResult};
use crate::protocol::{ConsumerInfo, Deliver, NewConsumer, StoredMessage};
use crate::state::BucketState;

/// Silence after which a consumer that waits for something asks the server for it.
const ASK_AFTER: Duration = Duration::from_millis(200);

/// A consumer and its deliveries. The server ends it soon after this is dropped.
pub(crate) struct Deliveries {
    connection: Arc<Connection>,
    bucket: String,
    /// The name of the source, for messages.
    what: String,
    /// The subject of `CONSUMER.INFO`.
    info: String,
    /// The subject of `STREAM.MSG.GET`.
    next: String,
    /// The subjects of the values.
    filter: String,
    messages: Subscriber,
    machine: ConsumerMachine,
    /// The items that were read and not returned yet: at most two.
    ready: VecDeque<StreamItem>,
    /// A flow-control request that was not answered yet.
    owed: Option<async_nats::Subject>,
    /// Changes when the connection is lost.
    losses: watch::Receiver<u64>,
    /// The last sequence of which any part of this host has heard.
    heard: watch::Receiver<u64>,
    /// Whether to ask the server how far the consumer is.
    asks: bool,
    silence: Silence,
    /// When the leader first had a value of the list that the consumer's replica lacks.
    lags_since: Option<Instant>,
}

/// The time without a sign of the server. It goes on while the reader drops its waits and begins new ones.
#[derive(Debug, Clone, Copy)]
struct Silence {
    last_sign: Instant,
    max: Duration,
}

/// One item of the stream of a consumer.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// A value or a marker.
    Value { message: Message, sequence: u64, kind: DeliveryKind },
    /// The end of the list, which shows this sequence.
    ListEnd(u64),
    /// Everything up to this sequence was delivered.
    Bookmark(u64),
}

/// The source of a consumer's values.
#[derive(Debug, Clone)]
pub(crate) struct Source<'a> {
    pub(crate) stream: &'a str,
    pub(crate) filter: &'a str,
    pub(crate) machine: ConsumerMachine,
    pub(crate) deliver: Deliver,
    /// The name of the source, for messages.
    pub(crate) what: String,
}

impl Deliveries {
    /// Makes a consumer. `losses` was made before anything was asked for the source, so that no loss of
    /// the connection is missed.
    pub(crate) async fn open(
        bucket: &BucketState,
        connection: Arc<Connection>,
        losses: watch::Receiver<u64>,
        source: Source<'_>,
    ) -> Result<Self> {
        let Source { stream, filter, machine, deliver, what } = source;
        let failed = |failure: RequestError| bucket.error(failure, &what);
        let heard = bucket.follow_heard(filter);
        let (inbox, messages) = connection.inbox().await.map_err(failed)?;
        let name = format!("homeostat-{}", uuid::Uuid::new_v4().simple());
        let heartbeat = bucket.settings.timings.heartbeat;
        let consumer = NewConsumer { stream, name: &name, filter, inbox: &inbox, deliver, heartbeat };
        let subject = format!("CONSUMER.CREATE.{stream}.{name}.{filter}");
        let created: ConsumerInfo = connection.call(&subject, &consumer.request()).await.map_err(failed)?;
        let mut deliveries = Self {
            connection,
            bucket: bucket.settings.bucket.clone(),
            what,
            info: format!("CONSUMER.INFO.{stream}.{name}"),
            next: format!("STREAM.MSG.GET.{stream}"),
            filter: filter.to_owned(),
            messages,
            machine,
            ready: VecDeque::new(),
            owed: None,
            losses,
            heard,
            asks: false,
            silence: Silence { last_sign: Instant::now(), max: heartbeat * 5 / 2 },
            lags_since: None,
        };
        if created.num_pending == 0 {
            deliveries.take_pending(created.delivered.consumer_seq, 0)?;
        }
        Ok(deliveries)
    }

    /// Waits for the next delivery. Cancel safe.
    ///
    /// # Errors
    /// The consumer has ended. `Expired` when a list would show a later state than it has to.
    pub(crate) async fn next(&mut self) -> Result<StreamItem> {
        loop {
            if let Some(delivered) = self.ready.pop_front() {
                return Ok(delivered);
            }
            if let Some(reply) = self.owed.clone() {
                self.connection.respond(reply).await.map_err(|failure| self.failed(failure))?;
                self.owed = None;
            }
            if self.asks {
                self.ask().await?;
                self.asks = false;
                continue;
            }
            let waits = self.machine.is_listing() || *self.heard.borrow() > self.machine.through();
            let patience = waits.then_some(ASK_AFTER);
            tokio::select! {
                biased;
                message = self.messages.next() => match message {
                    Some(message) => self.take(message)?,
                    // The client ends only when it is closed.
                    None => return Err(Error::Closed),
                },
                _ = self.losses.changed() => {
                    return Err(Error::unavailable("the connection to the servers was lost"));
                }
                changed = self.heard.changed() => {
                    changed.map_err(|_| Error::Closed)?;
                    self.asks = true;
                }
                () = self.silence.wait(patience) => self.asks = waits,
            }
            if self.silence.is_over() {
                let seconds = self.silence.max.as_secs_f32();
                return Err(Error::unavailable(format!("the server sent no heartbeat for {seconds} s")));
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<()> {
        self.silence.last_sign = Instant::now();
        match message.status {
            None => self.take_value(message),
            Some(StatusCode::IDLE_HEARTBEAT) => self.take_heartbeat(&message),
            Some(status) => {
                let reason = format!("the server ended the watch: {status} {:?}", message.description);
                Err(Error::unavailable(reason))
            }
        }
    }

    fn take_heartbeat(&mut self, message: &Message) -> Result<()> {
        // A request of flow control has a reply subject; a heartbeat repeats one that was not answered.
        let stalled = header(message, "Nats-Consumer-Stalled").map(async_nats::Subject::from);
        self.owed = message.reply.clone().or(stalled);
        let number = |name: &str| header(message, name)?.parse::<u64>().ok();
        if let (Some(consumer), Some(sequence)) = (number("Nats-Last-Consumer"), number("Nats-Last-Stream")) {
            let through = self.machine.heartbeat(consumer, sequence).map_err(lost)?;
            self.ready.extend(through.map(StreamItem::Bookmark));
        }
        Ok(())
    }

    fn take_value(&mut self, message: Message) -> Result<()> {
        let Some(delivery) = message.reply.as_deref().and_then(delivery_of) else {
            return Err(Error::unavailable("a delivery of the server has no number"));
        };
        let kind = self.machine.delivery(delivery).map_err(lost)?;
        self.asks |= kind == DeliveryKind::Listed && delivery.pending == 0;
        self.ready.push_back(StreamItem::Value { message, sequence: delivery.sequence, kind });
        self.asks |= kind == DeliveryKind::Listed && (delivery.pending == 0 || self.machine.is_delivered());
        Ok(())
    }

    /// Asks for the end of the list, or for the last sequence that was heard of: the stream waits for it.
    async fn ask(&mut self) -> Result<()> {
        if !self.machine.is_listing() {
            return self.ask_for_next().await;
        }
        if !self.machine.is_delivered() {
            let answer: RequestResult<ConsumerInfo> = self.connection.call(&self.info, &json!({})).await;
            let ConsumerInfo { num_pending, delivered } = answer.map_err(|failure| self.failed(failure))?;
            self.take_pending(delivered.consumer_seq, num_pending)?;
        }
        if self.machine.is_delivered() { self.end_list().await } else { Ok(()) }
    }

    /// Asks the leader for the next value. The answer says whether everything up to the last sequence that
    /// was heard of is delivered. The number of pending values would not do: the server stores a value a
    /// moment before it counts it.
    async fn ask_for_next(&mut self) -> Result<()> {
        let heard = *self.heard.borrow_and_update();
        if self.next_value().await?.is_none_or(|next| next > heard) {
            let through = self.machine.passed(heard);
            self.ready.extend(through.map(StreamItem::Bookmark));
        }
        Ok(())
    }

    /// Returns the sequence of the leader's first value after the last delivery.
    async fn next_value(&self) -> Result<Option<u64>> {
        let request = json!({"seq": self.machine.through() + 1, "next_by_subj": self.filter});
        let answer: RequestResult<StoredMessage> = self.connection.call(&self.next, &request).await;
        match answer {
            Err(failure) if failure.is_no_value() => Ok(None),
            answer => Ok(Some(answer.map_err(|failure| self.failed(failure))?.message.sequence)),
        }
    }

    fn take_pending(&mut self, consumer: u64, pending: u64) -> Result<()> {
        self.machine.pending(consumer, pending).map_err(lost)?;
        self.asks |= self.machine.is_delivered();
        Ok(())
    }

    /// Ends the list, unless the leader has a value of it that the consumer's replica lacks.
    async fn end_list(&mut self) -> Result<()> {
        let next = if self.machine.may_lack_values() { self.next_value().await? } else { None };
        if let Some(at) = self.machine.end_of_list(next) {
            self.ready.push_back(StreamItem::ListEnd(at));
            return Ok(());
        }
        if self.lags_since.get_or_insert_with(Instant::now).elapsed() >= self.silence.max {
            return Err(Error::unavailable("the replica that lists lags behind the leader"));
        }
        Ok(())
    }

    fn failed(&self, failure: RequestError) -> Error {
        failure.into_error(&self.bucket, &self.what)
    }
}

impl Silence {
    /// Waits until the silence is too long, or for `patience` if that is shorter. Cancel safe: the end of the
    /// silence does not depend on when the wait began.
    async fn wait(&self, patience: Option<Duration>) {
        let end = self.last_sign + self.max;
        tokio::time::sleep_until(patience.map_or(end, |patience| end.min(Instant::now() + patience))).await;
    }

    fn is_over(&self) -> bool {
        self.last_sign.elapsed() >= self.max
    }
}

/// Returns a header of a message.
pub(crate) fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.headers.as_ref()?.get(name).map(HeaderValue::as_str)
}

fn lost(loss: ConsumerLoss) -> Error {
    match loss {
        ConsumerLoss::Later => Error::Expired { oldest: homeostat_store::Revision::ZERO },
        ConsumerLoss::Delivery => Error::unavailable("a delivery of the server was lost"),
        ConsumerLoss::Order => Error::unavailable("the sequences of the server went back"),
    }
}
