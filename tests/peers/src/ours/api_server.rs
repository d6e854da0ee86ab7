//! The API of a host over the store, on a loopback socket, and a client of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use homeostat_api::{Address, Handle};
use homeostat_component::{Engine, EngineOptions, KindDeclaration};
use homeostat_runtime::{Host, KindInfo};
use homeostat_store::embedded::EmbeddedStore;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::store::{Arrivals, StoreClient, WRITERS_MAX, kind, text};
use crate::connection::{Connection, Endpoint};
use crate::keys;

/// The plural of the written kind.
const PLURAL: &str = "items";
/// Time limit for the server to stop.
const STOP_MAX: Duration = Duration::from_secs(1);

/// A server and the connections of its writers.
pub(super) struct ApiServer {
    handle: Handle,
    endpoint: Endpoint,
    writers: Vec<Mutex<Connection>>,
}

impl ApiServer {
    /// Starts a host without controllers and its API.
    pub(super) async fn start(store: Arc<EmbeddedStore>) -> Result<ApiServer> {
        let engine = Engine::new(EngineOptions::default()).context("the engine does not start")?;
        let host =
            Host::start(homeostat_runtime::Options::new(engine, store)).await.context("the host does not start")?;
        let declaration =
            KindDeclaration { kind: kind(), plural: PLURAL.into(), namespaced: true, keys_only: false, schema: None };
        host.kinds().declare(KindInfo::declared(&declaration, "peers"))?;
        let handle = homeostat_api::serve(homeostat_api::Options::default(), host).await?;
        let Address::Tcp(address) = handle.address() else {
            anyhow::bail!("{} is not a TCP address", handle.address())
        };
        let endpoint = Endpoint { address: *address, trust: None, token: None };
        let mut writers = Vec::with_capacity(WRITERS_MAX);
        for _ in 0..WRITERS_MAX {
            writers.push(Mutex::new(Connection::open(&endpoint).await?));
        }
        Ok(ApiServer { handle, endpoint, writers })
    }

    /// Reads all resources without keeping them, and returns their total bytes.
    pub(super) async fn list(&self) -> Result<usize> {
        let mut connection = Connection::open(&self.endpoint).await?;
        let mut body = connection.send(Method::GET, &collection(), String::new()).await?.into_body();
        let mut bytes = 0;
        while let Some(data) = connection.data(&mut body).await? {
            bytes += data.len();
        }
        Ok(bytes)
    }
}

#[async_trait]
impl StoreClient for ApiServer {
    async fn write(&self, writer: usize, number: usize, round: usize) -> Result<()> {
        let (namespace, name) = keys::parts(number);
        let folder = format!("/apis/{}/namespaces/{namespace}/{PLURAL}", kind().api_version());
        let mut connection = self.writers[writer].lock().await;
        let mut status = connection.ask(Method::PUT, &format!("{folder}/{name}"), text(number, round)).await?;
        if status == StatusCode::NOT_FOUND {
            status = connection.ask(Method::POST, &folder, text(number, round)).await?;
        }
        ensure!(status.is_success(), "a write was answered with {status}");
        Ok(())
    }

    async fn watch(&self, arrivals: Arc<Arrivals>, tasks: &mut JoinSet<()>) -> Result<()> {
        let mut connection = Connection::open(&self.endpoint).await?;
        let path = format!("{}?limit=1", collection());
        let mut body = connection.send(Method::GET, &path, String::new()).await?.into_body();
        let mut text = Vec::new();
        while let Some(data) = connection.data(&mut body).await? {
            text.extend(data);
        }
        let list: Value = serde_json::from_slice(&text).context("the list is not JSON")?;
        let now = list["metadata"]["resourceVersion"].as_str().context("the list does not say when it is from")?;
        let path = format!("{}?watch=true&resourceVersion={now}", collection());
        let answer = connection.send(Method::GET, &path, String::new()).await?;
        ensure!(answer.status() == StatusCode::OK, "a watch was answered with {}", answer.status());
        tasks.spawn(async move {
            let mut body = answer.into_body();
            while let Ok(Some(data)) = connection.data(&mut body).await {
                let lines = data.iter().filter(|byte| **byte == b'\n').count();
                (0..lines).for_each(|_| arrivals.note());
            }
        });
        Ok(())
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        let handle = self.handle.clone();
        tokio::spawn(async move { handle.stop(STOP_MAX).await });
    }
}

fn collection() -> String {
    format!("/apis/{}/{PLURAL}", kind().api_version())
}
