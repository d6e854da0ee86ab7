//! The stores whose servers have messages for feeders: those in NATS.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_nats::{MessageClient, MessageReceipt};
use homeostat_runtime::feeder_definition::MessageOrigin;
use homeostat_runtime::feeder_sources::{Acknowledgement, Message, MessageStores, MessageStream, Receipt};

use crate::stores_config::{NamedStore, Storage};

/// The servers of the stores in NATS, by the name of the store.
pub(crate) struct NatsServers(BTreeMap<Arc<str>, MessageClient>);

struct OpenStream(homeostat_nats::MessageStream);

struct OneReceipt(MessageReceipt);

impl NatsServers {
    /// Returns the servers of these stores; `None` if no store is in NATS.
    pub(crate) fn of(stores: &[NamedStore]) -> Option<Arc<dyn MessageStores>> {
        let client = |store: &NamedStore| match &store.storage {
            Storage::Nats(settings) => Some((store.name.clone(), MessageClient::new((**settings).clone()))),
            _ => None,
        };
        let clients: BTreeMap<_, _> = stores.iter().filter_map(client).collect();
        (!clients.is_empty()).then(|| Arc::new(Self(clients)) as Arc<dyn MessageStores>)
    }
}

#[async_trait]
impl MessageStores for NatsServers {
    async fn open(&self, store: &str, origin: &MessageOrigin) -> Result<Box<dyn MessageStream>, String> {
        let client = self.0.get(store).ok_or_else(|| format!("this host has no store {store:?} in NATS"))?;
        let origin = match origin {
            MessageOrigin::Subject(subject) => homeostat_nats::MessageOrigin::Subject(subject),
            MessageOrigin::Consumer { stream, consumer, subject } => {
                homeostat_nats::MessageOrigin::Consumer { stream, consumer, subject: subject.as_deref() }
            }
        };
        Ok(Box::new(OpenStream(client.open(origin).await?)))
    }
}

#[async_trait]
impl MessageStream for OpenStream {
    async fn next(&mut self) -> Result<Message, String> {
        let homeostat_nats::ReceivedMessage { subject, body, receipt } = self.0.next().await?;
        let receipt = receipt.map(|receipt| Box::new(OneReceipt(receipt)) as Box<dyn Receipt>);
        Ok(Message { subject, body: body.to_vec(), receipt })
    }

    fn lost(&mut self) -> u64 {
        self.0.lost()
    }
}

#[async_trait]
impl Receipt for OneReceipt {
    async fn acknowledge(&self, acknowledgement: Acknowledgement) -> Result<(), String> {
        self.0
            .acknowledge(match acknowledgement {
                Acknowledgement::Handled => homeostat_nats::Acknowledgement::Handled,
                Acknowledgement::Again(after) => homeostat_nats::Acknowledgement::Again(after),
                Acknowledgement::Rejected => homeostat_nats::Acknowledgement::Rejected,
            })
            .await
    }
}
