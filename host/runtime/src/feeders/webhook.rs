//! The feeder `webhook`: adds the keys of the HTTP requests that a program sends to the host.
//!
//! A request is believed only with the HMAC of its body, or with a token, by a secret of the host. It is answered when
//! all of its keys are queued, so a program that repeats a refused request loses nothing. The server of the API receives
//! the requests and hands them in as [`WebhookRequest`]s.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use homeostat_component::layers::Secrets;
use homeostat_component::{Blob, Severity};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use super::key_adder::KeyAdder;
use super::{Feeder, FeederError, Intake};
use crate::clock::WallClock;
use crate::feeder_definition::{FeederKeys, SignatureEncoding, Webhook, WebhookAuth};

/// Maximum number of ids of deliveries that one feeder remembers.
pub const DELIVERY_IDS_MAX: usize = 4096;
/// How long a request may wait until all stored resources are added.
const ALL_KEYS_MAX: Duration = Duration::from_secs(20);

/// One request to a webhook.
pub struct WebhookRequest<'r> {
    /// Returns the value of a header; `None` if it is missing, repeated or no text.
    pub header: &'r (dyn Fn(&str) -> Option<String> + Send + Sync),
    /// The whole body.
    pub body: &'r [u8],
}

/// A believed request whose keys are queued.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// The number of its keys; `None` for all stored resources.
    pub keys: Option<usize>,
    /// Whether the feeder had a request of the same id before, so that nothing was added.
    pub is_duplicate: bool,
}

/// Why a request was refused. No key is lost if the program repeats a request that was refused for now.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum WebhookError {
    /// The signature or the token is missing or wrong.
    #[error("the request has no valid signature or token")]
    Unauthenticated,
    /// The request makes no key that the controller can have.
    #[error("{0}")]
    BadRequest(String),
    /// For now: the queue is full.
    #[error("limit keys: the queue is full")]
    Full,
    /// For now: this host has no lease of a key.
    #[error("this host holds no lease of the key")]
    NotHolder,
    /// For now: the secret or the store cannot be read.
    #[error("the host cannot handle the request now")]
    Unavailable,
}

/// The way into one webhook of a running controller.
#[derive(Clone)]
pub struct WebhookEndpoint(pub(crate) Arc<WebhookFeeder>);

impl WebhookEndpoint {
    /// Returns the maximum length of a body, in bytes.
    pub fn body_bytes_max(&self) -> usize {
        self.0.webhook.body_bytes_max
    }

    /// Checks a request and queues its keys.
    ///
    /// *Cancel safety*: keys that were added stay.
    ///
    /// # Errors
    /// [`WebhookError`]. Keys of a refused request may be queued already.
    pub async fn deliver(&self, request: &WebhookRequest<'_>) -> Result<Delivery, WebhookError> {
        self.0.deliver(request).await
    }
}

pub(crate) struct WebhookFeeder {
    /// For events and logs.
    name: String,
    webhook: Webhook,
    adder: KeyAdder,
    secrets: Arc<dyn Secrets>,
    clock: WallClock,
    /// Set while the feeder runs: this host may have keys.
    intake: Mutex<Option<Intake>>,
    seen: Mutex<DeliveryIds>,
}

impl WebhookFeeder {
    pub(crate) fn new(webhook: Webhook, adder: KeyAdder, secrets: Arc<dyn Secrets>, clock: WallClock) -> Self {
        let name = format!("webhook {}", adder.definition.name);
        Self { name, webhook, adder, secrets, clock, intake: Mutex::default(), seen: Mutex::default() }
    }

    async fn deliver(&self, request: &WebhookRequest<'_>) -> Result<Delivery, WebhookError> {
        let intake = self.intake.lock().clone().ok_or(WebhookError::NotHolder)?;
        self.authenticate(&intake, request).await?;
        let id = self.webhook.dedupe_header.as_deref().and_then(|header| (request.header)(header));
        let id = id.map(|id| xxh3_128(id.as_bytes()));
        if id.is_some_and(|id| self.seen.lock().has(id)) {
            return Ok(Delivery { keys: Some(0), is_duplicate: true });
        }
        intake.note_run(self.clock.now());
        let keys = self.add(&intake, request.body).await?;
        intake.mark_healthy();
        // Not before: a refused request is repeated under its id.
        id.into_iter().for_each(|id| self.seen.lock().insert(id));
        Ok(Delivery { keys, is_duplicate: false })
    }

    /// Checks the signature or the token of a request.
    async fn authenticate(&self, intake: &Intake, request: &WebhookRequest<'_>) -> Result<(), WebhookError> {
        let auth = &self.webhook.auth;
        let secret = self.secrets.get(auth.secret()).await.and_then(|secret| match secret.is_empty() {
            true => Err("it is empty".to_owned()),
            false => Ok(secret),
        });
        let secret = secret.map_err(|reason| {
            let message = format!("{}: there is no secret {:?}: {reason}", self.name, auth.secret());
            intake.emit_event(Severity::Warning, "SecretMissing", &message);
            WebhookError::Unavailable
        })?;
        if auth.accepts(&secret, request) {
            return Ok(());
        }
        intake.note_denied();
        Err(WebhookError::Unauthenticated)
    }

    /// Adds the keys of a body. Returns their number; `None` for all stored resources.
    async fn add(&self, intake: &Intake, body: &[u8]) -> Result<Option<usize>, WebhookError> {
        let keys = match &self.adder.definition.keys {
            FeederKeys::All => {
                let added = tokio::time::timeout(ALL_KEYS_MAX, self.adder.add_all(intake)).await;
                return added.map_err(|_| WebhookError::Full)?.map(|()| None).map_err(|_| WebhookError::Unavailable);
            }
            FeederKeys::Listed(keys) => keys.clone(),
            FeederKeys::OfMessage(keys) => keys.of_message(body, |_| None).map_err(|error| {
                intake.note_rejected();
                WebhookError::BadRequest(error.to_string())
            })?,
        };
        self.adder.add_message(intake, &keys)?;
        Ok(Some(keys.len()))
    }
}

#[async_trait]
impl Feeder for WebhookFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        /// Closes the webhook when the feeder ends.
        struct Open<'f>(&'f WebhookFeeder);

        impl Drop for Open<'_> {
            fn drop(&mut self) {
                *self.0.intake.lock() = None;
            }
        }

        let _open = Open(self);
        *self.intake.lock() = Some(intake.clone());
        std::future::pending().await
    }
}

impl WebhookAuth {
    /// Returns the name of the secret.
    pub fn secret(&self) -> &str {
        match self {
            Self::Hmac { secret, .. } | Self::Token { secret, .. } => secret,
        }
    }

    /// Returns whether a request proves that its sender has the secret. Takes the same time for every wrong value of
    /// the same length.
    fn accepts(&self, secret: &Blob, request: &WebhookRequest<'_>) -> bool {
        let value = |header: &str, prefix: &str| {
            (request.header)(header).and_then(|value| value.strip_prefix(prefix).map(str::to_owned))
        };
        match self {
            Self::Token { header, prefix, .. } => value(header, prefix)
                .is_some_and(|token| constant_time::verify_slices_are_equal(token.as_bytes(), secret).is_ok()),
            Self::Hmac { header, prefix, encoding, .. } => {
                let signature = value(header, prefix).and_then(|text| encoding.decode(&text));
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                signature.is_some_and(|signature| hmac::verify(&key, request.body, &signature).is_ok())
            }
        }
    }
}

impl SignatureEncoding {
    fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Base64 => BASE64.decode(text).ok(),
            Self::Hex => {
                let digits = text.as_bytes();
                let pair = |pair: &[u8]| Some(hex_digit(pair[0])? << 4 | hex_digit(*pair.get(1)?)?);
                digits.chunks(2).map(pair).collect()
            }
        }
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The ids of the last deliveries, at most [`DELIVERY_IDS_MAX`]. The oldest is forgotten first.
#[derive(Default)]
struct DeliveryIds {
    known: HashSet<u128>,
    order: VecDeque<u128>,
}

impl DeliveryIds {
    fn has(&self, id: u128) -> bool {
        self.known.contains(&id)
    }

    fn insert(&mut self, id: u128) {
        if !self.known.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > DELIVERY_IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
