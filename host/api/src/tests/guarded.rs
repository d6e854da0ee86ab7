//! A server with tokens, and one with TLS.

use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use std::io::Write as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::Certificate;

const TOKENS: &str = "- {name: alice, token: alice-may-only-read, access: read}\n- {name: bob, token: bob-may-also-write, access: write}\n";

fn tokens(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("tokens.yaml");
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).unwrap();
    file.write_all(TOKENS.as_bytes()).unwrap();
    path
}

async fn guarded(folder: &tempfile::TempDir) -> Server {
    Server::with(Options { tokens: Some(tokens(folder)), ..Options::default() }).await
}

/// Sends a request with a token, or without.
async fn ask(server: &Server, method: &str, path: &str, token: &str) -> Response<Incoming> {
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "host.example");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    soon(sender.send_request(request)).await.unwrap()
}

#[tokio::test]
async fn request_without_a_token_is_unauthorized() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(&folder).await;
    for path in [DEPLOYMENTS, "/metrics", "/version", "/api", "/openapi/v3", "/homeostat/v1/backup", "/nothing"] {
        for token in ["", "a-token-of-nobody"] {
            let refused = ask(&server, "GET", path, token).await;
            assert_eq!(refused.headers()["www-authenticate"], "Bearer", "{path}");
            let refused = answer(refused).await;
            assert_eq!((refused.code, &refused.body["reason"]), (401, &json!("Unauthorized")), "{path}");
        }
    }
    assert_eq!(ask(&server, "GET", DEPLOYMENTS, "alice-may-only-read").await.status(), 200);
    assert_eq!(ask(&server, "GET", "/metrics", "bob-may-also-write").await.status(), 200);
}

#[tokio::test]
async fn a_read_token_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(&folder).await;
    let of_controller = |part: &str| format!("/apis/homeostat.dev/v1alpha1/controllers/a/{part}");
    let verbs = ["suspend", "queue/enqueue", "queue/retry", "queue/cancel", "queue/postpone", "queue/expedite"];
    let verbs = verbs.map(|part| ("POST", of_controller(part)));
    let own = ["stores/home/accept", "drain", "uncordon"].map(|part| ("POST", format!("/homeostat/v1/{part}")));
    let others = [("DELETE", DEPLOYMENTS), ("PUT", "/version")].map(|(method, path)| (method, path.to_owned()));
    for (method, path) in others.into_iter().chain(own).chain(verbs) {
        let path = &path;
        let refused = answer(ask(&server, method, path, "alice-may-only-read").await).await;
        assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")), "{path}");
    }
    assert_eq!(ask(&server, "DELETE", DEPLOYMENTS, "bob-may-also-write").await.status(), 200);
}

#[tokio::test]
async fn health_needs_no_token_and_its_details_need_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(&folder).await;
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(answer(ask(&server, "GET", path, "").await).await.body, "ok");
        assert_eq!(ask(&server, "GET", &format!("{path}?verbose"), "").await.status(), 401);
        assert_eq!(ask(&server, "GET", &format!("{path}?exclude=store"), "").await.status(), 401);
        assert_eq!(ask(&server, "GET", &format!("{path}?verbose"), "alice-may-only-read").await.status(), 200);
    }
    server.host.store().close().await;
    let hidden = answer(ask(&server, "GET", "/readyz", "").await).await;
    assert_eq!((hidden.code, hidden.body), (503, json!("not ready\n")));
    let shown = answer(ask(&server, "GET", "/readyz", "alice-may-only-read").await).await;
    assert!(shown.code == 503 && shown.body.as_str().unwrap().contains("[-]store"), "{}", shown.body);
}

#[tokio::test]
async fn stream_ends_when_its_token_is_revoked_and_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let server = guarded(&folder).await;
    let watch = format!("{DEPLOYMENTS}?watch=1");
    let follow = async |path: &str, token: &str| {
        let response = ask(&server, "GET", path, token).await;
        assert_eq!(response.status(), 200, "{path}");
        Lines { body: response.into_body(), buffer: String::new() }
    };
    let mut others = follow(&watch, "bob-may-also-write").await;
    let mut ends = Vec::new();
    for path in [&*watch, "/api/v1/events?watch=1", "/homeostat/v1/logs?follow=1", "/homeostat/v1/events?follow=1"] {
        ends.push(follow(path, "alice-may-only-read").await);
    }
    let remaining: String = TOKENS.split_inclusive('\n').filter(|line| line.contains("bob")).collect();
    std::fs::write(folder.path().join("tokens.yaml"), remaining).unwrap();
    for lines in &mut ends {
        assert!(lines.next().await.is_none(), "it ends");
    }
    assert_eq!(ask(&server, "GET", &watch, "alice-may-only-read").await.status(), 401);
    let mut document = deployment("web", "web", 1);
    document["metadata"]["namespace"] = "default".into();
    server.host.store().write(homeostat_store::Write::Create { document }).await.unwrap();
    assert_eq!(others.event().await, event("ADDED", "web"));
}

/// Connects as a client that trusts one certificate.
async fn connect(
    server: &Handle,
    certificate: &Certificate,
    protocols: &[&[u8]],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    try_to_connect(server, certificate, protocols).await.unwrap()
}

async fn try_to_connect(
    server: &Handle,
    certificate: &Certificate,
    protocols: &[&[u8]],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate.chain).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let Address::Tls { host, port } = server.address() else { panic!("not in TLS") };
    let stream = TcpStream::connect((host.as_str(), *port)).await.unwrap();
    let name = ServerName::try_from(host.clone()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn in_tls(options: Options) -> (Server, Handle, Certificate, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let address = "https://127.0.0.1:0";
    let certificate = Certificate::load_or_generate(folder.path(), &address.parse().unwrap()).unwrap().certificate;
    let server = Server::start().await;
    let options = Options { address: address.into(), certificate: Some(certificate.clone()), ..options };
    let handle = serve(options, server.host.clone()).await.unwrap();
    (server, handle, certificate, folder)
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_in_tls() {
    let (_server, handle, certificate, _folder) = in_tls(Options::default()).await;
    assert_eq!(handle.fingerprint().unwrap().len(), 95);
    let stream = connect(&handle, &certificate, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let path = format!("{}{DEPLOYMENTS}", handle.address());
    let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);

    let stream = connect(&handle, &certificate, &[b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/livez").header("host", "127.0.0.1").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn slow_tls_handshake_is_cut_off_and_frees_its_permit() {
    let (_server, handle, certificate, _folder) =
        in_tls(Options { connections_max: 1, request_ms_max: 300, ..Options::default() }).await;
    let Address::Tls { host, port } = handle.address() else { panic!("not in TLS") };
    let silent = TcpStream::connect((host.as_str(), *port)).await.unwrap();
    let stream = soon(connect(&handle, &certificate, &[])).await;
    // The same bound holds after the handshake.
    let next = soon(connect(&handle, &certificate, &[])).await;
    drop((silent, stream, next));
}

#[tokio::test]
async fn an_address_and_a_certificate_that_do_not_go_together_are_refused() {
    let (server, _handle, certificate, _folder) = in_tls(Options::default()).await;
    for (address, certificate) in [("https://127.0.0.1:0", None), ("http://127.0.0.1:0", Some(certificate))] {
        let options = Options { address: address.into(), certificate, ..Options::default() };
        let refused = serve(options, server.host.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("do not match"), "{refused}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_those_of_before_go_on() {
    let (_server, handle, certificate, folder) = in_tls(Options::default()).await;
    let stream = connect(&handle, &certificate, &[b"http/1.1"]).await;
    let (mut before, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let new = folder.path().join("new");
    let new = Certificate::load_or_generate(&new, &"https://127.0.0.1:0".parse().unwrap()).unwrap().certificate;
    for (from, to) in [(&new.key, &certificate.key), (&new.chain, &certificate.chain)] {
        std::fs::copy(from, to).unwrap();
    }
    let shown = async {
        while try_to_connect(&handle, &new, &[b"http/1.1"]).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon(shown).await;
    let request = Request::get("/livez").header("host", "127.0.0.1").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(before.send_request(request).await.unwrap().status(), 200);
}

/// A proxy may have checked the one, and the server the other.
#[tokio::test]
async fn a_request_with_two_hosts_is_refused_with_and_without_tokens() {
    let folder = tempfile::tempdir().unwrap();
    for server in [guarded(&folder).await, Server::start().await] {
        let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
        for (hosts, code) in [("host: localhost\r\n", "200"), ("host: localhost\r\nhost: localhost\r\n", "400")] {
            let mut stream = UnixStream::connect(socket).await.unwrap();
            let bearer = "authorization: Bearer alice-may-only-read";
            let request = format!("GET {DEPLOYMENTS} HTTP/1.1\r\n{hosts}{bearer}\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut received = Vec::new();
            soon(stream.read_to_end(&mut received)).await.unwrap();
            let received = String::from_utf8(received).unwrap();
            assert!(received.starts_with(&format!("HTTP/1.1 {code} ")), "{hosts}: {received}");
        }
    }
}

#[tokio::test]
async fn the_time_at_which_the_certificate_expires_is_a_metric() {
    let (server, handle, certificate, _folder) = in_tls(Options::default()).await;
    let stream = connect(&handle, &certificate, &[b"http/1.1"]).await;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/metrics").header("host", "127.0.0.1").body(Empty::<Bytes>::new()).unwrap();
    let metrics = answer(sender.send_request(request).await.unwrap()).await.body;
    let certificate = CertificateDer::from_pem_file(&certificate.chain).unwrap();
    let until = homeostat_certificates::validity(&certificate).unwrap().end().as_second();
    let name = "homeostat_tls_certificate_expiry_timestamp_seconds";
    assert!(metrics.as_str().unwrap().contains(&format!("\n{name} {until}\n")), "{metrics}");
    let plain = server.get("/metrics").await;
    assert!(!plain.as_str().unwrap().contains(&format!("\n{name} ")), "there is no certificate: {plain}");
}
