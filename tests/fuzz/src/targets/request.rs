//! A request is answered completely, never with an internal error, and changes nothing that its token does
//! not allow.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use homeostat_api::{Options, serve};
use homeostat_component::{Engine, EngineOptions, KindDeclaration};
use homeostat_runtime::{Host, KindInfo};
use homeostat_store::{Kind, Scope, Store, Write as Change};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::target::{Acceptance, Outcome, must, same};
use crate::test_store;

/// Two tokens, one for reading and one for writing.
const TOKENS: &str = "- {name: reader, token: reader-0123456789, access: read}\n- {name: writer, token: writer-0123456789, access: write}\n";
const READER: &str = "Bearer reader-0123456789";
const WRITER: &str = "Bearer writer-0123456789";
/// The paths that need no token.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/healthz"];
/// How long a response is read. Endless streams are cut off then.
const PATIENCE: Duration = Duration::from_secs(3);
/// The server's limits for the rest of a request and for watches, in milliseconds.
const SERVER_MS_MAX: u64 = 200;
/// Maximum bytes of a response that are read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A request to send.
struct Request {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Request {
    /// Parses an input as JSON with the parts by name, or else as the bytes of a request. The declared length
    /// of the body is always right.
    fn of(input: &[u8]) -> Self {
        let (mut head, body) = Self::parts(input).unwrap_or_else(|| {
            let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
            (input[..end].to_vec(), input.get(end + 2..).unwrap_or_default().to_vec())
        });
        head.extend(format!("\ncontent-length: {}\nconnection: close\n\n", body.len()).into_bytes());
        Self { head, body }
    }

    fn parts(input: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let request: Value = serde_json::from_slice(input).ok()?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut head =
            format!("{} {} HTTP/1.1\nhost: localhost", text(request.get("method")?), text(request.get("path")?));
        for (name, value) in request.get("headers")?.as_object()? {
            head.push_str(&format!("\n{name}: {}", text(value)));
        }
        let body = match request.get("body") {
            None => String::new(),
            Some(body) => text(body),
        };
        Some((head.into_bytes(), body.into_bytes()))
    }

    /// Returns the path, if the head has one.
    fn path(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let target = head.split_ascii_whitespace().nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default().to_owned()
    }

    /// Returns whether the head has this token.
    fn has(&self, token: &str) -> bool {
        let head = String::from_utf8_lossy(&self.head);
        head.lines().filter_map(|line| line.split_once(':')).any(|(name, value)| {
            name.eq_ignore_ascii_case("authorization")
                && value.trim().split(' ').next_back() == token.split(' ').next_back()
        })
    }
}

fn engine() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let start = || Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() });
    ENGINE.get_or_init(|| start().expect("an engine for one guest starts")).clone()
}

pub(crate) fn judge(input: &[u8]) -> Outcome {
    test_store::wait(asked(&Request::of(input)))
}

/// Sends the request to a new host, so that requests are independent.
async fn asked(request: &Request) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| format!("a host that cannot be asked: {error}");
    let store = Arc::new(test_store::store());
    for name in ["a", "b"] {
        let document = test_store::widget(name, json!({"size": 1, "parts": [{"name": "x"}]}));
        store.write(Change::Create { document }).await.map_err(|error| failed(&error))?;
    }
    let host =
        Host::start(homeostat_runtime::Options::new(engine(), store.clone())).await.map_err(|error| failed(&error))?;
    let kind = Kind::new("demo.dev", "v1", "Widget");
    let declaration =
        KindDeclaration { kind, plural: "widgets".to_owned(), namespaced: true, keys_only: false, schema: None };
    host.kinds().declare(KindInfo::declared(&declaration, "fuzz")).map_err(|error| failed(&error))?;
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let (socket, tokens) = (folder.path().join("s"), folder.path().join("tokens"));
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&tokens);
    written.and_then(|mut file| file.write_all(TOKENS.as_bytes())).map_err(|error| failed(&error))?;
    let options = Options {
        address: format!("unix:{}", socket.display()),
        tokens: Some(tokens),
        request_ms_max: SERVER_MS_MAX,
        watch_ms_max: SERVER_MS_MAX,
        ..Options::default()
    };
    let handle = serve(options, host.clone()).await.map_err(|error| failed(&error))?;
    let before = store.revision(&Scope::Everything).await.expect("the store is open");
    let answer =
        ask(&socket, &[request.head.as_slice(), &request.body].concat()).await.map_err(|error| failed(&error))?;
    let held = judged(request, &answer, before == store.revision(&Scope::Everything).await.expect("the store is open"));
    let alive = ask(&socket, b"GET /livez HTTP/1.1\nhost: localhost\nconnection: close\n\n").await;
    let alive = alive.map_err(|error| failed(&error))?;
    handle.stop(PATIENCE).await;
    host.shutdown(Duration::ZERO).await;
    same("the host lives on", &code(&alive), &Some(200))?;
    held
}

fn judged(request: &Request, answer: &[u8], is_unchanged: bool) -> Outcome {
    let Some(code) = code(answer) else {
        // The server closes the connection on an invalid head, or waits for its end; the request must have no
        // effect.
        must("a request without an answer has no effect", is_unchanged)?;
        return Ok(Acceptance::Rejected);
    };
    must("a request is no fault of the host", code != 500)?;
    must("a request without write access has no effect", is_unchanged || request.has(WRITER))?;
    let may_ask = request.has(READER) || request.has(WRITER) || OPEN.contains(&request.path().as_str());
    must("a request without a token gets no data", may_ask || !(200..300).contains(&code))?;
    if !request.head.starts_with(b"HEAD") && is_cut_off(answer) {
        return Err("an answer is whole".to_owned());
    }
    Ok(if (200..300).contains(&code) { Acceptance::Accepted } else { Acceptance::Rejected })
}

/// Returns whether a response with a length is shorter than that, or is declared as JSON and does not parse.
fn is_cut_off(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return true };
    let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
    let header = |wanted: &str| head.lines().find_map(|line| line.split_once(": ").filter(|(name, _)| *name == wanted));
    let Some(length) = header("content-length").and_then(|(_, length)| length.parse().ok()) else { return false };
    let is_json = header("content-type").is_some_and(|(_, found)| found == "application/json");
    body.get(..length).is_none_or(|body| is_json && serde_json::from_slice::<Value>(body).is_err())
}

/// Sends bytes, and reads until the server closes the connection or the time limit is reached.
async fn ask(socket: &std::path::Path, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).await?;
    // After an early refusal the server may have closed the connection.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(timeout(PATIENCE, stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)).await);
    Ok(answer)
}

fn code(answer: &[u8]) -> Option<u16> {
    std::str::from_utf8(answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?.parse().ok()
}
