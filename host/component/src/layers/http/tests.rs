use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::resolver::Resolver;
use super::{HttpClient, System};
use crate::effect::{Blob, HttpError, HttpRequest};
use crate::grants::Grants;

/// Answers each lookup with the next of these addresses, and repeats the last one.
struct Script {
    answers: Vec<IpAddr>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&str]) -> Arc<Self> {
        let answers = answers.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers, asked: Mutex::default() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

#[async_trait]
impl Resolver for Script {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<SocketAddr>> {
        let mut asked = self.asked.lock();
        asked.push(host.to_owned());
        let at = (asked.len() - 1).min(self.answers.len() - 1);
        Ok(vec![SocketAddr::new(self.answers[at], 0)])
    }
}

/// Answers every lookup with all of these addresses.
struct All(&'static [&'static str]);

#[async_trait]
impl Resolver for All {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<SocketAddr>> {
        Ok(self.0.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect())
    }
}

fn grants(addresses: &str) -> Arc<Grants> {
    let text = format!(r#"{{"http": [{{"urls": ["http://*:*/*"], "addresses": [{addresses}]}}]}}"#);
    Arc::new(serde_json::from_str(&text).unwrap())
}

fn on_loopback(body_bytes_max: u64) -> HttpClient {
    HttpClient::new(body_bytes_max).unwrap().within(grants("\"loopback\""))
}

fn with(resolver: Arc<dyn Resolver>, addresses: &str) -> HttpClient {
    HttpClient::with_resolver(1000, resolver).unwrap().within(grants(addresses))
}

/// Listens without answering, and reports whether a connection arrived.
struct Ear(TcpListener);

impl Ear {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.0.local_addr().unwrap().port())
    }

    fn heard_nothing(&self) -> bool {
        matches!(self.0.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

fn forbidden(result: Result<crate::effect::HttpResponse, HttpError>) -> String {
    match result {
        Err(HttpError::Forbidden(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Answers one request with `answer`, and returns the server's address and the received request.
fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x?y=1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = vec![0; 4096];
        let length = stream.read(&mut asked).unwrap();
        // The client may have disconnected already.
        drop(stream.write_all(answer.as_bytes()));
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    (url, server)
}

fn get(url: &str) -> HttpRequest {
    let headers = vec![("x-a".to_owned(), Blob::from("b"))];
    HttpRequest { method: "GET".into(), url: url.into(), headers, body: "".into(), timeout_ms: Some(5000) }
}

#[tokio::test]
async fn a_request_goes_out_and_its_answer_comes_back() {
    let (url, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-c: d\r\n\r\nhi");
    let response = on_loopback(1000).send(get(&url)).await.unwrap();
    assert_eq!((response.status, &*response.body), (200, b"hi".as_slice()));
    assert!(response.headers.contains(&("x-c".to_owned(), Blob::from("d"))), "{response:?}");
    let asked = server.join().unwrap();
    assert!(asked.starts_with("GET /x?y=1 HTTP/1.1") && asked.contains("x-a: b"), "{asked}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (url, _server) = serve("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(on_loopback(1000).send(get(&url)).await.unwrap().status, 302);
}

#[tokio::test]
async fn a_response_body_beyond_its_bound_is_an_error() {
    let (url, _server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
    let error = on_loopback(5).send(get(&url)).await.unwrap_err();
    assert_eq!(error, HttpError::TooLarge(5));
}

#[tokio::test]
async fn a_failed_connection_is_an_error_with_its_cause() {
    let error = on_loopback(5).send(get("http://127.0.0.1:1/")).await.unwrap_err();
    assert!(matches!(&error, HttpError::Unreachable(text) if text.contains("refused")), "{error:?}");
}

#[tokio::test]
async fn a_malformed_url_is_invalid() {
    let error = on_loopback(5).send(get("nowhere")).await.unwrap_err();
    assert!(matches!(error, HttpError::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn a_name_that_resolves_to_an_ungranted_address_is_forbidden_and_gets_no_request() {
    for (address, range) in [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("fd00::1", "private"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "metadata"),
    ] {
        let ear = Ear::new();
        let error = forbidden(with(Script::new(&[address]), "").send(get(&ear.url("site.example"))).await);
        let parts =
            [address.trim_start_matches("::ffff:"), "site.example", "grants:", &format!("addresses: [{range}]")];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(ear.heard_nothing(), "{address}");
    }
}

#[tokio::test]
async fn unspecified_multicast_and_broadcast_addresses_are_never_granted() {
    let all = r#""loopback", "private", "link-local", "metadata""#;
    for address in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"] {
        let ear = Ear::new();
        let error = forbidden(with(Script::new(&[address]), all).send(get(&ear.url("site.example"))).await);
        assert!(error.contains("no request may go"), "{error}");
        assert!(ear.heard_nothing(), "{address}");
    }
}

#[tokio::test]
async fn a_literal_ip_address_is_checked_against_the_grants() {
    let client = with(Arc::new(System), "\"private\"");
    for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0x7f000001", "2130706433", "127.0.0.1."] {
        let ear = Ear::new();
        let error = forbidden(client.send(get(&ear.url(host))).await);
        assert!(error.contains("addresses: [loopback]"), "{host}: {error}");
        assert!(ear.heard_nothing(), "{host}");
    }
}

#[tokio::test]
async fn a_name_resolved_by_the_system_is_checked_against_the_grants() {
    let ear = Ear::new();
    let error = forbidden(with(Arc::new(System), "\"private\"").send(get(&ear.url("localhost"))).await);
    assert!(error.contains("addresses: [loopback]"), "{error}");
    assert!(ear.heard_nothing());
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_checked_address_is_connected() {
    // The second answer would be forbidden, and the third one too.
    let script = Script::new(&["127.0.0.1", "10.0.0.1"]);
    let client = with(script.clone(), "\"loopback\"");
    let (url, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let url = url.replace("127.0.0.1", "site.example");
    assert_eq!(client.send(get(&url)).await.unwrap().status, 200);
    assert_eq!(script.asked(), 1);
    assert!(server.join().unwrap().contains("host: site.example"));
    assert!(forbidden(client.send(get(&url)).await).contains("10.0.0.1"));
    assert_eq!(script.asked(), 2);
}

#[tokio::test]
async fn a_name_that_changes_to_loopback_after_its_check_is_not_followed() {
    // An unassigned public address (RFC 5737), to which no connection succeeds.
    let script = Script::new(&["192.0.2.1", "127.0.0.1"]);
    let (client, ear) = (with(script.clone(), ""), Ear::new());
    let request = HttpRequest { timeout_ms: Some(200), ..get(&ear.url("site.example")) };
    let error = client.send(request.clone()).await.unwrap_err();
    assert!(matches!(error, HttpError::Timeout | HttpError::Unreachable(_)), "{error:?}");
    assert_eq!(script.asked(), 1);
    forbidden(client.send(request).await);
    assert!(ear.heard_nothing());
}

#[tokio::test]
async fn only_the_granted_addresses_of_a_name_are_tried() {
    let (url, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let client = with(Arc::new(All(&["10.0.0.1", "127.0.0.1", "::1"])), "\"loopback\"");
    assert_eq!(client.send(get(&url.replace("127.0.0.1", "site.example"))).await.unwrap().status, 200);
    server.join().unwrap();
}

#[tokio::test]
async fn a_pooled_connection_serves_no_controller_without_its_grant() {
    let (url, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let url = url.replace("127.0.0.1", "site.example");
    let one = with(Script::new(&["127.0.0.1"]), "\"loopback\"");
    assert_eq!(one.send(get(&url)).await.unwrap().status, 200);
    // The connection is kept open for the next request.
    forbidden(one.within(grants("")).send(get(&url)).await);
    server.join().unwrap();
}

#[tokio::test]
async fn addresses_are_granted_beside_the_patterns_that_cover_the_request() {
    let text = r#"{"http": [
        {"urls": ["http://inside.example:*/*"], "addresses": ["loopback"]},
        {"urls": ["http://*:*/*"]}
    ]}"#;
    let grants: Arc<Grants> = Arc::new(serde_json::from_str(text).unwrap());
    let client = HttpClient::with_resolver(1000, Script::new(&["127.0.0.1"])).unwrap().within(grants);
    let (url, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    forbidden(client.send(get(&url.replace("127.0.0.1", "outside.example"))).await);
    assert_eq!(client.send(get(&url.replace("127.0.0.1", "inside.example"))).await.unwrap().status, 200);
    server.join().unwrap();
}
