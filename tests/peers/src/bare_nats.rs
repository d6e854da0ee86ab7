//! async-nats without our store: puts of the same bytes in the same bucket, each on the condition that the
//! sequence of its key is still the one of the previous put.

use std::sync::Arc;

use anyhow::{Context, Result};
use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream;
use async_trait::async_trait;
use bytes::Bytes;
use homeostat_store::Store;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::arguments::Size;
use crate::ours::store::{Arrivals, StoreClient, document, writes};
use crate::ours::stores::nats_store;
use crate::values::Values;

struct Puts {
    jetstream: jetstream::Context,
    /// The subjects of keys, without the number of the key.
    subjects: String,
    value: Bytes,
    /// The sequence of each key's last put; 0 before the first.
    sequences: Vec<Mutex<u64>>,
}

pub(crate) async fn run(size: &Size, server: Option<&str>) -> Result<Values> {
    let server = server.context("the work needs a server")?;
    let bucket = format!("bare-{}", std::process::id());
    let value = value(server, &bucket).await?;
    let jetstream = jetstream::new(async_nats::connect(server).await?);
    let sequences = (0..size.keys).map(|_| Mutex::new(0)).collect();
    writes(Arc::new(Puts { jetstream, subjects: format!("$KV.{bucket}.bare"), value, sequences }), size).await
}

/// Lets our store create the bucket, and returns a value as the store writes it.
async fn value(server: &str, bucket: &str) -> Result<Bytes> {
    let store = nats_store(server, bucket)?;
    let written = store.write(homeostat_store::Write::Create { document: document(0, 0) }).await?;
    store.close().await;
    Ok(written.resource.text_without_revision().into())
}

#[async_trait]
impl StoreClient for Puts {
    async fn write(&self, _: usize, number: usize, _: usize) -> Result<()> {
        let expected = *self.sequences[number].lock();
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        let subject = format!("{}.{number}", self.subjects);
        let acknowledged = self.jetstream.publish_with_headers(subject, headers, self.value.clone()).await?.await?;
        *self.sequences[number].lock() = acknowledged.sequence;
        Ok(())
    }

    async fn watch(&self, _: Arc<Arrivals>, _: &mut JoinSet<()>) -> Result<()> {
        anyhow::bail!("puts are not watched")
    }
}
