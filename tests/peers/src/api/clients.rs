//! The clients of a measured API: each has one connection, and waits for each response.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::connection::{Connection, Endpoint};
use crate::ours::store::{Arrivals, together};

/// The collection of the resources.
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// The text in a resource, such that it has about 1 KiB as a server shows it.
const TEXT_BYTES: usize = 700;
/// Opens at most so many connections at once: a server has a bound on handshakes.
const OPENED_AT_ONCE: usize = 64;

/// Clients of one server.
pub(super) struct Clients {
    endpoint: Endpoint,
    connections: Vec<Mutex<Connection>>,
}

impl Clients {
    /// Opens the connections of `count` clients.
    pub(super) async fn open(endpoint: &Endpoint, count: usize) -> Result<Self> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Mutex::new(Connection::open(endpoint).await?));
        }
        Ok(Self { endpoint: endpoint.clone(), connections })
    }

    /// Creates the resources with these numbers, and returns how long each took.
    pub(super) async fn create(self: &Arc<Self>, numbers: Range<usize>) -> Result<Vec<Duration>> {
        let count = self.connections.len();
        let client = |client| {
            let (clients, numbers) = (Arc::clone(self), numbers.clone());
            async move {
                let mut took = Vec::new();
                for number in numbers.skip(client).step_by(count) {
                    let start = Instant::now();
                    clients.write(client, Method::POST, COLLECTION, text(number, 0)).await?;
                    took.push(start.elapsed());
                }
                Ok(took)
            }
        };
        Ok(together(count, client).await?.concat())
    }

    /// Updates the first `keys` resources again and again, after a quarter of `long` for `long`, and returns how long
    /// each update took.
    pub(super) async fn update(self: &Arc<Self>, keys: usize, long: Duration) -> Result<Vec<Duration>> {
        let count = self.connections.len();
        let warm = Instant::now() + long / 4;
        let end = warm + long;
        let client = |client| {
            let clients = Arc::clone(self);
            async move {
                let mut took = Vec::new();
                for round in 1.. {
                    for number in (client..keys).step_by(count) {
                        let start = Instant::now();
                        // A busy machine may leave a short run without an update: each client measures one.
                        if start > end && !took.is_empty() {
                            return Ok(took);
                        }
                        let path = format!("{COLLECTION}/{}", name(number));
                        clients.write(client, Method::PUT, &path, text(number, round)).await?;
                        if start > warm {
                            took.push(start.elapsed());
                        }
                    }
                }
                Ok(took)
            }
        };
        Ok(together(count, client).await?.concat())
    }

    /// Lists everything, and returns how long it took.
    pub(super) async fn list(&self, count: usize) -> Result<Duration> {
        let mut connection = Connection::open(&self.endpoint).await?;
        let start = Instant::now();
        let mut body = connection.send(Method::GET, COLLECTION, String::new()).await?.into_body();
        let mut bytes = 0;
        while let Some(data) = connection.data(&mut body).await? {
            bytes += data.len();
        }
        ensure!(bytes > count * TEXT_BYTES, "{bytes} bytes are not {count} resources");
        Ok(start.elapsed())
    }

    /// Returns, for each of so many updates, the time until the last watcher had its event.
    pub(super) async fn reach(&self, watchers: usize, writes: usize) -> Result<Vec<Duration>> {
        let (arrivals, mut tasks) = (Arc::new(Arrivals::default()), JoinSet::new());
        let revision = self.revision().await?;
        for first in (0..watchers).step_by(OPENED_AT_ONCE) {
            let opened = OPENED_AT_ONCE.min(watchers - first);
            let streams = together(opened, |_| watch(self.endpoint.clone(), revision.clone())).await?;
            for (mut connection, mut body) in streams {
                let arrivals = Arc::clone(&arrivals);
                tasks.spawn(async move {
                    while let Ok(Some(data)) = connection.data(&mut body).await {
                        let lines = data.iter().filter(|byte| **byte == b'\n').count();
                        (0..lines).for_each(|_| arrivals.note());
                    }
                });
            }
        }
        let mut took = Vec::with_capacity(writes);
        for number in 0..writes {
            let start = Instant::now();
            arrivals.expect(watchers);
            self.write(0, Method::PUT, &format!("{COLLECTION}/{}", name(number)), text(number, writes)).await?;
            tokio::select! {
                () = arrivals.all() => took.push(start.elapsed()),
                _ = tasks.join_next() => bail!("a watcher ended"),
            }
        }
        Ok(took)
    }

    /// Returns the newest revision.
    async fn revision(&self) -> Result<String> {
        let mut connection = Connection::open(&self.endpoint).await?;
        let mut body = connection.send(Method::GET, &format!("{COLLECTION}?limit=1"), String::new()).await?.into_body();
        let mut text = Vec::new();
        while let Some(data) = connection.data(&mut body).await? {
            text.extend(data);
        }
        let list: Value = serde_json::from_slice(&text).context("the list is not JSON")?;
        Ok(list["metadata"]["resourceVersion"].as_str().context("the list does not say when it is from")?.to_owned())
    }

    async fn write(&self, client: usize, method: Method, path: &str, text: String) -> Result<()> {
        let status = self.connections[client].lock().await.ask(method, path, text).await?;
        ensure!(status.is_success(), "a write was answered with {status}");
        Ok(())
    }
}

/// Opens a watch from a revision.
async fn watch(endpoint: Endpoint, revision: String) -> Result<(Connection, hyper::body::Incoming)> {
    let mut connection = Connection::open(&endpoint).await?;
    let path = format!("{COLLECTION}?watch=true&resourceVersion={revision}");
    let answer = connection.send(Method::GET, &path, String::new()).await?;
    ensure!(answer.status() == StatusCode::OK, "a watch was answered with {}", answer.status());
    Ok((connection, answer.into_body()))
}

fn name(number: usize) -> String {
    format!("measured-{number}")
}

/// Returns the JSON text of a resource after so many rounds.
fn text(number: usize, round: usize) -> String {
    let (name, round) = (name(number), round.to_string());
    let filler = "x".repeat(TEXT_BYTES - round.len());
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"labels":{{"app":"measured"}},"name":"{name}","namespace":"default"}},"data":{{"text":"{round}{filler}"}}}}"#
    )
}
