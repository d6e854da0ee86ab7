//! The API of a host over the store, on a loopback socket, and a client of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use homeostat_api::{Address, Handle};
use homeostat_component::{Engine, EngineOptions, KindDeclaration};
use homeostat_runtime::{Host, KindInfo};
use homeostat_store::embedded::EmbeddedStore;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::store::{Arrivals, StoreClient, WRITERS_MAX, kind, text};
use crate::keys;

/// The plural of the written kind.
const PLURAL: &str = "items";
/// Time limit for the server to stop.
const STOP_MAX: Duration = Duration::from_secs(1);

/// A server and the connections of its writers.
pub(super) struct ApiServer {
    handle: Handle,
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
        let mut writers = Vec::with_capacity(WRITERS_MAX);
        for _ in 0..WRITERS_MAX {
            writers.push(Mutex::new(Connection::open(&handle).await?));
        }
        Ok(ApiServer { handle, writers })
    }

    /// Reads all resources without keeping them, and returns their total bytes.
    pub(super) async fn list(&self) -> Result<usize> {
        let mut connection = Connection::open(&self.handle).await?;
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
        let mut connection = Connection::open(&self.handle).await?;
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

/// One connection with sequential requests.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Sends and receives while it is polled.
    traffic: http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

impl Connection {
    async fn open(handle: &Handle) -> Result<Self> {
        let Address::Tcp(address) = handle.address() else {
            anyhow::bail!("{} is not a TCP address", handle.address())
        };
        let stream = TcpStream::connect(address).await.context("the server cannot be reached")?;
        stream.set_nodelay(true)?;
        let (sender, traffic) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, traffic })
    }

    /// Sends a request and returns the response's status, without its body.
    async fn ask(&mut self, method: Method, path: &str, text: String) -> Result<StatusCode> {
        let answer = self.send(method, path, text).await?;
        let (status, mut body) = (answer.status(), answer.into_body());
        while !body.is_end_stream() && self.data(&mut body).await?.is_some() {}
        Ok(status)
    }

    async fn send(&mut self, method: Method, path: &str, text: String) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(text)))?;
        let answer = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        Ok(during(&mut self.traffic, answer).await??)
    }

    /// Reads the next chunk of a body; `None` at its end.
    async fn data(&mut self, body: &mut Incoming) -> Result<Option<Bytes>> {
        let frame = during(&mut self.traffic, body.frame()).await?.transpose()?;
        Ok(frame.and_then(|frame| frame.into_data().ok()))
    }
}

/// Polls the connection while waiting for `awaited`.
async fn during<T>(
    traffic: &mut http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
    awaited: impl Future<Output = T>,
) -> Result<T> {
    tokio::select! {
        biased;
        outcome = awaited => Ok(outcome),
        end = traffic => Err(end.err().map_or_else(|| anyhow::anyhow!("the server ended the connection"), Into::into)),
    }
}
