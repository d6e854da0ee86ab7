//! The durable inbox of a webhook: it stores the keys of a request before the answer, and deletes them when they are
//! reconciled.
//!
//! A stored request is a [`WebhookDelivery`](crate::host_kinds::DELIVERY_KIND) in the host's own store. The inbox reads
//! those of its feeder when the feeder starts. So a host that was killed adds the keys again, including those of kinds
//! without stored resources. One task, that of the feeder, owns the inbox: a sender that hangs up cancels no write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use homeostat_component::Severity;
use homeostat_store::{Error, Key, Kind, Precondition, Propagation, Resource, Store, Write};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use xxhash_rust::xxh3::xxh3_128;

use super::key_adder::KeyAdder;
use super::webhook::WebhookError;
use super::{FeederError, Intake, IntakeError};
use crate::clock::WallClock;
use crate::host_kinds::{API_VERSION, DELIVERY_KIND, KIND, controllers, deliveries};
use crate::listing::for_each_listed;
use crate::settle_waiters::SettleWaiters;

/// Maximum number of keys that one inbox stores. Requests beyond that are refused.
pub(super) const INBOX_KEYS_MAX: usize = 10_000;
/// Maximum number of requests that wait for the task of the inbox. More of them wait.
const REQUESTS_MAX: usize = 16;
/// How long a key may take to be reconciled before it is added again.
const SETTLE_MAX: Duration = Duration::from_secs(600);
/// The wait before a stored request is worked on again: after an error of the store, or without a lease of its keys.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The inbox of one webhook.
pub(crate) struct Inbox {
    store: Arc<dyn Store>,
    controller: Arc<str>,
    feeder: Arc<str>,
    settled: Arc<SettleWaiters>,
    clock: WallClock,
    /// Whether the managed kind has no stored resources. The next holder of a lease then finds no key by itself.
    keys_only: bool,
    /// The number of requests without an id so far.
    count: AtomicU64,
}

/// A request to store keys.
pub(super) struct InboxRequest {
    id: Option<u128>,
    keys: Vec<Key>,
    answer: oneshot::Sender<Result<(), WebhookError>>,
}

/// The way into a running inbox.
#[derive(Clone)]
pub(super) struct InboxSender(mpsc::Sender<InboxRequest>);

/// A stored request.
struct StoredRequest {
    name: String,
    keys: Vec<Key>,
}

/// The work on a stored request. It returns the number of its keys.
type Work<'i> = BoxFuture<'i, usize>;

/// Returns the way into an inbox, and the end that the inbox reads.
pub(super) fn channel() -> (InboxSender, mpsc::Receiver<InboxRequest>) {
    let (sender, requests) = mpsc::channel(REQUESTS_MAX);
    (InboxSender(sender), requests)
}

impl InboxSender {
    /// Stores keys. `id` is that of the request: equal keys of an equal id are stored once.
    ///
    /// *Cancel safety*: the keys may be stored.
    ///
    /// # Errors
    /// [`WebhookError::InboxFull`]; [`WebhookError::Unavailable`] if the store refuses; [`WebhookError::NotHolder`] if
    /// the feeder ends. The keys may be stored in the latter cases.
    pub(super) async fn store(&self, id: Option<u128>, keys: Vec<Key>) -> Result<(), WebhookError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        let request = InboxRequest { id, keys, answer };
        self.0.send(request).await.map_err(|_| WebhookError::NotHolder)?;
        answered.await.unwrap_or(Err(WebhookError::NotHolder))
    }
}

impl Inbox {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        controller: Arc<str>,
        feeder: Arc<str>,
        settled: Arc<SettleWaiters>,
        clock: WallClock,
        keys_only: bool,
    ) -> Self {
        Self { store, controller, feeder, settled, clock, keys_only, count: AtomicU64::new(0) }
    }

    /// Adds the keys of all stored requests, and stores those of further ones. Does not end by itself.
    ///
    /// # Errors
    /// Those of the store, when it lists the stored requests.
    pub(super) async fn run(
        &self,
        intake: &Intake,
        adder: &KeyAdder,
        mut requests: mpsc::Receiver<InboxRequest>,
    ) -> Result<(), FeederError> {
        let owner = self.owner().await?;
        let (mut work, mut held) = (FuturesUnordered::<Work<'_>>::new(), 0);
        for stored in self.list(intake.manages()).await? {
            held += stored.keys.len();
            work.push(Box::pin(self.finish(intake, adder, stored)));
        }
        intake.mark_healthy();
        loop {
            intake.note_inbox(held as u64);
            tokio::select! {
                Some(keys) = work.next(), if !work.is_empty() => held -= keys,
                request = requests.recv() => {
                    let Some(request) = request else { return Ok(()) };
                    if held + request.keys.len() > INBOX_KEYS_MAX {
                        intake.note_full();
                        // A sender that has hung up needs no answer.
                        drop(request.answer.send(Err(WebhookError::InboxFull)));
                        continue;
                    }
                    held += request.keys.len();
                    work.push(Box::pin(self.accept(intake, adder, request, &owner)));
                }
            }
        }
    }

    /// Stores the keys of a request, answers it, and works on it.
    async fn accept(&self, intake: &Intake, adder: &KeyAdder, request: InboxRequest, owner: &Value) -> usize {
        let InboxRequest { id, keys, answer } = request;
        let (name, count) = (self.name(id, &keys), keys.len());
        let written = self.store.write(Write::Create { document: self.document(&name, &keys, owner) }).await;
        match written {
            Ok(_) => {
                drop(answer.send(Ok(())));
                self.finish(intake, adder, StoredRequest { name, keys }).await
            }
            // The same request is stored, and is being worked on.
            Err(Error::AlreadyExists { .. }) => {
                drop(answer.send(Ok(())));
                count
            }
            Err(error) => {
                self.report(intake, "cannot store a request", &error);
                drop(answer.send(Err(WebhookError::Unavailable)));
                count
            }
        }
    }

    /// Adds the keys of a stored request until each is reconciled without a failure, and deletes the request.
    async fn finish(&self, intake: &Intake, adder: &KeyAdder, stored: StoredRequest) -> usize {
        let StoredRequest { name, mut keys } = stored;
        let count = keys.len();
        loop {
            keys = self.unsettled(intake, adder, keys).await;
            if keys.is_empty() {
                match self.delete(&name).await {
                    Ok(()) => return count,
                    Err(error) => self.report(intake, "cannot delete a request that was handled", &error),
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Adds keys and waits for their reconciles. Returns the keys that must be added again.
    async fn unsettled(&self, intake: &Intake, adder: &KeyAdder, keys: Vec<Key>) -> Vec<Key> {
        // A host that takes a lease reconciles all stored resources by itself.
        let (own, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| intake.has(key));
        let mut left = if self.keys_only { others } else { Vec::new() };
        let mut waits = BTreeMap::new();
        for key in own {
            // Before the key is added: a reconcile may end at once.
            let wait = self.settled.wait(&key);
            match adder.add(intake, &key).await {
                Ok(()) => drop(waits.insert(key, wait)),
                // It is reported.
                Err(IntakeError::OtherKind) => {}
                Err(IntakeError::Closed | IntakeError::Full) => left.push(key),
            }
        }
        let settle = waits.into_iter().map(|(key, wait)| async move {
            let in_time = tokio::time::timeout(SETTLE_MAX, wait.settled()).await;
            in_time.err().map(|_| key)
        });
        left.extend(join_all(settle).await.into_iter().flatten());
        left
    }

    /// Returns the reference to the resource of the controller, which takes the stored requests with it; `null` for the
    /// controller of an embedder.
    async fn owner(&self) -> Result<Value, FeederError> {
        match self.store.get(&Key::new(controllers(), "", &self.controller)).await {
            Ok(resource) => Ok(json!([{
                "apiVersion": API_VERSION, "kind": KIND, "name": &*self.controller, "uid": resource.uid(),
            }])),
            Err(Error::NotFound { .. }) => Ok(Value::Null),
            Err(error) => Err(error.into()),
        }
    }

    async fn list(&self, kind: &Kind) -> Result<Vec<StoredRequest>, FeederError> {
        let mut listed = Vec::new();
        let read = |resource: &Arc<Resource>| {
            let spec = &resource.document()["spec"];
            if spec["controller"] != *self.controller || spec["feeder"] != *self.feeder {
                return;
            }
            let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
            let key = |key: &Value| Key::new(kind.clone(), &text(key, "namespace"), &text(key, "name"));
            let keys = spec["keys"].as_array().into_iter().flatten().map(key).collect();
            listed.push(StoredRequest { name: resource.key().name().to_owned(), keys });
        };
        for_each_listed(&*self.store, &deliveries(), read).await?;
        Ok(listed)
    }

    async fn delete(&self, name: &str) -> homeostat_store::Result<()> {
        let (key, precondition) = (Key::new(deliveries(), "", name), Precondition::default());
        match self
            .store
            .write(Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None })
            .await
        {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the name of a stored request. An equal id with equal keys has the same name.
    fn name(&self, id: Option<u128>, keys: &[Key]) -> String {
        let keys = keys.iter().map(|key| [key.namespace(), key.name()]).collect::<Vec<_>>();
        let (moment, number) = match id {
            Some(_) => (None, None),
            None => (Some(self.clock.now().to_string()), Some(self.count.fetch_add(1, Ordering::Relaxed))),
        };
        let id = id.map(|id| id.to_string());
        let whole = json!([&*self.controller, &*self.feeder, id, moment, number, keys]);
        format!("{:032x}", xxh3_128(whole.to_string().as_bytes()))
    }

    fn document(&self, name: &str, keys: &[Key], owner: &Value) -> Value {
        let key = |key: &Key| json!({ "namespace": key.namespace(), "name": key.name() });
        let mut document = json!({
            "apiVersion": API_VERSION, "kind": DELIVERY_KIND, "metadata": { "name": name },
            "spec": {
                "controller": &*self.controller, "feeder": &*self.feeder, "keys": keys.iter().map(key).collect::<Vec<_>>(),
            },
        });
        if !owner.is_null() {
            document["metadata"]["ownerReferences"] = owner.clone();
        }
        document
    }

    fn report(&self, intake: &Intake, what: &str, error: &Error) {
        let message = format!("webhook {}: the inbox {what}: {error}", self.feeder);
        intake.emit_event(Severity::Warning, "InboxFailed", &message);
    }
}

#[cfg(test)]
mod tests;
