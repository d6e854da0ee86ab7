//! Measures how long the requests of one client take, alone and beside hostile clients.
//!
//! `cargo run -p homeostat-api --example hostile -- [--rounds 6] [--requests 300] [--folder FOLDER]`
//!
//! Rounds without and with hostile clients alternate, on one host with an embedded store. There are 40 slow
//! writers: each declares a body of 2 MB and sends one byte a second. There are 70 slow readers: each reads a
//! list of 24 MB at 1 KiB a second. All slow writers share one token, and all slow readers another. The
//! measured client has its own token. It creates a resource, reads it, and lists ten, one request after the
//! other.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that cannot go on says so and ends")]

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use homeostat_api::{Options, serve};
use homeostat_component::{Engine, EngineOptions, KindDeclaration};
use homeostat_runtime::{Host, KindInfo, Options as HostOptions};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Kind, Options as StoreOptions};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error>>;

const MEASURED: &str = "the-token-that-is-measured";
const SLOW_WRITER: &str = "the-token-of-slow-writers";
const SLOW_READER: &str = "the-token-of-slow-readers";

/// The list of the slow readers, and the collection of the measured client.
const LARGE: &str = "/api/v1/namespaces/large/configmaps";
const SMALL: &str = "/api/v1/namespaces/small/configmaps";

const BODIES: usize = 40;
const BODY_BYTES: usize = 2_000_000;
const READERS: usize = 70;
const SECOND: Duration = Duration::from_secs(1);

struct Arguments {
    rounds: usize,
    requests: usize,
    folder: PathBuf,
}

impl Arguments {
    fn read() -> Outcome<Self> {
        let mut read = Self { rounds: 6, requests: 300, folder: std::env::temp_dir() };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--rounds" => read.rounds = value.parse()?,
                "--requests" => read.requests = value.parse()?,
                "--folder" => read.folder = value.into(),
                _ => return Err(format!("unknown argument {name}").into()),
            }
        }
        Ok(read)
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let Arguments { rounds, requests, folder } = Arguments::read()?;
    let folder = tempfile::tempdir_in(folder)?;
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), StoreOptions::default())?);
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() })?;
    let host = Host::start(HostOptions::new(engine, store)).await?;
    let kind = Kind::new("", "v1", "ConfigMap");
    let declaration =
        KindDeclaration { kind, plural: "configmaps".into(), namespaced: true, keys_only: false, schema: None };
    host.kinds().declare(KindInfo::declared(&declaration, "example"))?;
    let tokens = folder.path().join("tokens.yaml");
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&tokens)?;
    for (name, token) in [("measured", MEASURED), ("writer", SLOW_WRITER), ("reader", SLOW_READER)] {
        let access = if token == SLOW_READER { "read" } else { "write" };
        writeln!(file, "- {{name: {name}, token: {token}, access: {access}}}")?;
    }
    let handle = serve(Options { tokens: Some(tokens), ..Options::default() }, host.clone()).await?;
    let address = handle.address().to_string();
    let client = MeasuredClient { address: address.trim_start_matches("http://").to_owned() };
    client.fill().await?;

    let (mut quiet, mut beside) = (LatencySamples::default(), LatencySamples::default());
    for round in 0..2 * rounds {
        let is_hostile = round % 2 == 1;
        let mut hostile = JoinSet::new();
        if is_hostile {
            client.start_hostile_clients(&mut hostile).await?;
        }
        let tally = if is_hostile { &mut beside } else { &mut quiet };
        client.measure(requests, round, tally).await?;
        hostile.shutdown().await;
    }
    quiet.print("without hostile clients");
    beside.print("with hostile clients");
    handle.stop(SECOND).await;
    host.shutdown(SECOND).await;
    Ok(())
}

/// The durations of requests, and the number of refused ones.
#[derive(Default)]
struct LatencySamples {
    times: Vec<Duration>,
    refused: usize,
}

impl LatencySamples {
    fn print(mut self, what: &str) {
        self.times.sort_unstable();
        let at = |percent: usize| self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
        let (count, refused) = (self.times.len(), self.refused);
        println!(
            "{what}: {count} requests, {refused} refused, median {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
            at(50),
            at(99),
            at(100)
        );
    }
}

struct MeasuredClient {
    address: String,
}

impl MeasuredClient {
    async fn connect(&self) -> Outcome<SendRequest<Full<Bytes>>> {
        let (sender, connection) = http1::handshake(TokioIo::new(TcpStream::connect(&self.address).await?)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Sends a request with the token of the measured client, and reads the whole response.
    async fn ask(&self, sender: &mut SendRequest<Full<Bytes>>, method: &str, path: &str, body: String) -> Outcome<u16> {
        let request = Request::builder().method(method).uri(path).header("host", &self.address);
        let request = request.header("authorization", format!("Bearer {MEASURED}"));
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)))?;
        sender.ready().await?;
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        answer.into_body().collect().await?;
        Ok(status)
    }

    async fn fill(&self) -> Outcome<()> {
        let mut sender = self.connect().await?;
        for number in 0..48 {
            let body = document("large", &format!("large-{number}"), 500_000);
            let status = self.ask(&mut sender, "POST", LARGE, body).await?;
            if status != 201 {
                return Err(format!("the list could not be made: {status}").into());
            }
        }
        Ok(())
    }

    /// Creates, reads and lists, one request after the other.
    async fn measure(&self, requests: usize, round: usize, tally: &mut LatencySamples) -> Outcome<()> {
        let mut sender = self.connect().await?;
        for number in 0..requests {
            let name = format!("small-{round}-{}", number / 3);
            let begun = Instant::now();
            let status = match number % 3 {
                0 => self.ask(&mut sender, "POST", SMALL, document("small", &name, 1000)).await?,
                1 => self.ask(&mut sender, "GET", &format!("{SMALL}/{name}"), String::new()).await?,
                _ => self.ask(&mut sender, "GET", &format!("{SMALL}?limit=10"), String::new()).await?,
            };
            tally.times.push(begun.elapsed());
            tally.refused += usize::from(!(200..300).contains(&status));
        }
        Ok(())
    }

    /// Starts the hostile clients, which run until the set is dropped.
    async fn start_hostile_clients(&self, hostile: &mut JoinSet<()>) -> Outcome<()> {
        for number in 0..BODIES + READERS {
            let is_body = number < BODIES;
            let stream = self.beginning(is_body).await?;
            let address = self.address.clone();
            hostile.spawn(async move {
                let mut stream = Some(stream);
                loop {
                    let open = match stream.take() {
                        Some(open) => Ok(open),
                        None => Self { address: address.clone() }.beginning(is_body).await.map_err(drop),
                    };
                    // A client that was cut off reconnects.
                    if let Ok(mut open) = open
                        && trickle(&mut open, is_body).await.is_ok()
                    {
                        stream = Some(open);
                    }
                    tokio::time::sleep(SECOND).await;
                }
            });
        }
        Ok(())
    }

    /// Connects, and sends the head of a request.
    async fn beginning(&self, is_body: bool) -> Outcome<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let (token, method, path) = if is_body { (SLOW_WRITER, "POST", SMALL) } else { (SLOW_READER, "GET", LARGE) };
        let length = if is_body { format!("Content-Length: {BODY_BYTES}\r\n") } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{length}\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).await?;
        Ok(stream)
    }
}

/// Sends a byte, or reads a kilobyte.
async fn trickle(stream: &mut TcpStream, is_body: bool) -> std::io::Result<()> {
    if is_body {
        return stream.write_all(b" ").await;
    }
    let read = tokio::time::timeout(SECOND, stream.read(&mut [0; 1024])).await.unwrap_or(Ok(1))?;
    if read == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn document(namespace: &str, name: &str, bytes: usize) -> String {
    let (metadata, data) = (json!({ "namespace": namespace, "name": name }), json!({ "text": "x".repeat(bytes) }));
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }).to_string()
}
