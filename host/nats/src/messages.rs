//! Messages of other programs, as feeders of controllers receive them: from a subject, or from a durable consumer of a
//! stream.
//!
//! The connection is one of its own, so that a flood of messages does not slow the requests of a store. The client
//! connects again by itself; a stream that ended is opened anew by its owner.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind, Context};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;

use crate::connection::{News, options};
use crate::settings::{Api, BucketSettings};

/// Maximum number of messages that the client keeps for one subscription. It drops further messages of a subject.
const MESSAGES_MAX: usize = 1024;
/// Maximum number of messages that a consumer asks for at once.
const BATCH_MAX: usize = 256;
/// Maximum number of messages of a new consumer that are delivered and not acknowledged.
const UNACKNOWLEDGED_MAX: i64 = 1024;
/// How long a new consumer waits for the acknowledgement of a message before it delivers it again.
const ACKNOWLEDGEMENT_MAX: Duration = Duration::from_secs(30);
/// How often the server says that there are no messages. The stream fails without it.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A pause between the messages of a subject after which none of those received waits.
const QUIET: Duration = Duration::from_millis(100);
/// How long one request for messages lasts.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// Where messages come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageOrigin<'o> {
    /// A subject, which may have wildcards. Messages are lost while nothing is subscribed.
    Subject(&'o str),
    /// A durable pull consumer of a stream. It is created if there is none.
    Consumer {
        /// The name of the stream.
        stream: &'o str,
        /// The name of the consumer.
        consumer: &'o str,
        /// The subject that a new consumer filters by; `None` for all.
        subject: Option<&'o str>,
    },
}

/// Opens streams of messages at the servers of a store.
#[derive(Debug)]
pub struct MessageClient(BucketSettings);

/// A stream of messages. Its connection ends with it.
pub struct MessageStream {
    client: Client,
    source: MessageSource,
}

enum MessageSource {
    Subject(SubjectMessages),
    Consumer(Box<pull::Stream>),
}

/// The messages of a subject, and how many of them the client has dropped. The connection has no other subscription, so
/// all messages that the client has received are of the subject.
struct SubjectMessages {
    subscriber: Subscriber,
    /// Messages that were handed out.
    taken: u64,
    /// Messages that are known to be dropped.
    lost: u64,
}

/// One message.
pub struct ReceivedMessage {
    /// The subject that it was published to.
    pub subject: String,
    /// Its payload.
    pub body: bytes::Bytes,
    /// The way to acknowledge it; `None` for a message of no stream.
    pub receipt: Option<MessageReceipt>,
}

/// The way to acknowledge a message.
pub struct MessageReceipt(jetstream::Message);

/// The end of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acknowledgement {
    /// It was handled.
    Handled,
    /// The server delivers it again after so long.
    Again(Duration),
    /// It cannot be handled, and the server delivers it no more.
    Rejected,
}

impl MessageClient {
    /// Returns a client with the servers and the identity of these settings.
    pub fn new(settings: BucketSettings) -> Self {
        Self(settings)
    }

    /// Opens a stream of messages.
    ///
    /// # Errors
    /// The reason, for a person.
    pub async fn open(&self, origin: MessageOrigin<'_>) -> Result<MessageStream, String> {
        let Self(settings) = self;
        let options = options(settings, Arc::new(News::default())).subscription_capacity(MESSAGES_MAX);
        let client = options.connect(settings.servers.as_slice()).await.map_err(|error| error.to_string())?;
        let source = match origin {
            MessageOrigin::Subject(subject) => {
                let subscriber = client.subscribe(subject.to_owned()).await.map_err(|error| error.to_string())?;
                // The server knows the subscription before the caller goes on.
                client.flush().await.map_err(|error| error.to_string())?;
                MessageSource::Subject(SubjectMessages { subscriber, taken: 0, lost: 0 })
            }
            MessageOrigin::Consumer { stream, consumer, subject } => {
                let context = context(&client, &settings.api);
                MessageSource::Consumer(Box::new(follow(&context, stream, consumer, subject).await?))
            }
        };
        Ok(MessageStream { client, source })
    }
}

fn context(client: &Client, api: &Api) -> Context {
    match api {
        Api::Account => jetstream::new(client.clone()),
        Api::Domain(domain) => jetstream::with_domain(client.clone(), domain),
        Api::Prefix(prefix) => jetstream::with_prefix(client.clone(), prefix),
    }
}

async fn follow(
    context: &Context,
    stream: &str,
    consumer: &str,
    subject: Option<&str>,
) -> Result<pull::Stream, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let stream = context.get_stream(stream).await.map_err(|error| failed(&format!("the stream {stream:?}"), &error))?;
    let config = pull::Config {
        durable_name: Some(consumer.to_owned()),
        filter_subject: subject.unwrap_or_default().to_owned(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACKNOWLEDGEMENT_MAX,
        max_ack_pending: UNACKNOWLEDGED_MAX,
        ..pull::Config::default()
    };
    let about = format!("the consumer {consumer:?}");
    let consumer: PullConsumer =
        stream.get_or_create_consumer(consumer, config).await.map_err(|error| failed(&about, &error))?;
    let messages =
        consumer.stream().max_messages_per_batch(BATCH_MAX).heartbeat(HEARTBEAT).expires(REQUEST_MAX).messages();
    messages.await.map_err(|error| failed(&about, &error))
}

impl MessageStream {
    /// Returns the next message.
    ///
    /// *Cancel safety*: no message is lost.
    ///
    /// # Errors
    /// Why the stream ended, for a person.
    pub async fn next(&mut self) -> Result<ReceivedMessage, String> {
        let ended = || "the stream of messages ended".to_owned();
        match &mut self.source {
            MessageSource::Subject(messages) => {
                let message = messages.next(&self.client).await.ok_or_else(ended)?;
                let (subject, body) = (message.subject.to_string(), message.payload);
                Ok(ReceivedMessage { subject, body, receipt: None })
            }
            MessageSource::Consumer(stream) => {
                let message = stream.next().await.ok_or_else(ended)?.map_err(|error| error.to_string())?;
                let (subject, body) = (message.subject.to_string(), message.payload.clone());
                Ok(ReceivedMessage { subject, body, receipt: Some(MessageReceipt(message)) })
            }
        }
    }

    /// Returns the number of messages of a subject that the client has dropped so far, as `MESSAGES_MAX` others waited.
    /// The number is exact when no message waits, and at most `MESSAGES_MAX` + 1 lower before. It never falls.
    pub fn lost(&mut self) -> u64 {
        match &mut self.source {
            MessageSource::Subject(messages) => {
                messages.note_lost(received(&self.client), MESSAGES_MAX as u64 + 1);
                messages.lost
            }
            MessageSource::Consumer(_) => 0,
        }
    }
}

impl SubjectMessages {
    /// Returns the next message; `None` at the end.
    async fn next(&mut self, client: &Client) -> Option<async_nats::Message> {
        loop {
            let received = received(client);
            match tokio::time::timeout(QUIET, self.subscriber.next()).await {
                Ok(message) => {
                    self.taken += u64::from(message.is_some());
                    return message;
                }
                // No message waits, and all that were received before have been taken or dropped.
                Err(_) => self.note_lost(received, 0),
            }
        }
    }

    /// Notes the messages that were dropped, of those `received`. At most `waiting` of them may still be taken.
    fn note_lost(&mut self, received: u64, waiting: u64) {
        self.lost = self.lost.max(received.saturating_sub(self.taken + waiting));
    }
}

/// Returns the number of messages that the client has received.
fn received(client: &Client) -> u64 {
    client.statistics().in_messages.load(Ordering::Relaxed)
}

impl MessageReceipt {
    /// Tells the server what becomes of the message. Without it, the server delivers the message again.
    ///
    /// # Errors
    /// Why nothing was sent, for a person.
    pub async fn acknowledge(&self, acknowledgement: Acknowledgement) -> Result<(), String> {
        let kind = match acknowledgement {
            Acknowledgement::Handled => AckKind::Ack,
            Acknowledgement::Again(after) => AckKind::Nak(Some(after)),
            Acknowledgement::Rejected => AckKind::Term,
        };
        self.0.ack_with(kind).await.map_err(|error| error.to_string())
    }
}
