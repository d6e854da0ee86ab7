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

use super::store::{Arrivals, WRITERS_MAX, Way, kind};

/// The plural of what is written.
const PLURAL: &str = "items";
/// How long the server may take to end.
const STOP_MAX: Duration = Duration::from_secs(1);

/// A server and the connections of its writers.
pub(super) struct Served {
    handle: Handle,
    writers: Vec<Mutex<SendRequest<Full<Bytes>>>>,
}

impl Served {
    /// Starts a host without controllers and its API.
    pub(super) async fn start(store: Arc<EmbeddedStore>) -> Result<Served> {
        let engine = Engine::new(EngineOptions::default()).context("the engine does not start")?;
        let host =
            Host::start(homeostat_runtime::Options::new(engine, store)).await.context("the host does not start")?;
        let declaration =
            KindDeclaration { kind: kind(), plural: PLURAL.into(), namespaced: true, keys_only: false, schema: None };
        host.kinds().declare(KindInfo::declared(&declaration, "peers"))?;
        let handle = homeostat_api::serve(homeostat_api::Options::default(), host).await?;
        let mut writers = Vec::with_capacity(WRITERS_MAX);
        for _ in 0..WRITERS_MAX {
            writers.push(Mutex::new(connect(&handle).await?));
        }
        Ok(Served { handle, writers })
    }

    /// Reads all resources and keeps none of them; returns how many bytes they came to.
    pub(super) async fn list(&self) -> Result<usize> {
        let mut connection = connect(&self.handle).await?;
        let mut body = send(&mut connection, Method::GET, &collection(), None).await?.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }
}

#[async_trait]
impl Way for Served {
    async fn write(&self, writer: usize, document: Value) -> Result<()> {
        let metadata = &document["metadata"];
        let namespace = metadata["namespace"].as_str().context("there is no namespace")?;
        let name = metadata["name"].as_str().context("there is no name")?;
        let folder = format!("/apis/{}/namespaces/{namespace}/{PLURAL}", kind().api_version());
        let mut connection = self.writers[writer].lock().await;
        let mut answer = send(&mut connection, Method::PUT, &format!("{folder}/{name}"), Some(&document)).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            drain(answer).await?;
            answer = send(&mut connection, Method::POST, &folder, Some(&document)).await?;
        }
        let status = answer.status();
        drain(answer).await?;
        ensure!(status.is_success(), "a write was answered with {status}");
        Ok(())
    }

    async fn watch(&self, arrivals: Arc<Arrivals>, tasks: &mut JoinSet<()>) -> Result<()> {
        let mut connection = connect(&self.handle).await?;
        let path = format!("{}?limit=1", collection());
        let body = send(&mut connection, Method::GET, &path, None).await?.into_body().collect().await?;
        let list: Value = serde_json::from_slice(&body.to_bytes()).context("the list is no JSON")?;
        let now = list["metadata"]["resourceVersion"].as_str().context("the list does not say when it is from")?;
        let path = format!("{}?watch=true&resourceVersion={now}", collection());
        let answer = send(&mut connection, Method::GET, &path, None).await?;
        ensure!(answer.status() == StatusCode::OK, "a watch was answered with {}", answer.status());
        tasks.spawn(async move {
            let (_connection, mut body) = (connection, answer.into_body());
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                (0..lines).for_each(|_| arrivals.note());
            }
        });
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let handle = self.handle.clone();
        tokio::spawn(async move { handle.stop(STOP_MAX).await });
    }
}

fn collection() -> String {
    format!("/apis/{}/{PLURAL}", kind().api_version())
}

async fn connect(handle: &Handle) -> Result<SendRequest<Full<Bytes>>> {
    let Address::Tcp(address) = handle.address() else {
        anyhow::bail!("{} is no socket of the network", handle.address())
    };
    let stream = TcpStream::connect(address).await.context("the server cannot be reached")?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    method: Method,
    path: &str,
    document: Option<&Value>,
) -> Result<Response<Incoming>> {
    let body = document.map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    connection.ready().await?;
    Ok(connection.send_request(request).await?)
}

async fn drain(answer: Response<Incoming>) -> Result<()> {
    let mut body = answer.into_body();
    while !body.is_end_stream() && body.frame().await.transpose()?.is_some() {}
    Ok(())
}
