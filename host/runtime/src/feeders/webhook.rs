//! The feeder `webhook`: adds the keys of the HTTP requests that a program sends to the host.
//!
//! A request is believed only with the HMAC of its body, or with a token, by a secret of the host. It is answered when
//! all of its keys are queued, or stored in the inbox, so a program that repeats a refused request loses nothing. The
//! server of the API receives the requests and hands them in as [`WebhookRequest`]s. It forwards a request to the other
//! hosts that hold leases of its keys: [`Delivery::elsewhere`].

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use homeostat_component::layers::Secrets;
use homeostat_component::{Blob, Severity};
use homeostat_store::{Key, Kind, check_key};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use super::inbox::{Inbox, InboxSender};
use super::key_adder::KeyAdder;
use super::{Feeder, FeederError, Intake};
use crate::OtherHost;
use crate::clock::WallClock;
use crate::feeder_definition::{FeederKeys, ListedKey, SignatureEncoding, Webhook, WebhookAuth};
use crate::slot::Audience;

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
    /// Whether another host forwarded it: this host then takes its own keys alone.
    pub is_forwarded: bool,
}

/// A believed request. This host has queued or stored the keys whose leases it holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delivery {
    /// The number of its keys; `None` for all stored resources.
    pub keys: Option<usize>,
    /// Whether the feeder had a request of the same id before, so that nothing was added.
    pub is_duplicate: bool,
    /// The positions of the keys that this host has taken, ascending. Empty for all stored resources.
    pub taken: Vec<usize>,
    /// The other hosts that hold leases of its keys. The request must be forwarded to each of them.
    pub elsewhere: Vec<OtherHost>,
    id: Option<u128>,
}

impl Delivery {
    /// Returns whether this host has taken all keys.
    fn is_complete(&self) -> bool {
        self.elsewhere.is_empty() && self.keys.is_none_or(|keys| keys == self.taken.len())
    }
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
    /// For now: the inbox has no room.
    #[error("the inbox of the webhook is full: it waits for reconciles")]
    InboxFull,
    /// For now: no host is known to hold the lease of a key.
    #[error("this host holds no lease of the key")]
    NotHolder,
    /// For now: another host that holds the lease of a key did not take it.
    #[error("another host holds the lease of a key: {0}")]
    NotTaken(String),
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

    /// Returns how a request proves that its sender may add keys.
    pub fn auth(&self) -> &WebhookAuth {
        &self.0.webhook.auth
    }

    /// Returns the header with the id of a delivery, in lower case.
    pub fn dedupe_header(&self) -> Option<&str> {
        self.0.webhook.dedupe_header.as_deref()
    }

    /// Checks a request, and queues or stores those of its keys whose leases this host holds.
    ///
    /// *Cancel safety*: keys that were added stay.
    ///
    /// # Errors
    /// [`WebhookError`]. Keys of a refused request may be queued already.
    pub async fn deliver(&self, request: &WebhookRequest<'_>) -> Result<Delivery, WebhookError> {
        self.0.deliver(request).await
    }

    /// Remembers the id of a request whose other keys the other hosts have taken.
    pub fn remember(&self, delivery: &Delivery) {
        delivery.id.into_iter().for_each(|id| self.0.seen.lock().insert(id));
    }
}

pub(crate) struct WebhookFeeder {
    /// For events and logs.
    name: String,
    webhook: Webhook,
    adder: KeyAdder,
    secrets: Arc<dyn Secrets>,
    clock: WallClock,
    /// The managed kind.
    kind: Kind,
    audience: Arc<dyn Audience>,
    /// Keeps the keys of requests until they are reconciled.
    inbox: Option<Inbox>,
    /// Set while the feeder runs: this host may have keys.
    open: Mutex<Option<Open>>,
    seen: Mutex<DeliveryIds>,
}

/// A webhook whose feeder runs.
#[derive(Clone)]
struct Open {
    intake: Intake,
    inbox: Option<InboxSender>,
}

/// The keys of a request, by who holds their leases.
struct Shares {
    /// Those of this host, with their positions.
    own: Vec<(usize, Key)>,
    elsewhere: Vec<OtherHost>,
}

impl WebhookFeeder {
    pub(crate) fn new(
        webhook: Webhook,
        adder: KeyAdder,
        secrets: Arc<dyn Secrets>,
        clock: WallClock,
        kind: Kind,
        audience: Arc<dyn Audience>,
        inbox: Option<Inbox>,
    ) -> Self {
        let name = format!("webhook {}", adder.definition.name);
        let (open, seen) = (Mutex::default(), Mutex::default());
        Self { name, webhook, adder, secrets, clock, kind, audience, inbox, open, seen }
    }

    async fn deliver(&self, request: &WebhookRequest<'_>) -> Result<Delivery, WebhookError> {
        let open = self.open.lock().clone();
        let intake = open.as_ref().map(|open| &open.intake);
        self.authenticate(intake, request).await?;
        let keys = self.keys(request.body).inspect_err(|_| intake.into_iter().for_each(Intake::note_rejected))?;
        let id = self.webhook.dedupe_header.as_deref().and_then(|header| (request.header)(header));
        let id = id.map(|id| xxh3_128(id.as_bytes()));
        if id.is_some_and(|id| self.seen.lock().has(id)) {
            let taken = (0..keys.as_ref().map_or(0, Vec::len)).collect();
            return Ok(Delivery { keys: Some(0), is_duplicate: true, taken, ..Delivery::default() });
        }
        let delivery = match keys {
            None => self.take_all(open.as_ref(), request.is_forwarded).await?,
            Some(keys) => self.take(open.as_ref(), keys, id, request.is_forwarded).await?,
        };
        let delivery = Delivery { id, ..delivery };
        // Not before: a refused request is repeated under its id.
        if let Some(id) = id.filter(|_| delivery.is_complete()) {
            self.seen.lock().insert(id);
        }
        Ok(delivery)
    }

    /// Adds the keys of all stored resources whose leases this host holds.
    async fn take_all(&self, open: Option<&Open>, is_forwarded: bool) -> Result<Delivery, WebhookError> {
        let elsewhere = if is_forwarded { Vec::new() } else { self.audience.other_holders() };
        let Some(Open { intake, .. }) = open else {
            return if elsewhere.is_empty() {
                Err(WebhookError::NotHolder)
            } else {
                Ok(Delivery { elsewhere, ..Delivery::default() })
            };
        };
        intake.note_run(self.clock.now());
        let added = tokio::time::timeout(ALL_KEYS_MAX, self.adder.add_all(intake)).await;
        added.map_err(|_| WebhookError::Full)?.map_err(|_| WebhookError::Unavailable)?;
        intake.mark_healthy();
        Ok(Delivery { elsewhere, ..Delivery::default() })
    }

    /// Queues or stores the keys whose leases this host holds.
    async fn take(
        &self,
        open: Option<&Open>,
        keys: Vec<Key>,
        id: Option<u128>,
        is_forwarded: bool,
    ) -> Result<Delivery, WebhookError> {
        let count = keys.len();
        let Shares { own, elsewhere } = self.shares(open.is_some(), keys, is_forwarded)?;
        let (taken, own): (Vec<usize>, Vec<Key>) = own.into_iter().unzip();
        if let Some(Open { intake, inbox }) = open {
            intake.note_run(self.clock.now());
            match inbox {
                Some(inbox) => inbox.store(id, own).await?,
                None => self.adder.add_message(intake, &own)?,
            }
            intake.mark_healthy();
        }
        Ok(Delivery { keys: Some(count), taken, elsewhere, ..Delivery::default() })
    }

    /// Divides keys by the holders of their leases.
    fn shares(&self, is_open: bool, keys: Vec<Key>, is_forwarded: bool) -> Result<Shares, WebhookError> {
        let (own, others): (Vec<_>, Vec<_>) =
            keys.into_iter().enumerate().partition(|(_, key)| is_open && self.audience.has(key));
        if is_forwarded {
            return Ok(Shares { own, elsewhere: Vec::new() });
        }
        let mut elsewhere: Vec<OtherHost> = Vec::new();
        for (_, key) in &others {
            let holder = self.audience.other_holder_of(key).ok_or(WebhookError::NotHolder)?;
            if !elsewhere.contains(&holder) {
                elsewhere.push(holder);
            }
        }
        Ok(Shares { own, elsewhere })
    }

    /// Checks the signature or the token of a request.
    async fn authenticate(&self, intake: Option<&Intake>, request: &WebhookRequest<'_>) -> Result<(), WebhookError> {
        let auth = &self.webhook.auth;
        let secret = self.secrets.get(auth.secret()).await.and_then(|secret| match secret.is_empty() {
            true => Err("it is empty".to_owned()),
            false => Ok(secret),
        });
        let secret = secret.map_err(|reason| {
            let message = format!("{}: there is no secret {:?}: {reason}", self.name, auth.secret());
            intake.into_iter().for_each(|intake| intake.emit_event(Severity::Warning, "SecretMissing", &message));
            WebhookError::Unavailable
        })?;
        if auth.accepts(&secret, request) {
            return Ok(());
        }
        intake.into_iter().for_each(Intake::note_denied);
        Err(WebhookError::Unauthenticated)
    }

    /// Returns the keys of a body; `None` for all stored resources.
    fn keys(&self, body: &[u8]) -> Result<Option<Vec<Key>>, WebhookError> {
        let refused = |error: &dyn std::fmt::Display| WebhookError::BadRequest(error.to_string());
        let listed = match &self.adder.definition.keys {
            FeederKeys::All => return Ok(None),
            FeederKeys::Listed(keys) => keys.clone(),
            FeederKeys::OfMessage(keys) => keys.of_message(body, |_| None).map_err(|error| refused(&error))?,
        };
        let key = |ListedKey { namespace, name }: &ListedKey| {
            let key = Key::new(self.kind.clone(), namespace, name);
            check_key(&key).map_err(|error| refused(&error))?;
            Ok(key)
        };
        listed.iter().map(key).collect::<Result<_, _>>().map(Some)
    }
}

impl Feeder for WebhookFeeder {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        /// Closes the webhook when the feeder ends.
        struct OpenGuard<'f>(&'f WebhookFeeder);

        impl Drop for OpenGuard<'_> {
            fn drop(&mut self) {
                *self.0.open.lock() = None;
            }
        }

        let _open = OpenGuard(self);
        let Some(inbox) = &self.inbox else {
            *self.open.lock() = Some(Open { intake: intake.clone(), inbox: None });
            return std::future::pending().await;
        };
        let (sender, requests) = super::inbox::channel();
        *self.open.lock() = Some(Open { intake: intake.clone(), inbox: Some(sender) });
        inbox.run(intake, &self.adder, requests).await
    }
}

impl WebhookAuth {
    /// Returns the name of the secret.
    pub fn secret(&self) -> &str {
        match self {
            Self::Hmac { secret, .. } | Self::Token { secret, .. } => secret,
        }
    }

    /// Returns the header with the proof, in lower case.
    pub fn header(&self) -> &str {
        match self {
            Self::Hmac { header, .. } | Self::Token { header, .. } => header,
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
