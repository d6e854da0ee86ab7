//! The limits of one client, and the refusals beyond them.

use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const WATCH: &str = "/apis/apps/v1/deployments?watch=1";

/// More than all buffers between server and client hold.
const LONG: usize = 900_000;

/// Writes a request on its own connection, and reads nothing.
async fn ask_and_read_nothing(server: &Server, path: &str) -> UnixStream {
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// Fills the store with more than the buffers of a connection hold.
async fn fill(server: &Server) {
    for number in 0..4 {
        let mut document = deployment(&format!("web-{number}"), "web", 1);
        document["spec"]["text"] = "x".repeat(LONG).into();
        assert_eq!(server.ask("POST", DEPLOYMENTS, &document).await.code, 201);
    }
}

/// Sends requests until one is accepted again.
async fn until_there_is_room(server: &Server) {
    let answered = async {
        while server.send("GET", WATCH, "", "").await.status() != 200 {
            tokio::task::yield_now().await;
        }
    };
    soon(answered).await;
}

#[tokio::test]
async fn a_watch_above_the_limit_is_refused_until_another_one_ends() {
    let server = Server::with(Options { watches_max: 2, ..Options::default() }).await;
    let first = server.send("GET", WATCH, "", "").await;
    let second = server.send("GET", "/homeostat/v1/logs?follow=1", "", "").await;
    assert_eq!((first.status(), second.status()), (200.try_into().unwrap(), 200.try_into().unwrap()));
    let third = server.send("GET", WATCH, "", "").await;
    assert_eq!(third.headers()["retry-after"], "1");
    let third = answer(third).await;
    assert_eq!((third.code, &third.body["reason"]), (429, &json!("TooManyRequests")));
    assert_eq!(third.body["details"]["retryAfterSeconds"], 1);
    assert_eq!(server.get(DEPLOYMENTS).await["kind"], "DeploymentList", "other requests are answered");
    drop(first);
    until_there_is_room(&server).await;
}

#[tokio::test]
async fn watches_leave_half_of_the_connections_to_others() {
    let server = Server::with(Options { connections_max: 4, ..Options::default() }).await;
    let watches = [server.send("GET", WATCH, "", "").await, server.send("GET", WATCH, "", "").await];
    assert!(watches.iter().all(|watch| watch.status() == 200));
    assert_eq!(server.send("GET", WATCH, "", "").await.status(), 429);
    server.get(DEPLOYMENTS).await;
}

#[tokio::test]
async fn many_watches_share_one_connection_and_the_bound_counts_them() {
    // One client may have eight ninths of them.
    let server = Server::with(Options { watches_max: 225, ..Options::default() }).await;
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let stream = UnixStream::connect(socket).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let ask = async |path: &str| {
        let request = Request::get(format!("http://localhost{path}")).body(Full::new(Bytes::new())).unwrap();
        soon(sender.clone().send_request(request)).await.unwrap()
    };
    let mut watches = Vec::new();
    for _ in 0..200 {
        let response = ask(WATCH).await;
        assert_eq!(response.status(), 200);
        watches.push(Lines { body: response.into_body(), buffer: String::new() });
    }
    assert_eq!(ask(WATCH).await.status(), 429);
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    for watch in &mut watches {
        assert_eq!(watch.event().await, event("ADDED", "web"));
    }
    assert_eq!(ask(DEPLOYMENTS).await.status(), 200);
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout() {
    let server = Server::with(Options { watch_ms_max: 100, ..Options::default() }).await;
    let mut watch = server.follow(WATCH).await;
    assert!(watch.next().await.is_none());
    let mut timed = server.follow(&format!("{WATCH}&timeoutSeconds=1")).await;
    assert!(timed.next().await.is_none());
}

#[tokio::test]
async fn a_watch_without_a_timeout_gets_that_of_the_server() {
    let server = Server::start().await;
    let mut watch = server.follow(&format!("{WATCH}&timeoutSeconds=0")).await;
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    assert_eq!(watch.event().await, event("ADDED", "web"));
}

#[tokio::test]
async fn an_answer_that_does_not_begin_in_time_is_a_timeout() {
    let server = Server::with(Options { answer_ms_max: 100, ..Options::default() }).await;
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let mut stream = UnixStream::connect(socket).await.unwrap();
    // The body never arrives.
    let head = format!(
        "POST {DEPLOYMENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let text = |received: &[u8]| String::from_utf8_lossy(received).into_owned();
    while !text(&received).contains("\"reason\":\"Timeout\"") {
        let read = soon(stream.read_buf(&mut received)).await.unwrap();
        assert_ne!(read, 0, "{}", text(&received));
    }
    let received = text(&received);
    assert!(received.starts_with("HTTP/1.1 504 "), "{received}");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_list_loses_its_connection() {
    let server = Server::with(Options { connections_max: 1, stall_ms_max: 100, ..Options::default() }).await;
    fill(&server).await;
    let mut stream = ask_and_read_nothing(&server, DEPLOYMENTS).await;
    // There was only this connection, so it was cut off.
    assert_eq!(server.get("/livez").await, "ok");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    assert!(received.len() < 4 * LONG, "it got everything: {} bytes", received.len());
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let server = Server::with(Options { connections_max: 1, stall_ms_max: 10_000, ..Options::default() }).await;
    fill(&server).await;
    let mut stream = ask_and_read_nothing(&server, DEPLOYMENTS).await;
    let (mut received, mut piece) = (0, vec![0; 16 * 1024]);
    while received < 4 * LONG {
        let read = soon(stream.read(&mut piece)).await.unwrap();
        assert_ne!(read, 0, "cut after {received} bytes");
        received += read;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_watch_whose_client_does_not_read_is_closed() {
    let server = Server::with(Options { watches_max: 1, stall_ms_max: 100, ..Options::default() }).await;
    fill(&server).await;
    let stream = ask_and_read_nothing(&server, "/apis/apps/v1/deployments?watch=1").await;
    stream.readable().await.unwrap();
    assert_eq!(server.send("GET", WATCH, "", "").await.status(), 429);
    until_there_is_room(&server).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_one_answer_among_many_loses_the_connection() {
    let server = Server::with(Options { watches_max: 1, stall_ms_max: 100, ..Options::default() }).await;
    fill(&server).await;
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("http://localhost/apis/apps/v1/deployments?watch=1");
    let response = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    // The server reads the connection, and not this body.
    until_there_is_room(&server).await;
    soon(connection).await.unwrap().ok();
    drop(response);
}

/// Sends a request while another client holds all permits, and returns the response.
async fn ask_without_room(options: Options, path: &str) -> (Server, UnixStream, Response<Incoming>) {
    let server = Server::with(Options { request_ms_max: 100, ..options }).await;
    fill(&server).await;
    let reader = ask_and_read_nothing(&server, DEPLOYMENTS).await;
    reader.readable().await.unwrap();
    let refused = server.send("GET", path, "", "").await;
    (server, reader, refused)
}

#[tokio::test]
async fn requests_above_the_limit_are_refused_and_health_checks_answered() {
    let options = Options { requests_max: 1, ..Options::default() };
    let (server, reader, refused) = ask_without_room(options, &format!("{DEPLOYMENTS}/web-0")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(answer(refused).await.body["reason"], "TooManyRequests");
    assert_eq!(server.get("/livez").await, "ok");
    assert_eq!(server.get("/readyz").await, "ok");
    let metrics = server.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("homeostat_api_refusals_total{room=\"requests\"} 1"), "{metrics}");
    drop(reader);
    let answered = async { while server.send("GET", DEPLOYMENTS, "", "").await.status() != 200 {} };
    soon(answered).await;
}

#[tokio::test]
async fn lists_above_the_limit_are_refused_and_other_requests_answered() {
    let options = Options { lists_max: 1, ..Options::default() };
    let (server, _reader, refused) = ask_without_room(options, DEPLOYMENTS).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(server.send("GET", WATCH, "", "").await.status(), 429, "a watch begins with a list");
    assert_eq!(server.send("GET", &format!("{WATCH}&resourceVersion=4"), "", "").await.status(), 200);
    assert_eq!(server.get(&format!("{DEPLOYMENTS}/web-0")).await["kind"], "Deployment");
    let metrics = server.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("homeostat_api_refusals_total{room=\"lists\"} 2"), "{metrics}");
}

#[tokio::test]
async fn unread_bytes_of_a_connection_are_bounded() {
    let server = Server::start().await;
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let mut stream = UnixStream::connect(socket).await.unwrap();
    // The connection preface, and empty settings. Source: RFC 9113, 3.4 and 6.5.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let (mut of_one, mut of_all) = (65_535, 65_535);
    // The server's settings come first. A window update for the connection may follow at any time.
    while of_all == 65_535 {
        let mut head = [0; 9];
        soon(stream.read_exact(&mut head)).await.unwrap();
        let mut frame = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        soon(stream.read_exact(&mut frame)).await.unwrap();
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        match head[3] {
            4 => frame.chunks(6).filter(|setting| setting[1] == 4).for_each(|setting| of_one = number(&setting[2..])),
            8 => of_all += number(&frame),
            _ => {}
        }
    }
    assert_eq!((of_one, of_all), (64 * 1024, 128 * 1024));
}
