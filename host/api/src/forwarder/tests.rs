use std::net::SocketAddr;
use std::path::PathBuf;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::Metrics;
use crate::tls::TlsIdentity;

const TOKEN: &str = "Bearer a-token-that-also-writes";
const IDENTITY: &str = "b_0123";

/// A server at the address of another host, which records the heads of requests.
struct OtherServer {
    address: SocketAddr,
    is_tls: bool,
    heads: Arc<Mutex<Vec<String>>>,
}

impl OtherServer {
    /// Starts a server that sends one response to each request, with TLS if there is a certificate.
    async fn start(certificate: Option<crate::Certificate>, response: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let identity = certificate.map(|certificate| TlsIdentity::open(certificate, Metrics::default()).unwrap());
        let (is_tls, seen) = (identity.is_some(), Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                match &identity {
                    None => answer(stream, &seen, &response).await,
                    // A client that does not trust the certificate ends the handshake.
                    Some(identity) => match identity.last_value().acceptor.accept(stream).await {
                        Ok(stream) => answer(stream, &seen, &response).await,
                        Err(_) => continue,
                    },
                }
            }
        });
        Self { address, is_tls, heads }
    }

    fn host(&self) -> OtherHost {
        host(Some(format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.address)))
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, heads: &Mutex<Vec<String>>, response: &str) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    heads.lock().push(String::from_utf8(head).unwrap());
    // A client that has enough of the answer closes the connection.
    drop(stream.write_all(response.as_bytes()).await);
    drop(stream.shutdown().await);
}

fn host(address: Option<String>) -> OtherHost {
    OtherHost { name: "b".into(), identity: IDENTITY.into(), address }
}

fn response(status: &str, by: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{ANSWERED_BY}: {by}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn fine() -> String {
    response("200 OK", IDENTITY, "{}")
}

fn certificate() -> (TempDir, crate::Certificate) {
    let folder = tempfile::tempdir().unwrap();
    let made = crate::Certificate::load_or_generate(folder.path(), &"https://127.0.0.1:1".parse().unwrap()).unwrap();
    (folder, made.certificate)
}

fn forwarder(authority: Option<&PathBuf>) -> Forwarder {
    Forwarder::new(authority.map(PathBuf::as_path)).unwrap()
}

/// A question with a token and with headers that concern the asked host alone.
fn question(method: Method) -> Question {
    let headers = [("authorization", TOKEN), ("cookie", "session=1"), ("x-forwarded-for", "198.51.100.7")];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    Question::new(method, "/homeostat/v1/hosts".into(), Bytes::new(), &HeaderMap::from_iter(headers))
}

fn reason(answer: Result<Bytes, UnansweredHost>) -> String {
    answer.unwrap_err().reason
}

#[tokio::test]
async fn a_token_goes_over_verified_tls_and_nowhere_else() {
    let ((_own, trusted), (_other, foreign)) = (certificate(), certificate());
    let forwarder = forwarder(Some(&trusted.chain));
    let verified = OtherServer::start(Some(trusted), fine()).await;
    assert_eq!(forwarder.ask(&verified.host(), &question(Method::GET)).await.unwrap(), "{}");
    assert!(verified.heads.lock()[0].contains(&format!("authorization: {TOKEN}\r\n")));
    let plain = OtherServer::start(None, fine()).await;
    assert_eq!(forwarder.ask(&plain.host(), &question(Method::GET)).await.unwrap(), "{}");
    assert!(!plain.heads.lock()[0].to_ascii_lowercase().contains("authorization"));
    let unverified = OtherServer::start(Some(foreign), fine()).await;
    let refused = reason(forwarder.ask(&unverified.host(), &question(Method::GET)).await);
    assert!(refused.contains("must be signed by the CA in the file of `--fleet-ca`"), "{refused}");
    assert!(unverified.heads.lock().is_empty());
}

#[tokio::test]
async fn without_a_ca_file_no_host_is_asked_over_tls() {
    let (_folder, own) = certificate();
    let server = OtherServer::start(Some(own), fine()).await;
    let refused = reason(forwarder(None).ask(&server.host(), &question(Method::GET)).await);
    assert!(refused.contains("start this host with `--fleet-ca FILE`"), "{refused}");
    assert!(server.heads.lock().is_empty());
}

#[tokio::test]
async fn a_forwarded_request_has_no_other_header_of_the_client() {
    let server = OtherServer::start(None, fine()).await;
    for (method, expected) in [
        (Method::GET, &["accept", "homeostat-forwarded-to", "host"][..]),
        (Method::POST, &["accept", "content-type", "homeostat-forwarded-to", "host"]),
    ] {
        forwarder(None).ask(&server.host(), &question(method)).await.unwrap();
        let head = server.heads.lock().pop().unwrap();
        let names = head.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0.to_ascii_lowercase()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, expected, "{head}");
        assert!(head.contains(&format!("homeostat-forwarded-to: {IDENTITY}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn an_answer_of_another_program_counts_as_none() {
    for response in [response("200 OK", "b_9999", "{}"), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".into()] {
        let server = OtherServer::start(None, response).await;
        let refused = reason(forwarder(None).ask(&server.host(), &question(Method::GET)).await);
        assert!(refused.contains("another program answers"), "{refused}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = OtherServer::start(None, fine()).await;
    let location = format!("302 Found\r\nlocation: http://{}/", target.address);
    let server = OtherServer::start(None, response(&location, IDENTITY, "")).await;
    let refused = reason(forwarder(None).ask(&server.host(), &question(Method::GET)).await);
    assert_eq!(refused, "it answered with status 302: \"\"");
    assert!(target.heads.lock().is_empty());
}

#[tokio::test]
async fn an_answer_beyond_its_bound_is_refused() {
    let server = OtherServer::start(None, response("200 OK", IDENTITY, &"x".repeat(ANSWER_BYTES_MAX + 1))).await;
    let refused = reason(forwarder(None).ask(&server.host(), &question(Method::GET)).await);
    assert_eq!(refused, "its answer has more than 4 MiB: ask for less");
}

#[tokio::test]
async fn the_message_of_a_refusal_is_quoted_and_cut_and_its_status_is_kept() {
    let message = serde_json::json!({ "message": format!("\u{1b}[2J{}", "x".repeat(4 * MESSAGE_CHARS_MAX)) });
    let server = OtherServer::start(None, response("404 Not Found", IDENTITY, &message.to_string())).await;
    let refused = forwarder(None).ask(&server.host(), &question(Method::GET)).await.unwrap_err();
    assert!(refused.reason.starts_with("it answered with status 404: \"\\u{1b}[2J"), "{refused:?}");
    assert!(refused.reason.len() < 2 * MESSAGE_CHARS_MAX);
    assert_eq!(Failure::from(refused).code(), 404);
}

#[tokio::test]
async fn a_host_that_demands_a_token_says_what_to_set() {
    let (_folder, own) = certificate();
    let response = response("401 Unauthorized", IDENTITY, "{}");
    let forwarder = forwarder(Some(&own.chain));
    let plain = OtherServer::start(None, response.clone()).await;
    let refused = forwarder.ask(&plain.host(), &question(Method::GET)).await.unwrap_err();
    assert!(refused.reason.contains("`--listen https://HOST:PORT`") && refused.reason.contains("`--fleet-ca FILE`"));
    // The caller's token is right for the asked host.
    assert_eq!(Failure::from(refused).code(), 502);
    let verified = OtherServer::start(Some(own), response).await;
    let refused = reason(forwarder.ask(&verified.host(), &question(Method::GET)).await);
    assert!(refused.contains("the same tokens"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_in_time_is_named() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let hosts = [host(Some(address)), OtherHost { name: "c".into(), ..host(None) }];
    for (method, expected) in [
        (Method::GET, "it did not answer within 5 s"),
        (Method::POST, "it did not answer within 5 s, and may have made the change"),
    ] {
        let answers = forwarder(None).ask_all(&hosts, &question(method)).await;
        let unanswered: Vec<_> = answers.unanswered.iter().map(|one| (&*one.host, &*one.reason)).collect();
        assert_eq!(unanswered, [("b", expected), ("c", "no record tells where it serves its API")]);
    }
}

#[tokio::test]
async fn hosts_answers_and_streams_have_bounds() {
    let forwarder = forwarder(None);
    let hosts = vec![host(None); HOSTS_MAX + 3];
    let answers = forwarder.ask_all(&hosts, &question(Method::GET)).await;
    let beyond = |one: &&UnansweredHost| one.reason.contains("at most");
    assert_eq!((answers.unanswered.len(), answers.unanswered.iter().filter(beyond).count()), (HOSTS_MAX + 3, 3));
    let all = u32::try_from(ANSWERS_MAX).unwrap() - u32::try_from(HOSTS_MAX).unwrap();
    let _held = Arc::clone(&forwarder.answers).try_acquire_many_owned(all).unwrap();
    let refused = reason(forwarder.ask(&host(None), &question(Method::GET)).await);
    assert!(refused.contains("too many answers"), "{refused}");
    drop(answers);
    let refused = reason(forwarder.ask(&host(None), &question(Method::GET)).await);
    assert!(refused.contains("no record"), "{refused}");
    let _held = Arc::clone(&forwarder.streams).try_acquire_many_owned(u32::try_from(STREAMS_MAX).unwrap()).unwrap();
    let refused = forwarder.stream(&host(None), &question(Method::GET)).await.err().unwrap();
    assert!(refused.reason.contains("too many streams"), "{refused:?}");
}

#[test]
fn only_tls_and_plain_http_on_loopback_are_routes() {
    for (text, expected) in [
        ("http://127.0.0.1:8081", Route::Plain),
        ("127.0.0.1:8081", Route::Plain),
        ("http://[::1]:8081", Route::Plain),
        ("https://b.example:8443", Route::Verified),
        ("https://127.0.0.1:8443", Route::Verified),
    ] {
        assert_eq!(route(Some(text)).unwrap().1, expected, "{text}");
    }
    for (text, expected) in [
        ("http://192.0.2.7:8081", "plain HTTP of another machine"),
        ("http://0.0.0.0:8081", "plain HTTP of another machine"),
        ("https://0.0.0.0:8443", "names no machine"),
        ("https://[::]:8443", "names no machine"),
        ("unix:/run/homeostat/host.sock", "a socket of its own machine"),
        ("file:///etc/passwd", "cannot be read"),
        ("http://b.example:8081", "cannot be read"),
        ("https://user:pass@b.example:8443", "cannot be read"),
        ("https://b.example:8443/path?query", "cannot be read"),
        ("https://b.example:8443\r\nx: y", "cannot be read"),
    ] {
        let refused = route(Some(text)).unwrap_err();
        assert!(refused.contains(expected) && refused.contains(&format!("{text:?}")), "{text}: {refused}");
    }
    assert!(route(None).is_err());
}

#[test]
fn a_ca_file_without_a_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    for text in
        [None, Some(""), Some("no PEM"), Some("-----BEGIN CERTIFICATE-----\nno base64!\n-----END CERTIFICATE-----")]
    {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        assert!(
            matches!(Forwarder::new(Some(&path)), Err(Error::FleetAuthority { .. } | Error::Client { .. })),
            "{text:?}"
        );
    }
}
