//! Requests to a server of these tests, one connection each, without an executor.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The limit of one read. A frozen server answers nothing.
const READ_BOUND: Duration = Duration::from_secs(30);

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The type of the body; empty if the answer has none.
    pub content_type: String,
    /// The texts of the warnings.
    pub warnings: Vec<String>,
    /// The whole body. Bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl Answer {
    /// Parses the body.
    ///
    /// # Panics
    /// When it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request in the clear to a server on this machine, with a JSON body. `None` if there is no whole answer.
pub fn ask_plain(port: u16, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    Request { method, body: body.as_bytes(), ..Request::get(path) }.send(port)
}

/// As [`ask_plain`], with a token.
pub fn ask_plain_with(port: u16, token: &str, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    Request { method, body: body.as_bytes(), token: Some(token), ..Request::get(path) }.send(port)
}

/// A request without its connection. Nothing of it is checked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, as `GET`.
    pub method: &'a str,
    /// The path with the query.
    pub path: &'a str,
    /// The bearer token, if there is one.
    pub token: Option<&'a str>,
    /// The type of the body; empty for no such header.
    pub content_type: &'a str,
    /// The accepted types; empty for no such header.
    pub accept: &'a str,
    /// The body, which may be any bytes.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns a request for a path, with types of JSON.
    pub fn get(path: &'a str) -> Self {
        let json = "application/json";
        Self { method: "GET", path, token: None, content_type: json, accept: json, body: b"" }
    }

    /// Sends the request in the clear to a server on this machine. `None` if there is no whole answer.
    pub fn send(&self, port: u16) -> Option<Answer> {
        self.over(connection(port)?)
    }

    /// Sends the request through TLS. `None` if there is no whole answer.
    pub(super) fn send_tls(&self, port: u16, config: Arc<ClientConfig>) -> Option<Answer> {
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let tls = ClientConnection::new(config, name).expect("the configuration is complete");
        self.over(StreamOwned::new(tls, connection(port)?))
    }

    /// HTTP 1.0 has no chunks: the answer ends with its connection.
    fn over(&self, mut connection: impl Read + Write) -> Option<Answer> {
        let Self { method, path, token, content_type, accept, body } = self;
        let header = |name: &str, value: &str| {
            if value.is_empty() { String::new() } else { format!("{name}: {value}\r\n") }
        };
        let token = token.map(|token| header("Authorization", &format!("Bearer {token}"))).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{token}{}{}Content-Length: {}\r\n\r\n",
            header("Accept", accept),
            header("Content-Type", content_type),
            body.len()
        );
        connection.write_all(head.as_bytes()).ok()?;
        // A server may refuse a long body before it has read it.
        drop(connection.write_all(body).and_then(|()| connection.flush()));
        let mut answer = Vec::new();
        let read = connection.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").filter(|_| read.is_ok())?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let values = |wanted: &'static str| {
            let headers = head.lines().filter_map(|line| line.split_once(": "));
            headers.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned())
        };
        let content_type = values("content-type").next().unwrap_or_default();
        Some(Answer { status, content_type, warnings: values("warning").collect(), text: body.to_owned() })
    }
}

fn connection(port: u16) -> Option<TcpStream> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    connection.set_read_timeout(Some(READ_BOUND)).ok()?;
    // Otherwise the body waits until the server has acknowledged the head, which takes it 40 ms.
    connection.set_nodelay(true).ok()?;
    Some(connection)
}
